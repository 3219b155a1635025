//! A file of lines, each batch synced to the disk; or the relay's standard output, where arrivals are to be heard of.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::Instant;

use tokio::io::AsyncBufReadExt as _;
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use super::super::load::{Load, number_in};
use super::super::measure::Pace;
use super::{Arrivals, STOCK, headers};

pub(super) const NAME: &str = "lines.jsonl";

/// Lines between two syncs: the default batch of a pipe.
const BATCH: u64 = 500;

pub(super) fn fresh(folder: &Path) -> anyhow::Result<()> {
    Ok(File::create(folder.join(NAME)).map(drop)?)
}

pub(super) fn raw(load: Load, folder: &Path) -> anyhow::Result<Pace> {
    let line = |number: u64| {
        let attributes = headers("", "00000000-0000-7000-8000-000000000000", &load.key(number));
        let attributes = attributes.iter().take(6).map(|(name, value)| format!("\"{name}\":\"{value}\","));
        let payload = String::from_utf8(load.payload(number)).unwrap_or_default();
        format!("{{{}\"data\":{payload}}}\n", attributes.collect::<String>())
    };
    let stock: Vec<String> = (0..STOCK.min(load.messages)).map(line).collect();
    let mut file = File::create(folder.join(NAME))?;
    let begun = Instant::now();
    let (mut lines, mut left) = (stock.iter().cycle(), load.messages);
    while left > 0 {
        let batch = left.min(BATCH);
        let text: String = lines.by_ref().take(usize::try_from(batch)?).map(String::as_str).collect();
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        left -= batch;
    }
    Ok(Pace { carried: load.messages, messages: load.messages, took: begun.elapsed() })
}

pub(super) fn count(folder: &Path) -> anyhow::Result<u64> {
    Ok(BufReader::new(File::open(folder.join(NAME))?).split(b'\n').count() as u64)
}

pub(super) fn listen(stdout: ChildStdout) -> anyhow::Result<Arrivals> {
    let (send, arrivals) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut lines = tokio::io::BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let now = Instant::now();
            if let Some(number) = number_in(line.as_bytes())
                && send.send((number, now)).is_err()
            {
                return;
            }
        }
    });
    Ok(arrivals)
}
