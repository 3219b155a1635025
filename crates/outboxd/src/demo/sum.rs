//! The sum: what the shop says it wrote against what arrived, counted from what is there and not from counters.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use outbox::admin::{Admin, Filter, Stand};
use outbox::sqlite::Outbox;
use serde::Serialize;
use sqlx::Row;

use super::PIPES;
use super::counted::Count;
use super::place::Place;
use super::shop::Ledger;

/// What one pipe did.
#[derive(Debug, Serialize)]
pub(super) struct PipeSum {
    /// Messages that arrived, each counted once.
    delivered: u64,
    /// Effects beyond the first of a message.
    duplicates_in_effect: u64,
    /// Arrivals of a key that came before an earlier one.
    out_of_order: u64,
    /// Arrivals of what the shop had rolled back.
    phantom: u64,
    retried: u64,
    dead: u64,
    /// Waiting behind a dead one of their key, for a person.
    held: u64,
    /// Committed, and neither arrived nor set aside.
    lost: u64,
}

/// What the whole run came to.
#[derive(Debug, Serialize)]
pub(super) struct Sum {
    written: u64,
    rolled_back: u64,
    lost: u64,
    out_of_order: u64,
    pipes: BTreeMap<&'static str, PipeSum>,
    /// What people did meanwhile.
    by_hand: u64,
    folder: String,
    #[serde(skip)]
    dead_id: Option<String>,
}

impl Sum {
    /// Whether every promise was kept. Who replays or skips by hand gets gaps and repetitions: they asked for them.
    pub(super) fn is_right(&self) -> bool {
        if self.by_hand > 0 {
            return true;
        }
        let kept = |pipe: &PipeSum| pipe.duplicates_in_effect + pipe.phantom == 0;
        self.lost + self.out_of_order == 0 && self.pipes.values().all(kept)
    }
}

/// An arrival: which message, of which key, and its number within the key.
type Arrival = (String, String, u64);

pub(super) async fn sum(
    place: &Place,
    outbox: &Outbox,
    ledger: &Ledger,
    counts: &[Arc<Count>],
) -> anyhow::Result<Sum> {
    let committed: HashSet<String> = ledger.committed().into_iter().map(|id| id.to_string()).collect();
    let rolled_back = ledger.rolled_back_ids();
    let by_hand = by_hand(outbox).await?;
    let mut pipes = BTreeMap::new();
    let mut dead_id = None;
    for (name, count) in PIPES.into_iter().zip(counts) {
        let arrivals = match name {
            "relay" => read_lines(place)?,
            "inventory" => read_table(outbox, "SELECT * FROM inventory_effects ORDER BY rowid").await?,
            _ => read_table(outbox, "SELECT * FROM mailer_effects ORDER BY rowid").await?,
        };
        let mut set_aside = Vec::new();
        for stand in [Stand::Dead, Stand::Behind, Stand::Waiting, Stand::Pending] {
            let filter = Filter {
                cursor: Some(name.to_owned()),
                stand: Some(stand),
                limit: u32::MAX,
                ..Filter::default()
            };
            set_aside.extend(outbox.list(&filter).await?);
        }
        if let Some(entry) = set_aside.iter().find(|entry| entry.stand == Stand::Dead) {
            dead_id = Some(entry.id.to_string());
        }
        let dead = set_aside.iter().filter(|entry| entry.stand == Stand::Dead).count() as u64;
        let arrived: HashSet<&str> = arrivals.iter().map(|(id, ..)| id.as_str()).collect();
        let known: HashSet<&str> =
            set_aside.iter().map(|entry| entry.id.as_str()).chain(arrived.iter().copied()).collect();
        pipes.insert(
            name,
            PipeSum {
                delivered: arrived.len() as u64,
                duplicates_in_effect: (arrivals.len() - arrived.len()) as u64,
                out_of_order: out_of_order(&arrivals),
                phantom: arrived.iter().filter(|id| rolled_back.contains(**id)).count() as u64,
                retried: count.retried(),
                dead,
                held: set_aside.len() as u64 - dead,
                lost: match by_hand.skipped {
                    // What a person lets go is not lost.
                    true => 0,
                    false => committed.iter().filter(|id| !known.contains(id.as_str())).count() as u64,
                },
            },
        );
    }
    Ok(Sum {
        written: committed.len() as u64,
        rolled_back: ledger.rolled_back(),
        lost: pipes.values().map(|pipe| pipe.lost).sum(),
        out_of_order: pipes.values().map(|pipe| pipe.out_of_order).sum(),
        pipes,
        by_hand: by_hand.acts,
        folder: place.folder.display().to_string(),
        dead_id,
    })
}

/// What people did, by the book.
struct ByHand {
    acts: u64,
    skipped: bool,
}

async fn by_hand(outbox: &Outbox) -> anyhow::Result<ByHand> {
    let acts = "SELECT count(DISTINCT detail ->> 'act'), coalesce(max(action = 'skip'), 0) FROM outbox_audit";
    let row = sqlx::query(acts).fetch_one(outbox.pool()).await?;
    Ok(ByHand { acts: row.get::<i64, _>(0).unsigned_abs(), skipped: row.get::<i64, _>(1) > 0 })
}

fn out_of_order(arrivals: &[Arrival]) -> u64 {
    let mut next: HashMap<&str, u64> = HashMap::new();
    let mut wrong = 0;
    for (_, key, number) in arrivals {
        let expected = next.entry(key).or_default();
        wrong += u64::from(number != expected);
        *expected = number + 1;
    }
    wrong
}

fn read_lines(place: &Place) -> anyhow::Result<Vec<Arrival>> {
    let mut arrivals = Vec::new();
    for line in BufReader::new(std::fs::File::open(place.events())?).lines() {
        let event: serde_json::Value = serde_json::from_str(&line?)?;
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        arrivals.push((
            text("id"),
            text("partitionkey"),
            event["data"]["number"].as_u64().unwrap_or(u64::MAX),
        ));
    }
    Ok(arrivals)
}

async fn read_table(outbox: &Outbox, statement: &'static str) -> anyhow::Result<Vec<Arrival>> {
    let rows = sqlx::query(statement).fetch_all(outbox.pool()).await?;
    let arrival =
        |row: &sqlx::sqlite::SqliteRow| (row.get(0), row.get(1), row.get::<i64, _>(2).unsigned_abs());
    Ok(rows.iter().map(arrival).collect())
}

pub(super) fn print_json(sum: &Sum) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, sum)?;
    Ok(writeln!(stdout)?)
}

pub(super) fn print(sum: &Sum, place: &Place) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nwritten      {:>7} events, each in one transaction with its order", sum.written)?;
    writeln!(out, "rolled back  {:>7} events, which nobody may ever see\n", sum.rolled_back)?;
    writeln!(
        out,
        "{:<10} {:>9} {:>8} {:>6} {:>6} {:>7} {:>13} {:>6}",
        "PIPE", "DELIVERED", "RETRIED", "DEAD", "HELD", "TWICE", "OUT OF ORDER", "LOST"
    )?;
    for name in PIPES {
        let pipe = &sum.pipes[name];
        let PipeSum {
            delivered, retried, dead, held, duplicates_in_effect: twice, out_of_order, lost, ..
        } = pipe;
        writeln!(
            out,
            "{name:<10} {delivered:>9} {retried:>8} {dead:>6} {held:>6} {twice:>7} {out_of_order:>13} {lost:>6}"
        )?;
    }
    if sum.by_hand > 0 {
        writeln!(
            out,
            "\nYou did {} things by hand; `audit list` has them, and the numbers show them too.",
            sum.by_hand
        )?;
    }
    writeln!(out, "\nHeld are the later messages of the dead one's key: they wait until a person decides.")?;
    let program = std::env::args().next().unwrap_or_else(|| "outboxd".to_owned());
    let verb = |words: &str| format!("  {program} --config {} {words}", place.config().display());
    writeln!(out, "\nLook closer:\n{}\n{}", verb("status"), verb("list --state dead"))?;
    if let Some(id) = &sum.dead_id {
        writeln!(
            out,
            "{}\n{}",
            verb(&format!("show {id} --payload")),
            verb(&format!("skip {id} --dry-run"))
        )?;
    }
    writeln!(out, "  tail -n 3 {}", place.events().display())?;
    Ok(())
}
