//! Doors to private parts for the fuzz targets; only there with `--cfg fuzzing`.

use std::path::Path;

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use bytes::Bytes;
use outbox::Message;

use crate::mistake::Invalid;
use crate::ops::Selection;
use crate::ops::audit::AuditRequest;
use crate::ops::messages::ListRequest;
use crate::plan::{Checked, Plan};
use crate::secret::MASK;
use crate::{http, show};

/// No file of this folder is there, so nothing is read from the disk.
const FILE: &str = "/nowhere/outboxd.toml";

fn environment(name: &str) -> Option<String> {
    match name {
        "SET" => Some("value".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Checked, Invalid> {
    Plan::parse(Path::new(FILE), text, &environment)
}

/// Reads a configuration. What is refused is told; what is taken is shown as a configuration of the same plan, unless
/// there are secrets in it.
pub fn config(text: &str) {
    let plan = match parse(text) {
        Ok(checked) => checked.plan,
        Err(invalid) => return assert!(!invalid.to_string().is_empty(), "refused without a word"),
    };
    let shown = show::to_toml(&show::effective(&plan)).expect("a plan can be written as TOML");
    if shown.contains(MASK) {
        return;
    }
    match parse(&shown) {
        Ok(again) => assert_eq!(again.plan, plan, "shown as another plan:\n{shown}"),
        Err(invalid) => panic!("what is shown is refused: {invalid}\n{shown}"),
    }
}

/// Reads a filter; what is taken is written so that it is read as the same again.
pub fn filter(text: &str) {
    let selection = match Selection::parse(text) {
        Ok(selection) => selection,
        Err(trouble) => {
            let told = trouble.to_string();
            assert!(!told.is_empty() && !told.contains(char::is_control), "{told:?}");
            return;
        }
    };
    let written = selection.to_string();
    match Selection::parse(&written) {
        Ok(again) => assert_eq!(again, selection, "{written}"),
        Err(trouble) => panic!("{written:?} is refused: {trouble}"),
    }
    let _ = (selection.filter(), selection.to_json(Some("orders")));
}

/// Reads the place where a page begins from a query; it is written as the number that it is.
pub fn cursor(query: &str) {
    let Ok(uri) = Uri::try_from(format!("/?{query}")) else { return };
    if let Ok(Query(listed)) = Query::<ListRequest>::try_from_uri(&uri) {
        let mut next = Vec::new();
        next.extend(listed.after.map(|after| format!("after={after}")));
        next.extend(listed.limit.map(|limit| format!("limit={limit}")));
        let uri = Uri::try_from(format!("/?{}", next.join("&"))).expect("two numbers");
        let Query(again) = Query::<ListRequest>::try_from_uri(&uri).expect("what was read is written");
        assert_eq!((again.after, again.limit), (listed.after, listed.limit));
        listed.filter.iter().for_each(|text| filter(text));
    }
    if let Ok(Query(asked)) = Query::<AuditRequest>::try_from_uri(&uri) {
        let uri = Uri::try_from(asked.before.map_or("/".to_owned(), |before| format!("/?before={before}")));
        let uri = uri.expect("a number");
        let Query(again) = Query::<AuditRequest>::try_from_uri(&uri).expect("what was read is written");
        assert_eq!(again.before, asked.before);
    }
}

/// Reads a published message.
pub fn request(headers: &HeaderMap, body: &[u8]) -> Result<Message, String> {
    http::read_request(headers, Bytes::copy_from_slice(body))
}
