//! A look at a log in an SQLite file, and at the disk below it. What was read is judged by functions that ask nobody.

use std::path::Path;
use std::process::Command;

use outbox::{Finding, sqlite};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use crate::backends::Log;
use crate::plan::SourcePlan;
use crate::quantity::show_size;

/// With less than this left on the disk it is time to do something.
const SPACE: u64 = 512 * 1024 * 1024;

/// A write-ahead log of this size is not being written back to the file.
const WAL: u64 = 256 * 1024 * 1024;

/// Looks at the file.
pub async fn examine(source: &SourcePlan) -> Vec<Finding> {
    let file = source.connection.sqlite_file().unwrap_or_default();
    let shown = file.display();
    if !file.exists() {
        let missing = Finding::failure("file", format!("there is no file {shown}"));
        return vec![missing.fix("outboxd migrate")];
    }
    let mut findings = vec![Finding::ok("file", format!("{shown} is there"))];
    if file.metadata().is_ok_and(|metadata| metadata.permissions().readonly()) {
        let closed = Finding::failure("file", format!("{shown} cannot be written"));
        findings.push(closed.fix(format!("chmod u+w '{shown}'")));
    }
    findings.push(disk(&file, free(&file)));
    // Before the log is opened, which would set it right, where that is possible.
    let told = read(&file).await;
    if let Ok(told) = &told {
        findings.push(journal(&file, &told.journal, wal_size(&file)));
    }
    let status = async { Log::open(source).await?.admin().status().await };
    match status.await {
        Err(error) => findings.push(Finding::error("tables", &error)),
        Ok(cursors) => {
            findings.push(tables(told.ok().and_then(|told| told.version)));
            findings.push(super::source::dead(cursors.iter().map(|cursor| cursor.dead).sum()));
        }
    }
    findings
}

/// What the file tells, without a change.
struct Told {
    journal: String,
    /// The newest step of the tables; none if nobody wrote that down.
    version: Option<i64>,
}

async fn read(file: &Path) -> sqlx::Result<Told> {
    let mut conn = SqliteConnectOptions::new().filename(file).read_only(true).connect().await?;
    let journal = sqlx::query("PRAGMA journal_mode").fetch_one(&mut conn).await?.get(0);
    let version = sqlx::query("SELECT max(version) FROM outbox_migrations").fetch_one(&mut conn).await;
    let version = version.ok().and_then(|row| row.get(0));
    conn.close().await?;
    Ok(Told { journal, version })
}

fn wal_size(file: &Path) -> u64 {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    Path::new(&name).metadata().map_or(0, |metadata| metadata.len())
}

/// How many bytes are free where the file is, if the system has somebody who tells.
fn free(file: &Path) -> Option<u64> {
    let asked = Command::new("df").arg("-Pk").arg(file).output().ok()?;
    kilobytes_free(&String::from_utf8(asked.stdout).ok()?)
}

/// The fourth column of the second line, in KiB: so POSIX has it.
fn kilobytes_free(text: &str) -> Option<u64> {
    let line = text.lines().nth(1)?;
    line.split_whitespace().nth(3)?.parse::<u64>().ok()?.checked_mul(1024)
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    show_size(usize::try_from(bytes / MIB * MIB).unwrap_or(usize::MAX))
}

fn disk(file: &Path, free: Option<u64>) -> Finding {
    const WHAT: &str = "disk";
    match free {
        None => Finding::ok(WHAT, "not looked at: this system does not tell what is free"),
        Some(free) if free >= SPACE => Finding::ok(WHAT, format!("{} free", size(free))),
        Some(free) => {
            let evidence = format!("only {} free: without room nothing can be written", size(free));
            let folder = file.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
            Finding::warning(WHAT, evidence).fix(format!(
                "make room on the disk of '{folder}', or `outboxd purge --older-than 7d` and VACUUM"
            ))
        }
    }
}

fn journal(file: &Path, mode: &str, wal: u64) -> Finding {
    const WHAT: &str = "journal";
    let shown = file.display();
    if !mode.eq_ignore_ascii_case("wal") {
        let evidence = format!("journal mode '{mode}': writers and readers wait for each other");
        return Finding::warning(WHAT, evidence)
            .fix(format!("sqlite3 '{shown}' 'PRAGMA journal_mode = WAL'"));
    }
    if wal > WAL {
        let evidence = format!("{} are in the write-ahead log: somebody has read for long", size(wal));
        return Finding::warning(WHAT, evidence)
            .fix(format!("end the reader, then sqlite3 '{shown}' 'PRAGMA wal_checkpoint(TRUNCATE)'"));
    }
    Finding::ok(WHAT, "WAL: writers and readers do not wait for each other")
}

fn tables(version: Option<i64>) -> Finding {
    const WHAT: &str = "tables";
    let wanted = sqlite::migrations().iter().map(|step| i64::from(step.version)).max().unwrap_or(0);
    match version {
        None => Finding::ok(WHAT, "the tables of the log are there"),
        Some(version) => {
            let evidence = format!("version {version} of the tables, this program has {wanted}");
            if version < wanted {
                Finding::failure(WHAT, evidence).fix("outboxd migrate")
            } else {
                Finding::ok(WHAT, evidence)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use outbox::Level;

    use super::*;

    #[test]
    fn free_space_is_read_as_posix_has_it_and_too_little_is_a_warning() {
        let told =
            "Filesystem 1024-blocks  Used Available Capacity Mounted on\n/dev/vda  1000 600 400 60% /\n";
        assert_eq!(kilobytes_free(told), Some(400 * 1024));
        assert_eq!(kilobytes_free("nothing"), None);
        let file = Path::new("/data/shop.db");
        assert_eq!((disk(file, None).level, disk(file, Some(SPACE)).level), (Level::Ok, Level::Ok));
        let full = disk(file, Some(SPACE - 1));
        assert_eq!((full.level, full.evidence.starts_with("only 511MiB free")), (Level::Warning, true));
    }

    #[test]
    fn a_journal_that_blocks_or_grows_is_a_warning() {
        let file = Path::new("shop.db");
        assert_eq!(journal(file, "wal", 0).level, Level::Ok);
        assert_eq!(journal(file, "delete", 0).level, Level::Warning);
        let grown = journal(file, "wal", WAL + 1);
        assert!(grown.fix.is_some_and(|fix| fix.contains("wal_checkpoint")));
    }

    #[test]
    fn older_tables_than_this_program_has_are_a_failure() {
        assert_eq!((tables(None).level, tables(Some(99)).level), (Level::Ok, Level::Ok));
        assert_eq!(tables(Some(1)).fix.as_deref(), Some("outboxd migrate"));
    }
}
