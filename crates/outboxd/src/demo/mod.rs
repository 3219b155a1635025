//! `demo`: what a newcomer meets. A small shop writes orders and their events into SQLite, and three pipes carry
//! them from the one log: a relay to a file, and two consumers without a broker, of which one has its troubles.

mod consumer;
mod counted;
mod place;
mod shop;
mod sum;
mod watch;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use outbox::Sink;
use outbox::admin::Admin;
use outbox::lines::Lines;
use outbox::sqlite::Outbox;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli;
use crate::cli::args::{DemoArgs, Format, RunArgs};
use crate::run::carry;
use crate::trouble::Exit;
use counted::{Count, Counted};
use place::Place;
use shop::Ledger;

/// How long it runs when nobody says.
const SECONDS: u64 = 10;

/// How long the pipes may take to catch up once the shop has closed.
const CATCH_UP: Duration = Duration::from_secs(30);

/// The pipes, in the order in which they are shown.
pub(super) const PIPES: [&str; 3] = ["relay", "inventory", "mailer"];

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
    let (ledger, plan) = (Arc::new(Ledger::default()), cli::load(&place.config())?);
    let (sinks, counts) = sinks(&place, &outbox);
    let until = stop.clone();
    let mut pipes = tokio::spawn(async move {
        let args = RunArgs { once: false, pipe: Vec::new(), listen: None };
        carry(&plan, Vec::new(), &args, until, sinks).await
    });
    tokio::select! {
        () = answers(&place) => {}
        ended = &mut pipes => {
            ended??;
            anyhow::bail!("the pipes ended by themselves");
        }
    }
    // Who reads a file of it does not look at pages.
    let stays = args.seconds.is_none() && std::io::stderr().is_terminal() && args.format == Format::Table;
    let seconds = args.seconds.unwrap_or(SECONDS);
    greet(&place, seconds, stays);
    let shop = tokio::spawn(shop::trade(outbox.clone(), ledger.clone(), closing.clone()));
    let watcher = tokio::spawn(watch::watch(outbox.clone(), ledger.clone(), counts.clone(), stop.clone()));

    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)), if !stays => {}
        () = closing.cancelled() => {}
        // They end before the stop only by a trouble.
        ended = &mut pipes => {
            ended??;
            anyhow::bail!("the pipes ended by themselves");
        }
    }
    closing.cancel();
    shop.await??;
    catch_up(&outbox, &ledger).await?;
    stop.cancel();
    pipes.await??;
    watcher.await?;

    let sum = sum::sum(&place, &outbox, &ledger, &counts).await?;
    match args.format {
        Format::Json => sum::print_json(&sum)?,
        Format::Table => sum::print(&sum, &place)?,
    }
    Ok(if sum.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns when the dashboard can be asked: nobody is sent to a page that is not there.
async fn answers(place: &Place) {
    while tokio::net::TcpStream::connect(place.listen).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a newcomer reads first.
fn greet(place: &Place, seconds: u64, stays: bool) {
    let until = if stays { "until Ctrl-C".to_owned() } else { format!("for {seconds} s") };
    eprintln!("Look at it: http://{}\n", place.listen);
    eprintln!("A shop writes orders and their events into {} {until};", place.database().display());
    eprintln!("three pipes carry them on: relay (to a file), inventory and mailer (handlers).");
    eprintln!(
        "One message of the mailer dies: find it under Failures and retry it. Ctrl-C ends it{}.\n",
        if stays { "" } else { " sooner" }
    );
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

type Sinks = BTreeMap<String, Arc<dyn Sink>>;

/// What takes the messages of each pipe, and what went through.
fn sinks(place: &Place, outbox: &Outbox) -> (Sinks, Vec<Arc<Count>>) {
    let sinks: [Arc<dyn Sink>; 3] = [
        Arc::new(Lines::file(place.events())),
        Arc::new(consumer::inventory(outbox)),
        Arc::new(consumer::mailer(outbox)),
    ];
    let counts: Vec<Arc<Count>> = PIPES.iter().map(|_| Arc::default()).collect();
    let counted = PIPES.into_iter().zip(sinks).zip(&counts).map(|((name, sink), count)| {
        let counted: Arc<dyn Sink> = Arc::new(Counted { sink, count: count.clone() });
        (name.to_owned(), counted)
    });
    (counted.collect(), counts)
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
