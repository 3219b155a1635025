//! [`Lines`] writes every message as one line of JSON, to a file, to stdout or to any writer.
//!
//! A batch is one write. In a file it counts as delivered when the disk has it, elsewhere when it is flushed.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::cloudevents::{DEFAULT_SOURCE, structured};
use crate::message::Message;
use crate::sink::{Cause, Outcome, Sink, code};

/// A sink of lines, each a CloudEvent in its structured JSON form.
///
/// ```
/// # async fn example() {
/// use outbox::{Message, Outcome, Sink};
/// use outbox::lines::Lines;
///
/// # let path = std::env::temp_dir().join("outbox-lines-example.jsonl");
/// let lines = Lines::file(&path).source("shop");
/// let message = Message::new("order.created", "{\"id\":1}").content_type("application/json");
/// assert_eq!(lines.deliver(&[message]).await, [Outcome::Delivered]);
/// # }
/// ```
pub struct Lines {
    /// Locked while a batch is written, and owned by the thread that writes: one that hangs cannot be cut off,
    /// so those behind it wait here instead of mixing their lines with it.
    target: Arc<Mutex<Target>>,
    name: String,
    source: String,
    timeout: Duration,
}

enum Target {
    Stdout,
    File(PathBuf),
    Writer(Box<dyn Write + Send>),
}

impl Lines {
    /// Lines on the standard output of this process.
    pub fn stdout() -> Self {
        Self::new(Target::Stdout, "stdout".to_owned())
    }

    /// Lines at the end of a file, which is created when missing.
    ///
    /// The file is opened for every batch, so that it can be moved away (rotated) at any time.
    pub fn file(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let name = path.display().to_string();
        Self::new(Target::File(path), name)
    }

    /// Lines to any writer; `name` is what errors call it.
    pub fn writer(name: impl Into<String>, writer: impl Write + Send + 'static) -> Self {
        Self::new(Target::Writer(Box::new(writer)), name.into())
    }

    fn new(target: Target, name: String) -> Self {
        Self {
            target: Arc::new(Mutex::new(target)),
            name,
            source: DEFAULT_SOURCE.to_owned(),
            timeout: Duration::from_secs(10),
        }
    }

    /// Sets the `source` of the events.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// Sets how long a write may take before it is given up.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn write(&self, text: String) -> Outcome {
        let writing = async {
            let target = Arc::clone(&self.target).lock_owned().await;
            tokio::task::spawn_blocking(move || write(target, text.as_bytes())).await
        };
        match timeout(self.timeout, writing).await {
            Ok(Ok(Ok(()))) => Outcome::Delivered,
            Ok(Ok(Err(error))) => self.unavailable(code::UNREACHABLE, &error.to_string()),
            Ok(Err(panic)) => self.unavailable(code::UNREACHABLE, &panic.to_string()),
            Err(_) => self.unavailable(code::TIMEOUT, &format!("it takes nothing since {:?}", self.timeout)),
        }
    }

    fn unavailable(&self, code: &'static str, why: &str) -> Outcome {
        Outcome::Unavailable(Cause::new(code, format!("cannot write to {}: {why}", self.name)))
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({})", self.name)
    }
}

#[async_trait]
impl Sink for Lines {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let mut text = String::new();
        let lines: Vec<Option<Outcome>> = messages
            .iter()
            .map(|message| match structured(message, &self.source) {
                Ok(line) => {
                    text.push_str(&line);
                    text.push('\n');
                    None
                }
                Err(error) => Some(Outcome::defect(Cause::new(code::UNFIT, error.chain()))),
            })
            .collect();
        let written = if text.is_empty() { Outcome::Delivered } else { self.write(text).await };
        lines.into_iter().map(|unfit| unfit.unwrap_or_else(|| written.clone())).collect()
    }
}

fn write(mut target: OwnedMutexGuard<Target>, text: &[u8]) -> io::Result<()> {
    match &mut *target {
        Target::Stdout => flushed(&mut io::stdout().lock(), text),
        Target::Writer(writer) => flushed(writer.as_mut(), text),
        Target::File(path) => append(path, text),
    }
}

fn flushed(writer: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    writer.write_all(text)?;
    writer.flush()
}

fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    // Named pipes and devices can neither be read back nor synced.
    if !file.metadata()?.is_file() {
        return flushed(&mut file, text);
    }
    while !is_put(&mut file, text)? {
        // The first line is spoilt, so all are written again: a line may come twice, never not at all.
    }
    file.sync_data()?;
    if is_new && let Some(folder) = path.parent() {
        // The name of a new file is an entry of its folder, which must reach the disk as well.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Writes at the end of the file; tells whether what is there begins on a line of its own.
fn is_put(file: &mut File, text: &[u8]) -> io::Result<bool> {
    // After a full disk or a crash the last line may be torn; what follows must not be glued to it.
    let end = file.seek(SeekFrom::End(0))?;
    if !is_line_start(file, end)? {
        file.write_all(b"\n")?;
    }
    file.write_all(text)?;
    // Another relay that writes to this file may have died within a line since we looked.
    is_own_line(file, text)
}

/// Whether the text that was just written begins a line.
fn is_own_line(file: &mut File, text: &[u8]) -> io::Result<bool> {
    let end = file.stream_position()?;
    is_line_start(file, end.saturating_sub(text.len() as u64))
}

fn is_line_start(file: &mut File, at: u64) -> io::Result<bool> {
    let Some(before) = at.checked_sub(1) else { return Ok(true) };
    file.seek(SeekFrom::Start(before))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudevents::parse;

    fn messages() -> Vec<Message> {
        (0..3).map(|n| Message::new("order.created", format!("{n}\n\0")).key(n).header("h", "v")).collect()
    }

    #[tokio::test]
    async fn a_torn_last_line_harms_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, "{\"torn").unwrap();
        let sent = messages();
        Lines::file(&path).deliver(&sent).await;
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        assert_eq!(parse(text.lines().nth(1).unwrap().as_bytes()).unwrap().0, sent[0]);
    }

    #[test]
    fn a_line_that_was_torn_after_the_look_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
        let mut glue = |before: &str, text: &[u8]| {
            std::fs::write(&path, before).unwrap();
            file.write_all(text).unwrap();
            is_own_line(&mut file, text)
        };
        assert!(!glue("{\"torn", b"{}\n").unwrap());
        assert!(glue("{}\n", b"{}\n").unwrap());
        assert!(glue("", b"{}\n").unwrap());
    }

    #[tokio::test]
    async fn k7_a_file_that_cannot_be_written_is_unavailable_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/events.jsonl");
        let lines = Lines::file(&path);
        let outcomes = lines.deliver(&messages()).await;
        let [Outcome::Unavailable(cause), _, _] = outcomes.as_slice() else { panic!("{outcomes:?}") };
        assert_eq!(cause.code, code::UNREACHABLE);
        assert!(cause.detail.contains("missing/events.jsonl"), "{cause}");
        assert!(cause.detail.contains("No such file"), "{cause}");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        assert_eq!(lines.deliver(&messages()[..1]).await, [Outcome::Delivered]);
    }

    #[tokio::test]
    async fn k4_a_broken_pipe_is_unavailable() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let outcomes = Lines::writer("stdout", writer).deliver(&messages()[..1]).await;
        assert!(
            matches!(&outcomes[..], [Outcome::Unavailable(cause)] if cause.detail.contains("stdout: Broken pipe")),
            "{outcomes:?}"
        );
    }

    #[tokio::test]
    async fn k6_a_reader_that_stalls_is_given_up() {
        let (reader, writer) = io::pipe().unwrap();
        let lines = Lines::writer("a pipe", writer).timeout(Duration::from_millis(50));
        // More than any pipe buffers, so that the write cannot end.
        let large = [Message::new("a", vec![0; 4 << 20])];
        for _ in 0..2 {
            let outcomes = lines.deliver(&large).await;
            assert!(
                matches!(&outcomes[..], [Outcome::Unavailable(cause)] if cause.code == code::TIMEOUT),
                "{outcomes:?}"
            );
        }
        drop(reader);
    }
}
