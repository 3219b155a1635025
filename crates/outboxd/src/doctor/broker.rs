//! A look at a queue or at topics that are read. Nothing is made: what is there must be as configured.

use outbox::{ErrorKind, Finding};

use crate::backends::Opened;
use crate::options::Topology;
use crate::plan::{Layout, SourcePlan};

/// Looks at a source on a broker.
pub async fn examine(source: &SourcePlan) -> Vec<Finding> {
    let (what, topology, places) = match &source.layout {
        Layout::Queue(options) => {
            let retries = options.retry.len();
            (
                "queue",
                options.topology,
                format!("queue '{}', {retries} retry queues and '{}'", options.queue, options.dead),
            )
        }
        Layout::Topic(options) => (
            "topic",
            options.topology,
            format!("{} for group '{}'", options.topics.join(", "), options.group),
        ),
        Layout::Log(_) | Layout::Table(_) => return Vec::new(),
    };
    let opened = match Opened::open(&checking(source)).await {
        Ok(opened) => opened,
        Err(error) => return vec![Finding::error("connection", &error)],
    };
    let connected = Finding::ok("connection", format!("logged in to {}", source.connection.url));
    let Err(error) = opened.check().await else {
        let mut findings = vec![connected, Finding::ok(what, format!("{places}: there, and as configured"))];
        findings.extend(opened.examine().await);
        return findings;
    };
    if error.kind() != ErrorKind::Config {
        return vec![Finding::error("connection", &error)];
    }
    let missing = error.chain().contains("does not exist") && !error.chain().contains("to read");
    let found = if topology == Topology::Declare && missing {
        Finding::ok(
            what,
            format!("{places}: not all there yet; the pipe makes what is missing when it starts"),
        )
    } else {
        Finding::error(what, &error)
    };
    let mut findings = vec![connected, found];
    findings.extend(opened.examine().await);
    findings
}

/// The same source, which makes nothing.
fn checking(source: &SourcePlan) -> SourcePlan {
    let mut source = source.clone();
    match &mut source.layout {
        Layout::Queue(options) => options.topology = Topology::Check,
        Layout::Topic(options) => options.topology = Topology::Check,
        Layout::Log(_) | Layout::Table(_) => {}
    }
    source
}
