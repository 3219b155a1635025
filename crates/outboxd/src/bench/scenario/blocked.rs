//! A sink that takes nothing for a while: what waiting costs, and how it goes on afterwards. A broker is blocked by a gate
//! before it; where there is none, an endpoint of our own does not answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use faults::Proxy;
use url::Url;

use super::super::Bench;
use super::super::measure::{Pace, Role, Run, Watch};
use super::super::relay::{BROKER, Job, Relay};
use super::super::way::Way;
use super::arrived;
use super::gate::Gate;

pub(super) async fn blocked(bench: &Bench<'_>) -> anyhow::Result<Vec<Run>> {
    let count = bench.load.messages;
    bench.way.fresh(bench.folder()).await?;
    let log = bench.ground.database.fresh().await?;
    log.fill(bench.load, 0).await?;
    let (gate, job) = gated(bench, bench.way.aim(log.job(), false)).await?;
    let mut relay = Relay::start(bench, &job).await?;
    relay.until(1, async || log.delivered().await).await?;

    gate.set(false);
    bench.tell(format_args!("it takes nothing for {} s", bench.args.seconds));
    let watch = Watch::relay(bench, &relay).await;
    tokio::time::sleep(Duration::from_secs(bench.args.seconds)).await;
    relay.check()?;
    let while_blocked = watch.run("while it takes nothing", Role::Ours, pace(0, watch.elapsed()));

    let before = log.delivered().await?;
    gate.set(true);
    let watch = Watch::relay(bench, &relay).await;
    relay.until(count, async || log.delivered().await).await?;
    let afterwards = watch.run(
        "afterwards, with the wait for the next try",
        Role::Beside,
        pace(count - before, watch.elapsed()),
    );
    relay.stop().await?;
    let afterwards = watch.booked(afterwards).await;
    // The endpoint keeps nothing that could be counted.
    if !matches!(bench.way, Way::File) {
        at_least(bench, count).await?;
    }
    Ok(vec![while_blocked, afterwards])
}

fn pace(messages: u64, took: Duration) -> Pace {
    Pace { carried: messages, messages, took }
}

/// A gate, and a job that leads through it.
async fn gated(bench: &Bench<'_>, mut job: Job) -> anyhow::Result<(Gate, Job)> {
    let proxy = match bench.way {
        Way::File => {
            let gate = Gate::endpoint().await?;
            job.sink = format!("http = \"http://127.0.0.1:{}/\"", gate.port());
            return Ok((gate, job));
        }
        Way::Rabbit(rabbit) => {
            let url = Url::parse(rabbit.url().reveal())?;
            let host = url.host_str().context("the broker has no host")?;
            Arc::new(Proxy::to((host, url.port().unwrap_or(5672))).await?)
        }
        #[cfg(feature = "kafka")]
        Way::Kafka(kafka) => kafka.proxy().context("there is no proxy before Kafka")?,
    };
    for (_, value) in job.environment.iter_mut().filter(|(name, _)| *name == BROKER) {
        *value = proxy.reroute(value)?;
    }
    Ok((Gate::Proxy(proxy), job))
}

/// What was under way when it was blocked is sent again, so some may be there twice.
async fn at_least(bench: &Bench<'_>, expected: u64) -> anyhow::Result<()> {
    let counter = bench.way.counter(bench.folder()).await?;
    let count = counter.count().await?;
    if count > expected {
        return Ok(());
    }
    arrived(bench, expected).await
}
