//! When the broker has confirmed, only the relay knows: it is asked by its own figures.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::measure::Latency;
use super::super::relay::Job;

/// The figure: from the writing of a message to its confirmation.
const LAG: &str = "outbox_lag_seconds";

/// The bounds of its buckets, in milliseconds: fine where it matters.
fn bounds() -> impl Iterator<Item = f64> {
    let fine = (1..=60).map(|half| f64::from(half) * 0.5);
    let coarse = (7..=20).map(|five| f64::from(five) * 5.0);
    fine.chain(coarse).chain([150.0, 200.0, 300.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 60_000.0])
}

/// Somewhere to ask a relay.
pub(super) struct Confirms(SocketAddr);

impl Confirms {
    /// Lets a job tell its figures, with finer buckets than usual: those of a sink that nobody uses.
    pub(super) fn of(job: &mut Job) -> anyhow::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let buckets: Vec<String> = bounds().map(|bound| format!("{:.4}", bound / 1_000.0)).collect();
        job.more += &format!(
            "[http]\nlisten = \"{address}\"\n\n[sinks.buckets]\n\
             metrics = [{{ histogram = \"{LAG}\", value = \"{{payload.n}}\", buckets = [{}] }}]\n",
            buckets.join(", ")
        );
        Ok(Self(address))
    }

    /// What the relay has measured, rounded up to its buckets.
    pub(super) async fn latency(&self) -> anyhow::Result<Option<Latency>> {
        let mut stream = TcpStream::connect(self.0).await.context("the relay tells no figures")?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(read(&answer))
    }
}

fn read(figures: &str) -> Option<Latency> {
    // In microseconds, so that they can be sorted. Counts of a bucket include those of all smaller ones.
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for line in figures.lines().filter(|line| line.starts_with(LAG) && line.contains("_bucket{")) {
        let Some((_, bound)) = line.split_once("le=\"") else { continue };
        let (Some((bound, _)), Some((_, count))) = (bound.split_once('"'), line.rsplit_once(' ')) else {
            continue;
        };
        let (Ok(bound), Ok(count)) = (bound.parse::<f64>(), count.trim().parse::<u64>()) else { continue };
        if bound.is_finite() {
            *counts.entry((bound * 1_000_000.0).round() as u64).or_default() += count;
        }
    }
    let all = *counts.values().last()?;
    let ms = |part: f64| {
        let rank = ((all as f64 * part).ceil() as u64).max(1);
        let bound = counts.iter().find(|(_, count)| **count >= rank).map(|(bound, _)| *bound);
        bound.map(|bound| bound as f64 / 1_000.0)
    };
    Some(Latency { p50: ms(0.5)?, p99: ms(0.99)?, p999: ms(0.999)?, most: ms(1.0)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_bound_of_its_bucket() {
        let line = |kind: &str, bound: &str, count: u64| {
            format!("{LAG}_bucket{{pipe=\"bench\",type=\"{kind}\",le=\"{bound}\"}} {count}\n")
        };
        let figures = [
            line("a", "0.005", 50),
            line("a", "0.02", 99),
            line("a", "0.1", 100),
            line("a", "+Inf", 100),
            line("b", "0.005", 100),
            line("b", "0.02", 100),
            line("b", "0.1", 100),
            format!("{LAG}_sum{{pipe=\"bench\"}} 7.5\n"),
        ];
        let expected = Latency { p50: 5.0, p99: 20.0, p999: 100.0, most: 100.0 };
        assert_eq!(read(&figures.concat()), Some(expected));
        assert_eq!(read("outbox_delivered_total 7"), None);
        assert_eq!(read(&line("a", "0.005", 0)), None);
    }

    #[test]
    fn bounds_rise() {
        assert!(bounds().collect::<Vec<_>>().is_sorted_by(|one, next| one < next));
    }
}
