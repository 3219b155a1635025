//! Look first, then lock: how an owner claims rows without passing over one of a key. Shared by the drivers.

use std::collections::HashSet;

use super::source::text;
use super::sql::{Cells, cell};

/// A row that may be claimed: its id and its key.
pub(crate) type Seen = (String, Option<String>);

/// The first `count` rows that were seen and that we do not have.
pub(crate) fn seen(rows: &[Cells], open: &HashSet<String>, count: usize) -> Vec<Seen> {
    let rows = rows.iter().filter_map(|cells| Some((text(cells, 0)?, text(cells, 1))));
    rows.filter(|(id, _)| !open.contains(id)).take(count).collect()
}

pub(crate) fn ids(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|(id, _)| id.clone()).collect()
}

/// What was got of the rows that were seen, and apart from it those whose key has an earlier one that was not got:
/// somebody has that one locked, and nothing of its key may overtake it.
pub(crate) fn without_gaps(seen: &[Seen], got: Vec<Cells>) -> (Vec<Cells>, Vec<Cells>) {
    if got.len() == seen.len() {
        return (got, Vec::new());
    }
    let ids: HashSet<String> = got.iter().filter_map(|cells| text(cells, cell::ID)).collect();
    let (mut keys, mut barred) = (HashSet::new(), HashSet::new());
    for (id, key) in seen {
        let Some(key) = key else { continue };
        if !ids.contains(id) {
            keys.insert(key);
        } else if keys.contains(key) {
            barred.insert(id.as_str());
        }
    }
    let is_free = |cells: &Cells| text(cells, cell::ID).is_some_and(|id| !barred.contains(id.as_str()));
    got.into_iter().partition(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_before_an_earlier_one_of_its_key() {
        let seen = [("1", "a"), ("2", "b"), ("3", "a"), ("4", ""), ("5", "b"), ("6", "a")]
            .map(|(id, key)| (id.to_owned(), Some(key.to_owned()).filter(|key| !key.is_empty())));
        let came = |ids: &[&str]| {
            let got = ids.iter().map(|id| vec![Some(id.as_bytes().to_vec())]).collect();
            let (free, _) = without_gaps(&seen, got);
            free.iter().filter_map(|cells| text(cells, cell::ID)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(came(&["1", "2", "3", "4", "5", "6"]), "1 2 3 4 5 6");
        assert_eq!(came(&["2", "3", "4", "5", "6"]), "2 4 5");
        assert_eq!(came(&["1", "2", "4", "5", "6"]), "1 2 4 5");
        assert_eq!(came(&["1", "2", "3", "5", "6"]), "1 2 3 5 6", "what has no key holds nobody");
        assert_eq!(came(&[]), "");
    }
}
