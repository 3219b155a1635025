//! How durations, rates and ids are read from requests: in the words of the flags. And whether all is meant.

use std::time::Duration;

use outbox::letters::Pace;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::quantity::{parse_duration, parse_rate};
use crate::trouble::Trouble;

/// A duration, as in `2h`.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    read(from, parse_duration)
}

/// A rate, as in `50/s`.
pub fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pace>, D::Error> {
    read(from, parse_rate)
}

/// Ids, if there are some. Who sends an empty list has looked for some and found none, and does not mean all.
pub fn ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<String>::deserialize(from)?;
    if ids.is_empty() {
        return Err(D::Error::custom("'ids' is empty: name some, or leave it out and say which are meant"));
    }
    Ok(ids)
}

/// Refuses what is about to be done to all that there is, unless somebody says so. `says_which` are what narrows it down.
pub fn not_all_by_mistake(is_meant: bool, says_which: &[bool]) -> Result<(), Trouble> {
    if is_meant || says_which.contains(&true) {
        return Ok(());
    }
    let help = "name ids or say which are meant; if it is all of them, send \"all\": true";
    Err(Trouble::usage("nothing says which are meant", help))
}

fn read<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::dead::ActRequest;
    use crate::ops::errors::{ResolveRequest, RetryRequest};
    use crate::ops::repair::RepairRequest;

    fn check<T: serde::de::DeserializeOwned>(is_meant: impl Fn(&T) -> Result<(), Trouble>) {
        let empty = serde_json::from_str::<T>(r#"{ "ids": [] }"#).err().expect("an empty list is not all");
        assert!(empty.to_string().contains("'ids' is empty"), "{empty}");
        for (body, may) in [
            ("{}", false),
            (r#"{ "all": false }"#, false),
            (r#"{ "all": true }"#, true),
            (r#"{ "dry_run": true }"#, true),
            (r#"{ "ids": ["1"] }"#, true),
        ] {
            let request: T = serde_json::from_str(body).expect(body);
            assert_eq!(is_meant(&request).is_ok(), may, "{body}");
        }
    }

    #[test]
    fn no_ids_and_no_choice_are_not_all_unless_it_is_said() {
        check(RepairRequest::is_meant);
        check(ActRequest::is_meant);
        check(RetryRequest::is_meant);
        check(ResolveRequest::is_meant);
    }

    #[test]
    fn whoever_says_which_need_not_say_all() {
        let repair = |body| serde_json::from_str::<RepairRequest>(body).expect(body).is_meant().is_ok();
        assert!(repair(r#"{ "filter": "type:a" }"#) && repair(r#"{ "source": "a" }"#));
        assert!(!repair(r#"{ "filter": " " }"#));
        let act = |body| serde_json::from_str::<ActRequest>(body).expect(body).is_meant().is_ok();
        assert!(act(r#"{ "code": "X" }"#) && act(r#"{ "older_than": "1h" }"#) && !act(r#"{ "most": 5 }"#));
        let retry = |body| serde_json::from_str::<RetryRequest>(body).expect(body).is_meant().is_ok();
        assert!(retry(r#"{ "origin": "q" }"#) && !retry(r#"{ "state": "any" }"#));
    }
}
