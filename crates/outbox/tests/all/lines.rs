//! A file of lines against the suite of every sink.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use outbox::Message;
use outbox::cloudevents::parse;
use outbox::conformance::sink::SinkFixture;
use outbox::lines::Lines;
use tempfile::TempDir;

/// A file in a folder that can be moved away, and with it the file.
struct Kept {
    root: TempDir,
    lines: Lines,
}

impl Kept {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("here")).unwrap();
        let lines = Lines::file(root.path().join("here/events.jsonl"));
        Self { root, lines }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

#[async_trait]
impl SinkFixture for Kept {
    type Sink = Lines;

    fn sink(&self) -> &Lines {
        &self.lines
    }

    async fn received(&self, count: usize) -> Vec<Message> {
        loop {
            let text = std::fs::read_to_string(self.folder("here/events.jsonl")).unwrap_or_default();
            if text.lines().count() >= count {
                return text.lines().map(|line| parse(line.as_bytes()).unwrap().0).collect();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whatever a message holds can be written as a line.
    fn poison(&self) -> Option<Message> {
        None
    }

    async fn go_down(&self) -> bool {
        std::fs::rename(self.folder("here"), self.folder("away")).unwrap();
        true
    }

    async fn come_up(&self) {
        std::fs::rename(self.folder("away"), self.folder("here")).unwrap();
    }
}

mod file {
    outbox::sink_suite!(async { Some(super::Kept::new()) });
}
