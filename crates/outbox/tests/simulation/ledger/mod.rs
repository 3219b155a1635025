//! What is known of every message, claim and call of a life, and what must hold of them.
//!
//! The fakes tell the ledger what they were asked and what they have really done. It compares that with the numbered
//! clauses: S of `Source`, K of `Sink`, P of `Pipe`. The first that is broken is kept.

mod calls;
mod claims;
mod ends;
mod verdicts;

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use outbox::{Lease, Message, MessageId, Verdict};
use tokio::time::Instant;

use crate::dice::Dice;
use crate::script::Script;

pub(crate) use calls::{Call, Truth};

/// A clause that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) clause: &'static str,
    pub(crate) what: String,
}

/// What ails a message for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    Healthy,
    /// Rejected so many times, then taken.
    Sick(u32),
    /// Refused for good.
    Poison,
    /// Found to be broken by the sink.
    Unfit,
    /// Found to be broken by the source.
    Defect,
}

/// Where a message stands in the source, as far as settles were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    Fresh,
    Waiting { due: Instant },
    Behind,
    Dead { holds: bool },
    Done,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Message,
    pub(crate) nature: Nature,
    stand: Stand,
    attempts: u32,
    /// The claim that has it, if it is not lost: of which relay, and its number there.
    holder: Option<(usize, u64)>,
    /// How often the sink rejected it.
    pub(crate) rejected: u32,
    /// How often the sink has it.
    taken: u32,
    /// How often it was taken and not called delivered.
    unknown: u32,
    /// How many claims with it were lost.
    lost: u32,
}

impl Entry {
    /// Whether later messages of its key may go, as far as the source knows.
    fn is_passed(&self) -> bool {
        matches!(self.stand, Stand::Done | Stand::Dead { holds: false })
    }

    fn is_set_aside(&self) -> bool {
        matches!(self.stand, Stand::Waiting { .. } | Stand::Behind | Stand::Dead { holds: true })
    }
}

/// What became of one message of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Waiting,
    Out,
    Told(Truth),
}

/// A claim that a relay has not settled.
#[derive(Debug)]
struct ClaimNote {
    /// Which of the relay's claims it is.
    serial: u64,
    numbers: Vec<usize>,
    /// The attempts that the relay was told of. Once its claim is lost, others may spend more.
    attempts: Vec<u32>,
    held: Vec<bool>,
    defects: Vec<bool>,
    progress: Vec<Progress>,
    /// What the pipe has decided, once it asked to settle.
    verdicts: Option<Vec<Verdict>>,
    /// The source has it in writing, whether the relay knows or not.
    written: bool,
    /// The cursor has changed hands since, even if it is the relay's again.
    stale: bool,
}

/// One run of a pipe, from its start to its end.
#[derive(Debug, Default)]
struct Relay {
    open: VecDeque<ClaimNote>,
    serial: u64,
    calls: usize,
    lease: Option<Lease>,
    /// When it was told to stop.
    stopping: Option<Instant>,
    /// It knows that its claims are lost.
    lost: bool,
    /// It was told something that only a person can mend, so it must end.
    broken: bool,
    ended: bool,
    /// Since when the sink is away, as this relay was told.
    shut: Option<Instant>,
    /// Rejections of first attempts; enough of them in a row open the breaker.
    rejections: u32,
    /// Claims in a row that brought nothing although something was due.
    blind: u32,
}

pub(crate) struct Ledger {
    script: Arc<Script>,
    entries: Vec<Entry>,
    relays: Vec<Relay>,
    /// Whose the cursor is at the source, and until when.
    owner: Option<usize>,
    owned_until: Instant,
    /// How many claims were lost, by crashes and otherwise.
    losses: usize,
    violation: Option<Violation>,
    began: Instant,
    story: Option<Vec<String>>,
}

impl Ledger {
    pub(crate) fn new(script: Arc<Script>, tell: bool) -> Self {
        let now = Instant::now();
        Self {
            script,
            entries: Vec::new(),
            relays: Vec::new(),
            owner: None,
            owned_until: now,
            losses: 0,
            violation: None,
            began: now,
            story: tell.then(Vec::new),
        }
    }

    /// Goes on with the story, if somebody wants to hear it.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>8.3} s  {}", self.began.elapsed().as_secs_f64(), line()));
        }
    }

    /// A clause is broken.
    pub(crate) fn violated(&mut self, clause: &'static str, what: String) {
        self.note(|| format!("VIOLATED {clause}: {what}"));
        self.violation.get_or_insert(Violation { clause, what });
    }

    /// Notes a violation unless `holds`.
    fn expect(&mut self, holds: bool, clause: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.violated(clause, what());
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.violation.clone()
    }

    pub(crate) fn take_story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }

    /// The next message that is written.
    pub(crate) fn write(&mut self, dice: &mut Dice) -> Message {
        let number = self.entries.len();
        let mut message = Message::new(dice.pick(&["a", "b"]), number.to_string())
            .id(MessageId::from(number.to_string()))
            .occurred_at(Timestamp::UNIX_EPOCH);
        let key = dice.between(0, self.script.keys);
        if key > 0 {
            message = message.key(key);
        }
        let nature = match dice.between(0, 39) {
            0 => Nature::Poison,
            1 => Nature::Unfit,
            2 => Nature::Defect,
            3..=5 => Nature::Sick(dice.between(1, 3) as u32),
            _ => Nature::Healthy,
        };
        self.note(|| format!("message {number} of key {key} is written: {nature:?}"));
        self.entries.push(Entry {
            message: message.clone(),
            nature,
            stand: Stand::Fresh,
            attempts: 0,
            holder: None,
            rejected: 0,
            taken: 0,
            unknown: 0,
            lost: 0,
        });
        message
    }

    pub(crate) fn entry(&self, number: usize) -> &Entry {
        &self.entries[number]
    }

    /// Messages of the same key that were written before, if that means anything.
    fn earlier(&self, number: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let key = self.entries[number].message.key.as_deref().filter(|_| self.script.is_ordered());
        let of_key = move |place: &usize| key.is_some() && self.entries[*place].message.key.as_deref() == key;
        (0..number).filter(of_key)
    }

    /// A new run of a pipe; its number.
    pub(crate) fn start(&mut self) -> usize {
        self.relays.push(Relay::default());
        let relay = self.relays.len() - 1;
        self.note(|| format!("relay {relay} starts"));
        relay
    }
}

/// The number of a message, which is its id.
pub(crate) fn number(message: &Message) -> usize {
    message.id.as_str().parse().unwrap_or(usize::MAX)
}
