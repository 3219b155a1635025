//! How the pipes stand in their outboxes, for the pages that show it.

use jiff::Timestamp;

use super::live::Board;
use crate::ops::Office;
use crate::ops::status::{Status, StatusRequest, status};

/// How the pipes stand.
#[derive(Debug, Default)]
pub(super) struct Stands {
    /// By source and pipe.
    pub(super) lanes: Vec<Lane>,
    /// What does not answer, and what to do about it.
    pub(super) troubles: Vec<(String, String)>,
}

/// One lane of a pipe.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) source: String,
    pub(super) pipe: String,
    /// Only of a pipe with several.
    pub(super) lane: Option<u32>,
    pub(super) owner: Option<String>,
    pub(super) lease_until: Option<Timestamp>,
    pub(super) pending: u64,
    pub(super) waiting: u64,
    pub(super) behind: u64,
    pub(super) dead: u64,
}

impl Lane {
    /// Whether its lease has run out: then who is named owns nothing any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.owner.is_some() && self.lease_until.is_some_and(|until| until < Timestamp::now())
    }
}

impl Stands {
    /// Asks the outboxes, for the board that keeps it; how many are dead is told to all pages.
    pub(super) async fn read(office: &Office, board: &Board) -> Self {
        let asked = status(office, &StatusRequest::default()).await;
        let stands = match asked {
            Ok(status) => Self::of(status),
            Err(trouble) => {
                let troubles = vec![(trouble.to_string(), trouble.help().to_owned())];
                Self { lanes: Vec::new(), troubles }
            }
        };
        // What some outbox did not tell is not zero.
        let dead = stands.troubles.is_empty().then(|| stands.sum(|lane| lane.dead));
        board.learn(|known| known.dead = dead);
        stands
    }

    fn of(status: Status) -> Self {
        let troubles = status.troubles.iter();
        let troubles = troubles.map(|trouble| (trouble.to_string(), trouble.help().to_owned())).collect();
        let lane = |row: crate::ops::status::Row| {
            let (cursor, pipe) = (row.cursor?, row.pipe?);
            Some(Lane {
                source: row.source,
                pipe,
                lane: Some(cursor.lane).filter(|_| cursor.lanes > 1),
                owner: cursor.owner,
                lease_until: cursor.lease_until,
                pending: cursor.pending,
                waiting: cursor.waiting,
                behind: cursor.behind,
                dead: cursor.dead,
            })
        };
        Self { lanes: status.pipes.into_iter().filter_map(lane).collect(), troubles }
    }

    /// Over all lanes.
    pub(super) fn sum(&self, count: impl Fn(&Lane) -> u64) -> u64 {
        self.lanes.iter().map(count).sum()
    }
}
