//! A run: everything that is made for it, what goes on in it, and how it is taken down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::TELL;
use super::breaking::Scene;
use super::choice::clock;
use super::ledger::{Findings, Ledger};
use super::locked;
use super::log::Log;
use super::place::{Folder, Names, Network, Servers, lines, write_config};
use super::producers::Producers;
use super::rabbitmq::RabbitMq;
use super::recorder;
use super::relays::Relays;
use super::tag::Run;
use crate::cli::args::VerifyArgs;
use crate::cli::output::Output;
use crate::cli::progress;
use crate::connection::Connection;
#[cfg(feature = "kafka")]
use crate::connection::Kind;

/// When nothing has moved for so long after the last fault, what is missing is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Producers wait while more is under way than they write in so many seconds.
const BACKLOG: u64 = 10;

const LOOK: Duration = Duration::from_millis(300);

/// A run that goes on.
pub(super) struct Stage {
    pub(super) scene: Arc<Scene>,
    ledger: Arc<Mutex<Ledger>>,
    producing: Mutex<Option<JoinSet<()>>>,
    recording: Mutex<Option<JoinHandle<anyhow::Result<()>>>>,
    keeping: Mutex<Option<JoinHandle<()>>>,
    stop_producers: CancellationToken,
    stop_relays: CancellationToken,
    stop_recorder: CancellationToken,
    broker: Option<Broker>,
    /// Whether the database is a file of the run's own, which goes with the folder.
    is_embedded: bool,
    run: Run,
    progress: ProgressBar,
}

/// The broker of a run, to be cleaned up.
enum Broker {
    RabbitMq(RabbitMq),
    #[cfg(feature = "kafka")]
    Kafka(super::kafka::Kafka),
}

impl Broker {
    /// Makes what is needed on it.
    async fn make(broker: &Connection, names: &Names) -> anyhow::Result<Self> {
        match broker.kind {
            #[cfg(feature = "kafka")]
            Kind::Kafka => {
                let kafka = super::kafka::Kafka::new(&broker.url, names.clone())?;
                let made = kafka.make().await;
                Self::Kafka(kafka).or_nothing(made).await
            }
            _ => {
                let rabbitmq = RabbitMq::new(broker.url.clone(), names.clone());
                let made = rabbitmq.make().await;
                Self::RabbitMq(rabbitmq).or_nothing(made).await
            }
        }
    }

    /// What was made in part is removed.
    async fn or_nothing(self, made: anyhow::Result<()>) -> anyhow::Result<Self> {
        if made.is_err() {
            let _ = self.clean_up().await;
        }
        made.map(|()| self)
    }

    async fn clean_up(&self) -> anyhow::Result<()> {
        match self {
            Self::RabbitMq(rabbitmq) => rabbitmq.clean_up().await,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.clean_up().await,
        }
    }
}

impl Stage {
    /// Makes everything, and lets it go on: producers write, relays carry, nothing is broken yet.
    pub(super) async fn set(
        folder: &Folder,
        servers: Servers,
        network: Network,
        args: &VerifyArgs,
        seed: u64,
        lease: Duration,
    ) -> anyhow::Result<Self> {
        let run = Run::new(rand::random());
        let is_embedded = servers.database.sqlite_file().is_some_and(|file| file.starts_with(folder.path()));
        let names = Names::of(run);
        let log = Log::connect(&servers.database).await?;
        log.refuse(&servers.database, args.yes_destroy).await?;
        // The broker first: if it is not there, nothing was made.
        let broker = match &servers.broker {
            Some(broker) => {
                Some(Broker::make(broker, &names).await.with_context(|| format!("cannot use {broker}"))?)
            }
            None => None,
        };
        let ledger = Arc::new(Mutex::new(Ledger::new(run)));
        let prepared = async {
            log.prepare().await?;
            Relays::new(folder.path(), &write_config(folder.path(), &servers, &network, &names, lease)?)
        };
        let relays = match prepared.await {
            Ok(relays) => relays,
            Err(error) => {
                let _ = remove((!is_embedded).then_some(&log), broker.as_ref()).await;
                return Err(error);
            }
        };
        let rabbitmq = match &broker {
            Some(Broker::RabbitMq(rabbitmq)) => Some(rabbitmq.clone()),
            _ => None,
        };
        let scene = Arc::new(Scene {
            relays,
            network,
            log: log.clone(),
            producers: Arc::new(Producers { log, run, ledger: ledger.clone() }),
            rabbitmq,
            clock: clock(),
            hooks: args.hooks.clone(),
            folder: folder.path().to_owned(),
        });
        let stage = Self {
            scene,
            ledger,
            producing: Mutex::default(),
            recording: Mutex::default(),
            keeping: Mutex::default(),
            stop_producers: CancellationToken::new(),
            stop_relays: CancellationToken::new(),
            stop_recorder: CancellationToken::new(),
            broker,
            is_embedded,
            run,
            progress: progress::words(),
        };
        if let Err(error) = stage.begin(folder, &servers, &names, args.rate, seed).await {
            let _ = stage.clean_up().await;
            return Err(error);
        }
        Ok(stage)
    }

    async fn begin(
        &self,
        folder: &Folder,
        servers: &Servers,
        names: &Names,
        rate: u32,
        seed: u64,
    ) -> anyhow::Result<()> {
        self.scene.relays.start_usual().await?;
        let (scene, stop) = (self.scene.clone(), self.stop_relays.clone());
        *locked(&self.keeping) = Some(tokio::spawn(async move { scene.relays.keep_alive(stop).await }));
        let (ledger, stop) = (self.ledger.clone(), self.stop_recorder.clone());
        let recording = match (&self.broker, &servers.broker) {
            (Some(Broker::RabbitMq(rabbitmq)), Some(connection)) => {
                rabbitmq.open().await?;
                let queue = names.recorded.clone();
                tokio::spawn(recorder::record_queue(connection.url.clone(), queue, ledger, stop))
            }
            #[cfg(feature = "kafka")]
            (Some(Broker::Kafka(kafka)), _) => {
                let (topic, partitions) = (names.target.clone(), super::kafka::PARTITIONS);
                tokio::spawn(recorder::record_topic(kafka.client(), topic, partitions, ledger, stop))
            }
            _ => tokio::spawn(recorder::record_lines(lines(folder.path()), ledger, stop)),
        };
        *locked(&self.recording) = Some(recording);
        let backlog = u64::from(rate) * BACKLOG;
        let producing = self.scene.producers.start(rate, backlog, seed, &self.stop_producers);
        *locked(&self.producing) = Some(producing);
        Ok(())
    }

    /// Fails if nobody records any more: then nothing can be said.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let has_ended = locked(&self.recording).as_ref().is_none_or(JoinHandle::is_finished);
        anyhow::ensure!(!has_ended, "the recorder has ended");
        Ok(())
    }

    /// Shows how far it is; the words, if there is no terminal to show them on.
    pub(super) fn tell(&self, kills: u64, faults: u64) -> Option<String> {
        let (arrived, missing) = {
            let ledger = locked(&self.ledger);
            (ledger.arrived(), ledger.missing())
        };
        let words = format!("{kills} kills, {faults} faults, {arrived} arrived, {missing} under way");
        self.progress.set_message(words.clone());
        self.progress.tick();
        self.progress.is_hidden().then_some(words)
    }

    /// Lets the relays carry what is left, stops everybody, and counts.
    pub(super) async fn finish(&self, output: &Output) -> anyhow::Result<Findings> {
        self.stop_producers.cancel();
        let producing = locked(&self.producing).take();
        if let Some(mut producing) = producing {
            while producing.join_next().await.is_some() {}
        }
        self.catch_up(output).await?;
        self.stop_relays.cancel();
        let keeping = locked(&self.keeping).take();
        if let Some(keeping) = keeping {
            keeping.await?;
        }
        self.scene.relays.finish().await;
        self.stop_recorder.cancel();
        let recording = locked(&self.recording).take();
        if let Some(recording) = recording {
            recording.await?.context("the recorder has failed")?;
        }
        self.scene.log.read_effects(&self.ledger).await.context("cannot read the effects")?;
        self.progress.finish_and_clear();
        Ok(locked(&self.ledger).findings())
    }

    /// Waits until all is there, or nothing moves any more.
    async fn catch_up(&self, output: &Output) -> anyhow::Result<()> {
        let mut told = Instant::now();
        let (mut since, mut last) = (Instant::now(), (0, 0, None));
        while since.elapsed() < PATIENCE {
            self.check()?;
            let (missing, arrived, committed) = {
                let ledger = locked(&self.ledger);
                (ledger.missing(), ledger.arrived(), ledger.committed())
            };
            // A database that is on its way back is asked again.
            let effects = self.scene.log.effects().await.unwrap_or(last.1);
            let words = format!("{missing} to arrive, {effects} effects of {committed} messages");
            if self.progress.is_hidden() && told.elapsed() >= TELL {
                output.note(&words);
                told = Instant::now();
            }
            self.progress.set_message(words);
            self.progress.tick();
            // Repetitions are to meet the inbox too, as far as they are known, before it is said that none has had an effect.
            let waiting = self.waiting().await;
            if missing == 0 && effects >= committed && waiting == Some(0) {
                self.scene.log.read_effects(&self.ledger).await?;
                if locked(&self.ledger).findings().effects_missing == 0 {
                    return Ok(());
                }
            }
            let now = (arrived, effects, waiting);
            if now != last {
                (since, last) = (Instant::now(), now);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// How many messages wait at the broker for the consumer; none if it does not say.
    async fn waiting(&self) -> Option<u64> {
        match &self.broker {
            Some(Broker::RabbitMq(rabbitmq)) => rabbitmq.waiting().await.ok(),
            #[cfg(feature = "kafka")]
            Some(Broker::Kafka(kafka)) => kafka.waiting().await.ok(),
            None => Some(0),
        }
    }

    /// Writes down which messages are wrong, for somebody who looks for the reason.
    pub(super) fn write_suspects(&self, folder: &std::path::Path) -> std::io::Result<()> {
        let ledger = locked(&self.ledger);
        let line = |(what, tag)| format!("{} {what}\n", self.run.id(tag));
        std::fs::write(folder.join("wrong.txt"), ledger.suspects().into_iter().map(line).collect::<String>())
    }

    pub(super) fn bad_ends(&self) -> Vec<String> {
        self.scene.relays.bad_ends()
    }

    /// Ends what still runs and removes what was made, but not the folder.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        self.stop_producers.cancel();
        self.stop_relays.cancel();
        self.stop_recorder.cancel();
        self.scene.relays.kill_all().await;
        self.progress.finish_and_clear();
        remove((!self.is_embedded).then_some(&self.scene.log), self.broker.as_ref()).await
    }
}

/// Both, also if one of them fails.
async fn remove(log: Option<&Log>, broker: Option<&Broker>) -> anyhow::Result<()> {
    let log = match log {
        Some(log) => log.clean_up().await,
        None => Ok(()),
    };
    let broker = match broker {
        Some(broker) => broker.clean_up().await,
        None => Ok(()),
    };
    log.and(broker)
}
