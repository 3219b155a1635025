//! Servers that only their owner can break: the hooks of `verify` ask for it, and the test does it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use testbed::{Postgres, RabbitMq};

use super::holds;
use crate::program::Program;

const WISHES: [&str; 3] = ["kill-broker", "kill-database", "memory-alarm"];

/// A hook that leaves a wish in a folder and ends when it is fulfilled.
fn wish(folder: &std::path::Path, name: &str) -> String {
    let file = folder.join(name).display().to_string();
    format!("{name}=touch '{file}'; while [ -e '{file}' ]; do sleep 0.1; done")
}

/// Fulfils wishes until each was made.
async fn fulfil(folder: PathBuf, postgres: &mut Postgres, rabbitmq: &mut RabbitMq) {
    let mut open = WISHES.to_vec();
    let until = Instant::now() + Duration::from_secs(300);
    while !open.is_empty() {
        assert!(Instant::now() < until, "nobody wishes {open:?}");
        let Some(name) = WISHES.into_iter().find(|name| folder.join(name).exists()) else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        match name {
            "kill-broker" => {
                rabbitmq.kill().await.unwrap();
                rabbitmq.start_again().await.unwrap();
            }
            "kill-database" => {
                postgres.kill().await.unwrap();
                postgres.start_again().await.unwrap();
            }
            _ => {
                rabbitmq.block().await.unwrap();
                tokio::time::sleep(Duration::from_secs(2)).await;
                rabbitmq.unblock().await.unwrap();
            }
        }
        std::fs::remove_file(folder.join(name)).unwrap();
        open.retain(|wish| *wish != name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_servers_are_killed_and_blocked_by_hooks_and_nothing_is_lost() {
    let Some(mut postgres) = testbed::available(Postgres::start().await) else { return };
    let Some(mut rabbitmq) = testbed::available(RabbitMq::start().await) else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::with(&format!(
        "[connections]\nshop = \"{}\"\nrabbit = \"{}\"\n",
        database.url(),
        rabbitmq.url()
    ));
    program.make_folder("wishes");
    let folder = program.path("wishes");
    let hooks = WISHES.map(|name| wish(&folder, name));
    let mut flags =
        vec!["verify", "--format", "json", "--config", "outboxd.toml", "--minutes", "30", "--rate", "200"];
    hooks.iter().for_each(|hook| flags.extend(["--hook", hook]));
    let faults = format!("kill,{}", WISHES.join(","));
    flags.extend(["--faults", &faults]);
    let running = program.start(&flags);
    fulfil(folder.clone(), &mut postgres, &mut rabbitmq).await;
    // What is under way is still fulfilled; then it counts.
    running.signal("INT");
    let ended = tokio::task::spawn_blocking(move || running.end_with_data());
    while !ended.is_finished() {
        WISHES.iter().for_each(|name| drop(std::fs::remove_file(folder.join(name))));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let report = holds(&ended.await.unwrap());
    for fault in WISHES {
        assert!(report["faults"][fault].as_u64() > Some(0), "{fault}: {report:#}");
    }
}
