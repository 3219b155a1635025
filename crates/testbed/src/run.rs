//! One set of servers for a whole run of several test programs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::missing::may_skip;
use crate::{Kafka, MariaDb, Postgres, RabbitMq, kafka, mariadb, postgres, rabbitmq};

/// Starts the shared servers, runs the command with the variables that lead to them, ends them, and
/// returns the command's exit code.
///
/// A server that is not installed fails the run in CI; elsewhere the tests that need it skip themselves.
pub fn with(command: &[OsString]) -> Result<i32> {
    let [program, arguments @ ..] = command else { bail!("no command given") };
    let start = Instant::now();
    let (postgres, mariadb, rabbitmq, kafka) = thread::scope(|scope| {
        let postgres = scope.spawn(|| Postgres::start_blocking(&[]));
        let mariadb = scope.spawn(|| MariaDb::start_blocking(&[]));
        let kafka = scope.spawn(Kafka::start_blocking);
        let rabbitmq = RabbitMq::start_blocking();
        (postgres.join(), mariadb.join(), rabbitmq, kafka.join())
    });
    let (Ok(postgres), Ok(mariadb), Ok(kafka)) = (postgres, mariadb, kafka) else {
        bail!("starting a server panicked")
    };
    let (postgres, mariadb) = (installed(postgres)?, installed(mariadb)?);
    let (rabbitmq, kafka) = (installed(rabbitmq)?, installed(kafka)?);
    eprintln!("testbed: servers ready after {:.1} s", start.elapsed().as_secs_f32());

    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(postgres) = &postgres {
        command.env(postgres::SHARED, postgres.place());
    }
    if let Some(mariadb) = &mariadb {
        command.env(mariadb::SHARED, mariadb.place());
    }
    if let Some(rabbitmq) = &rabbitmq {
        command.env(rabbitmq::SHARED, rabbitmq.place());
    }
    if let Some(kafka) = &kafka {
        command.env(kafka::SHARED, kafka.place()?);
    }
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    // At the end, where it is seen: a green run on a mock says less than one on a broker.
    let line = if kafka.is_some() { Kafka::used_line() } else { Kafka::missing_line() };
    eprintln!("testbed: {line}");
    // As a shell reports a command that a signal ended.
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn installed<T>(server: Result<T>) -> Result<Option<T>> {
    match server {
        Ok(server) => Ok(Some(server)),
        Err(error) if may_skip(&error) => {
            eprintln!("testbed: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
