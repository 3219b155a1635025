//! How far a cursor has read: the arithmetic of snapshots, without a database.
//!
//! Rows commit out of order, so "everything up to number n" is never true. A cursor instead holds a snapshot s1:
//! every row that s1 shows is done. It reads the rows that a newer snapshot s2 shows and s1 does not, in the order
//! of their numbers; when that window is done, s1 becomes s2. The numbers only make it cheap, see [`Marks`].

use std::fmt;
use std::str::FromStr;

/// A snapshot as PostgreSQL prints it: `xmin:xmax:in,progress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) xmin: u64,
    /// One past the highest transaction that had ended.
    pub(super) xmax: u64,
    /// Transactions below `xmax` that had not ended.
    pub(super) in_progress: Vec<u64>,
}

impl Snapshot {
    /// What shows nothing at all.
    pub(super) fn nothing() -> Self {
        Self { xmin: 1, xmax: 1, in_progress: Vec::new() }
    }

    /// What both show.
    pub(super) fn intersect(&self, other: &Self) -> Self {
        self.below(self.xmax.min(other.xmax), &other.in_progress)
    }

    /// What this shows of transactions below `xmax`, without these.
    pub(super) fn below(&self, xmax: u64, without: &[u64]) -> Self {
        let mut in_progress: Vec<u64> =
            self.in_progress.iter().chain(without).copied().filter(|xid| *xid < xmax).collect();
        in_progress.sort_unstable();
        in_progress.dedup();
        let xmin = in_progress.first().copied().unwrap_or(xmax);
        Self { xmin, xmax, in_progress }
    }

    /// The transactions in progress, as text for a query.
    pub(super) fn in_progress_text(&self) -> Vec<String> {
        self.in_progress.iter().map(u64::to_string).collect()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (index, xid) in self.in_progress.iter().enumerate() {
            write!(f, "{}{xid}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Snapshot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a snapshot");
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(wrong);
        let (xmin, xmax) = (number()?, number()?);
        let list = parts.next().ok_or_else(wrong)?;
        let in_progress = list.split(',').filter(|part| !part.is_empty());
        let in_progress =
            in_progress.map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        Ok(Self { xmin, xmax, in_progress })
    }
}

/// A place in the log: everything before it is done or set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// All that it shows is done.
    pub(super) s1: Snapshot,
    /// The window that is open, if one is.
    pub(super) s2: Option<Snapshot>,
    /// The window is done up to this number.
    pub(super) pos: i64,
    /// Rows that s1 does not show have higher numbers, except those of its transactions in progress.
    pub(super) floor: i64,
    /// The same for the open window, known since it was opened: a long one outlives its marks.
    pub(super) next_floor: i64,
    /// Rows up to this number are never read.
    pub(super) base: i64,
}

impl Position {
    /// At the beginning of the window `s2`, unless it is open already.
    pub(super) fn opened(&self, s2: &Snapshot, marks: &Marks) -> Self {
        if self.s2.is_some() {
            return self.clone();
        }
        Self { s2: Some(s2.clone()), pos: 0, next_floor: marks.floor(s2.xmax), ..self.clone() }
    }

    /// Within the open window, done up to `pos`.
    pub(super) fn at(&self, pos: i64) -> Self {
        Self { pos, ..self.clone() }
    }

    /// At the end of the window `s2`.
    pub(super) fn past(&self, s2: &Snapshot, marks: &Marks) -> Self {
        let floor = marks.floor(s2.xmax).max(self.next_floor).max(self.floor);
        Self { s1: s2.clone(), s2: None, pos: 0, floor, next_floor: 0, base: self.base }
    }
}

/// Pairs (X, h): a transaction X of ours, and the highest number h that was given out before X began.
///
/// Every transaction after X gets its row numbers after it got its id (the table's default sees to that), so
/// all its rows have numbers above h. For a snapshot with `xmax` above X the rows that it does not show are of
/// transactions at or above `xmax`, hence above h, or of those in progress, which are looked up by their id.
/// Taking h together with the snapshot would be wrong: transactions at or above its `xmax` may have been
/// running for long, with small numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(Vec<(u64, i64)>);

impl Marks {
    /// Adds a pair; both only grow.
    pub(super) fn add(&mut self, xid: u64, highest: i64) {
        // A window takes its floor when it is opened, so only the latest pairs matter.
        if self.0.len() >= 16 {
            self.0.remove(0);
        }
        self.0.push((xid, highest));
    }

    /// The highest number below which a snapshot with this `xmax` needs no reading.
    pub(super) fn floor(&self, xmax: u64) -> i64 {
        self.0.iter().rev().find(|(xid, _)| *xid < xmax).map_or(0, |(_, highest)| *highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_read_and_print_as_postgres_does() {
        for text in ["1:1:", "10:20:10,14,15", "5:5:"] {
            assert_eq!(text.parse::<Snapshot>().unwrap().to_string(), text);
        }
        for text in ["", "1:2", "a:b:", "1:2:x"] {
            assert!(text.parse::<Snapshot>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_intersection_shows_only_what_both_show() {
        let one: Snapshot = "10:20:10,15".parse().unwrap();
        let two: Snapshot = "12:18:12".parse().unwrap();
        assert_eq!(one.intersect(&two).to_string(), "10:18:10,12,15");
        assert_eq!(one.intersect(&two), two.intersect(&one));
        assert_eq!(one.intersect(&Snapshot::nothing()), Snapshot::nothing());
    }

    #[test]
    fn the_floor_is_the_newest_mark_before_the_snapshot() {
        let mut marks = Marks::default();
        assert_eq!(marks.floor(100), 0);
        for (xid, highest) in [(10, 100), (20, 200), (30, 300)] {
            marks.add(xid, highest);
        }
        assert_eq!(marks.floor(10), 0, "a transaction at xmax may have run before the mark was taken");
        assert_eq!(marks.floor(11), 100);
        assert_eq!(marks.floor(30), 200);
        assert_eq!(marks.floor(31), 300);
    }
}
