//! What was read of the log and is not claimed yet, so that not every claim has to ask the database.

use std::collections::VecDeque;

use super::cursor::{Page, Place};
use super::window::Position;
use crate::message::Message;

/// A message as it was read.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) message: Message,
    pub(super) place: Place,
    /// An earlier one of its key is set aside.
    pub(super) held: bool,
}

/// Rows of one window that come next, in their order.
#[derive(Debug)]
pub(super) struct Ahead {
    begin: Position,
    end: Position,
    rows: VecDeque<Row>,
}

impl Ahead {
    /// `end` is where the cursor stands once all of the rows are claimed.
    pub(super) fn new(begin: Position, end: Position, rows: VecDeque<Row>) -> Self {
        Self { begin, end, rows }
    }

    /// Whether they are what comes next for a cursor that stands there: one that was moved must read again.
    pub(super) fn begins_at(&self, position: &Position) -> bool {
        self.begin == *position
    }

    pub(super) fn end(&self) -> &Position {
        &self.end
    }

    /// Whether there may be more of the window behind them.
    pub(super) fn is_followed(&self) -> bool {
        self.end.s2.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The first of them, up to `limit`, and the page of the log that they are.
    pub(super) fn take(&mut self, limit: usize) -> (Vec<Row>, Page) {
        let rows: Vec<Row> = self.rows.drain(..limit.min(self.rows.len())).collect();
        let after = match rows.last() {
            Some(last) if !self.rows.is_empty() => self.begin.at(last.place.seq),
            _ => self.end.clone(),
        };
        let before = std::mem::replace(&mut self.begin, after.clone());
        (rows, Page { before, after })
    }
}
