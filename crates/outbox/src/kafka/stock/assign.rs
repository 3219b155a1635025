//! Which partitions are ours, and whether their log is still the one that was read.

use std::collections::{BTreeMap, BTreeSet};

use super::{Stock, lane_of};
use crate::kafka::catalog::Place;
use crate::kafka::shelf::{Now, Shelf};

impl Stock {
    /// These partitions are ours now, and no others; `committed` is none if it could not be asked for, and holds what the
    /// group has committed of each. Tells where to read on; none is at the beginning.
    ///
    /// What was read of a partition before is kept if it comes back to us with its retry topics and nobody has committed
    /// anything meanwhile. Else all of them are read again: what another member did with the keys is not known here.
    pub(in crate::kafka) fn assign(
        &mut self,
        places: &[Place],
        committed: Option<&BTreeMap<Place, i64>>,
    ) -> Vec<(Place, Option<i64>)> {
        let mut before = std::mem::take(&mut self.shelves);
        let known = |place: &Place| committed.and_then(|committed| committed.get(place).copied());
        let is_same = |place: &Place| {
            committed.is_some() && before.get(place).is_some_and(|shelf| shelf.committed == known(place))
        };
        let changed: BTreeSet<(usize, i32)> =
            places.iter().filter(|place| !is_same(place)).map(lane_of).collect();
        for place in places {
            let shelf = before.remove(place).filter(|_| !changed.contains(&lane_of(place)));
            let mut shelf = shelf.unwrap_or_else(|| {
                self.epochs += 1;
                Shelf::new(self.epochs, known(place))
            });
            (shelf.revoked, shelf.paused) = (false, false);
            self.shelves.insert(*place, shelf);
        }
        let ours: BTreeSet<(usize, i32)> = places.iter().map(lane_of).collect();
        self.lanes.retain(|lane, _| ours.contains(lane) && !changed.contains(lane));
        places.iter().map(|place| (*place, self.start(place))).collect()
    }

    fn start(&self, place: &Place) -> Option<i64> {
        let shelf = self.shelves.get(place)?;
        shelf.offsets.end().or(shelf.committed)
    }

    /// All partitions are taken from us for the moment. Tells which of them the client was told not to fetch.
    pub(in crate::kafka) fn revoke(&mut self) -> Vec<Place> {
        let mut paused = Vec::new();
        for (place, shelf) in &mut self.shelves {
            shelf.revoked = true;
            if std::mem::take(&mut shelf.paused) {
                paused.push(*place);
            }
        }
        paused
    }

    /// The partitions whose log is another than it was, and from where they have to be read again.
    pub(in crate::kafka) fn again(&self) -> Vec<(Place, i64)> {
        self.shelves.iter().filter_map(|(place, shelf)| Some((*place, shelf.again?))).collect()
    }

    /// A partition is read again: what was read of the log that was is forgotten.
    pub(in crate::kafka) fn renew(&mut self, place: &Place, now: Now) {
        let Some(shelf) = self.shelves.get_mut(place) else { return };
        self.epochs += 1;
        let (revoked, paused) = (shelf.revoked, shelf.paused);
        *shelf = Shelf::new(self.epochs, None);
        (shelf.revoked, shelf.paused) = (revoked, paused);
        // A key must not wait for what was in the log that was. What lies in the others of its lane it waits for still.
        let lane = lane_of(place);
        self.lanes.remove(&lane);
        for (other, shelf) in self.shelves.iter().filter(|(other, _)| lane_of(other) == lane) {
            let Some(step) = other.step else { continue };
            let held = self.lanes.entry(lane).or_default();
            for (key, id) in shelf.keys() {
                held.found(key, id, step, now.instant);
            }
        }
    }
}
