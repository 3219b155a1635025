//! What processes of this machine have used, from `/proc`. Where there is none, or another user's process may not be
//! looked at, nothing is known, and nothing is guessed.

use std::fs;
use std::time::Duration;

/// Ticks a second of the times in `/proc/PID/stat`: the same on every Linux that this program runs on.
const TICKS: f64 = 100.0;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A server on this machine, with the processes that it starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    root: u32,
}

impl Server {
    /// Who listens on a port of this machine.
    pub(super) fn listening_on(port: u16) -> Option<Self> {
        let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok())
            .flat_map(|table| listeners(&table, port))
            .collect();
        let owner = |pid: &u32| {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
            open.any(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str()))
        };
        // Those that a server starts may share its socket; it was there before them.
        let root = pids().filter(owner).min()?;
        Some(Self { root })
    }

    /// CPU seconds of all of it, also of its processes that have ended.
    pub(super) fn cpu(self) -> Option<f64> {
        let with_children = |stat: &Stat| stat.own + stat.children;
        let children = pids().filter_map(stat).filter(|stat| stat.parent == self.root);
        Some(with_children(&stat(self.root)?) + children.map(|stat| with_children(&stat)).sum::<f64>())
    }
}

/// CPU seconds of a process alone.
pub(super) fn cpu_of(pid: u32) -> Option<f64> {
    Some(stat(pid)?.own)
}

/// The most memory that a process has held at a time, in KiB.
pub(super) fn peak_memory_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

struct Stat {
    parent: u32,
    own: f64,
    children: f64,
}

fn stat(pid: u32) -> Option<Stat> {
    read_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn read_stat(line: &str) -> Option<Stat> {
    // The name stands in parentheses, and may have spaces and parentheses in it.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / TICKS);
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(11)? + ticks(12)?,
        children: ticks(13)? + ticks(14)?,
    })
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The listening sockets of a port, as the links of open files name them.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let found = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let its_port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (its_port == port && *state == LISTENING).then(|| format!("socket:[{inode}]"))
    });
    found.collect()
}

/// What a process used of one core, in percent.
pub(super) fn percent(cpu: f64, time: Duration) -> f64 {
    100.0 * cpu / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "7 (a) b (c)) S 5 7 7 0 -1 4194560 1 2 3 4 150 50 50 25 20 0 1 0 9 0 0";
        let stat = read_stat(line).expect("it is there");
        assert_eq!((stat.parent, stat.own, stat.children), (5, 2.0, 0.75));
        assert!(read_stat("7 (a) S 5").is_none());
    }

    #[test]
    fn who_listens_on_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("it is there");
        let server =
            Server::listening_on(listener.local_addr().expect("it is there").port()).expect("it is there");
        assert_eq!(server.root, std::process::id());
        assert!(server.cpu().expect("it is there") >= 0.0);
        assert!(peak_memory_kib(server.root).expect("it is there") > 0);
    }
}
