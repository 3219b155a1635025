use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testbed::{Postgres, available};

const TESTBED: &str = env!("CARGO_BIN_EXE_testbed");

/// The port and the folder of a server, from the value of its variable.
fn place(variable: &str) -> Result<(u16, PathBuf)> {
    let (port, rest) = variable.split_once(':').context("no port")?;
    let (_, folder) = rest.rsplit_once(':').unwrap_or(("", rest));
    Ok((port.parse()?, folder.into()))
}

/// Every process with this folder in its command line. Linux only; elsewhere the ports must do.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&folder))
        .collect()
}

#[tokio::test]
async fn nothing_is_left_when_the_process_that_started_the_servers_is_killed() -> Result<()> {
    // Skips, where a server is missing.
    if testbed::postgres().await.is_none()
        || testbed::mariadb().await.is_none()
        || testbed::rabbitmq().await.is_none()
    {
        return Ok(());
    }
    let servers = ["POSTGRES", "MARIADB", "RABBITMQ", "KAFKA"];
    let variables = servers.map(|server| format!("echo $OUTBOX_TESTBED_{server};"));
    let script = format!("{} read -r _", variables.concat());
    let mut run = Command::new(TESTBED)
        .args(["with", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdout, stderr) = (run.stdout.take().context("no pipe")?, run.stderr.take().context("no pipe")?);
    let mut lines = BufReader::new(stdout).lines();
    let mut servers = Vec::new();
    for _ in variables {
        let line = lines.next().context("the run ended early")??;
        // Kafka may be missing.
        if servers.len() < 3 || !line.is_empty() {
            servers.push(place(&line).with_context(|| line.clone())?);
        }
    }
    for (port, folder) in &servers {
        TcpStream::connect(("127.0.0.1", *port))?;
        ensure!(folder.exists());
        ensure!(!processes_of(folder).is_empty());
    }

    // SIGKILL: nobody in there gets a chance to clean up.
    run.kill()?;
    run.wait()?;
    // All that clean up hold its standard error, so its end is the end of the last of them.
    BufReader::new(stderr).read_to_end(&mut Vec::new())?;
    for (port, folder) in &servers {
        assert!(TcpStream::connect(("127.0.0.1", *port)).is_err());
        assert!(!folder.exists());
        assert_eq!(processes_of(folder), Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test]
async fn a_dropped_server_is_gone_with_its_folder() -> Result<()> {
    let Some(postgres) = available(Postgres::start().await) else { return Ok(()) };
    let (port, folder) = (postgres.port(), postgres.folder().to_owned());
    drop(postgres);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!folder.exists());
    assert_eq!(processes_of(&folder), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_run_returns_the_exit_code_of_its_command_and_leaves_nothing() -> Result<()> {
    if testbed::postgres().await.is_none() || testbed::rabbitmq().await.is_none() {
        return Ok(());
    }
    let script = "echo $OUTBOX_TESTBED_RABBITMQ; exit 7";
    let output = Command::new(TESTBED).args(["with", "sh", "-c", script]).output()?;
    assert_eq!(output.status.code(), Some(7));
    let (_, folder) = place(String::from_utf8(output.stdout)?.trim())?;
    assert!(!folder.exists());
    Ok(())
}

#[test]
fn a_run_without_a_command_says_how_to_give_one() -> Result<()> {
    let output = Command::new(TESTBED).arg("with").output()?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: testbed with"));
    Ok(())
}
