//! `demo`: what a newcomer meets. A small shop writes orders and their events into SQLite, and three pipes carry
//! them from the one log: a relay to a file, and two consumers without a broker, of which one has its troubles.

mod consumer;
mod shop;
mod sum;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use outbox::admin::Admin;
use outbox::lines::Lines;
use outbox::policy::Backoff;
use outbox::sqlite::Outbox;
use outbox::{Pipe, Policy, Sink, Stats};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::args::{DemoArgs, Format};
use crate::trouble::{Exit, Trouble};
use shop::Ledger;

/// How long it runs when nobody says.
const SECONDS: u64 = 10;

/// How long the pipes may take to catch up once the shop has closed.
const CATCH_UP: Duration = Duration::from_secs(30);

/// The pipes, in the order in which they are shown.
pub(super) const PIPES: [&str; 3] = ["relay", "inventory", "mailer"];

/// Where the demonstration keeps its things.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn new(folder: Option<PathBuf>) -> anyhow::Result<Self> {
        let folder = match folder {
            Some(folder) => {
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                folder
            }
            // Kept, so that the commands at the end have something to look at.
            None => tempfile::Builder::new().prefix("outboxd-demo-").tempdir()?.keep(),
        };
        let place = Self { folder: folder.canonicalize()? };
        if place.database().exists() {
            let what = format!("{} holds an earlier demo", place.folder.display());
            let help = "choose another folder with --dir, or remove this one";
            return Err(Trouble::new(Exit::Failed, what, help).into());
        }
        Ok(place)
    }

    fn database(&self) -> PathBuf {
        self.folder.join("shop.db")
    }

    fn events(&self) -> PathBuf {
        self.folder.join("events.jsonl")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("outboxd.toml")
    }

    /// A configuration with which every other verb finds the database.
    fn write_config(&self) -> anyhow::Result<()> {
        let quoted = |path: &Path| toml::Value::String(path.display().to_string()).to_string();
        let config = format!(
            "# Made by `outboxd demo`.\n\
             [connections]\nshop = {}\n\n\
             [sources.orders]\non = \"shop\"\n\n\
             [sinks.events]\nfile = {}\n\n\
             [pipes.relay]\nfrom = \"orders\"\nto = \"events\"\n",
            quoted(Path::new(&format!("sqlite:{}", self.database().display()))),
            quoted(&self.events()),
        );
        Ok(std::fs::write(self.config(), config)?)
    }
}

/// Runs the demonstration.
pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let place = Place::new(args.dir)?;
    place.write_config()?;
    let outbox = Outbox::connect(&format!("sqlite:{}", place.database().display())).await?;
    outbox.migrate().await?;
    shop::open(&outbox).await?;
    consumer::open(&outbox).await?;

    let (closing, stop) = (CancellationToken::new(), CancellationToken::new());
    listen(closing.clone())?;
    let seconds = args.seconds.unwrap_or(SECONDS);
    eprintln!("A shop writes orders and their events into {} for {seconds} s;", place.database().display());
    eprintln!(
        "three pipes carry them on: relay (to a file), inventory and mailer (handlers). Ctrl-C ends it sooner.\n"
    );
    let (ledger, mut pipes) = (Arc::new(Ledger::default()), JoinSet::new());
    let stats = start_pipes(&place, &outbox, &stop, &mut pipes)?;
    let shop = tokio::spawn(shop::trade(outbox.clone(), ledger.clone(), closing.clone()));
    let watcher = tokio::spawn(watch::watch(outbox.clone(), ledger.clone(), stats.clone(), stop.clone()));

    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
        () = closing.cancelled() => {}
    }
    closing.cancel();
    shop.await??;
    catch_up(&outbox, &ledger).await?;
    stop.cancel();
    while let Some(ended) = pipes.join_next().await {
        ended??;
    }
    watcher.await?;

    let sum = sum::sum(&place, &outbox, &ledger, &stats).await?;
    match args.format {
        Format::Json => sum::print_json(&sum)?,
        Format::Table => sum::print(&sum, &place)?,
    }
    Ok(if sum.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ctrl-C closes the shop; once it is closed, by time or by hand, Ctrl-C leaves at once.
fn listen(closing: CancellationToken) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        while interrupt.recv().await.is_some() {
            if closing.is_cancelled() {
                std::process::exit(Exit::Interrupted as i32);
            }
            closing.cancel();
        }
    });
    Ok(())
}

fn start_pipes(
    place: &Place,
    outbox: &Outbox,
    stop: &CancellationToken,
    running: &mut JoinSet<outbox::Result<()>>,
) -> anyhow::Result<Vec<Arc<Stats>>> {
    let retry = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(2) };
    let sinks: [Arc<dyn Sink>; 3] = [
        Arc::new(Lines::file(place.events())),
        Arc::new(consumer::inventory(outbox)),
        Arc::new(consumer::mailer(outbox)),
    ];
    let mut stats = Vec::new();
    for (name, sink) in PIPES.into_iter().zip(sinks) {
        let policy = Policy { retry, ..Policy::default() };
        // SQLite has one writer at a time, so more than one delivery at once would only wait.
        let pipe = Pipe::new(outbox.cursor(name), sink).name(name).policy(policy).concurrency(1).batch(200);
        stats.push(pipe.stats());
        running.spawn(pipe.run(stop.clone()));
    }
    Ok(stats)
}

/// Waits until nothing is left but what waits for a person.
async fn catch_up(outbox: &Outbox, ledger: &Ledger) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + CATCH_UP;
    while tokio::time::Instant::now() < end && ledger.written() > 0 {
        let status = outbox.status().await?;
        if status.len() == PIPES.len() && status.iter().all(|cursor| cursor.pending + cursor.waiting == 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
