//! One set of servers for a whole run of several test programs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{MariaDb, Missing, Postgres, RabbitMq, in_ci, mariadb, postgres, rabbitmq};

/// Starts the shared servers, runs the command with the variables that lead to them, ends them, and
/// returns the command's exit code.
///
/// A server that is not installed fails the run in CI; elsewhere the tests that need it skip themselves.
pub fn with(command: &[OsString]) -> Result<i32> {
    let [program, arguments @ ..] = command else { bail!("no command given") };
    let start = Instant::now();
    let (postgres, mariadb, rabbitmq) = thread::scope(|scope| {
        let postgres = scope.spawn(|| Postgres::start_blocking(&[]));
        let mariadb = scope.spawn(|| MariaDb::start_blocking(&[]));
        let rabbitmq = RabbitMq::start_blocking();
        (postgres.join(), mariadb.join(), rabbitmq)
    });
    let Ok(postgres) = postgres else { bail!("starting PostgreSQL panicked") };
    let Ok(mariadb) = mariadb else { bail!("starting MariaDB panicked") };
    let (postgres, mariadb, rabbitmq) = (installed(postgres)?, installed(mariadb)?, installed(rabbitmq)?);
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
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    // As a shell reports a command that a signal ended.
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn installed<T>(server: Result<T>) -> Result<Option<T>> {
    match server {
        Ok(server) => Ok(Some(server)),
        Err(error) if error.is::<Missing>() && !in_ci() => {
            eprintln!("testbed: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
