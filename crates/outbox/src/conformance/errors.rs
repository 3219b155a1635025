//! The clauses of an [`ErrorLog`].

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::error::ErrorKind;
use crate::errors::{ErrorFilter, ErrorLog, ErrorRecord, Resolution};
use crate::message::{Message, header};
use crate::sink::Cause;

/// A fresh error log.
pub trait ErrorLogFixture: Send + Sync {
    /// The log under test, in which every field has a place.
    fn log(&self) -> Arc<dyn ErrorLog>;

    /// A record that this log cannot keep, if there is such a thing.
    fn unfit(&self) -> Option<ErrorRecord>;
}

/// Runs every clause of an error log against the fixture.
#[macro_export]
macro_rules! error_log_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { errors, $fixture,
            l1_what_is_written_is_shown_as_it_was_given
            l2_a_newer_failure_renews_the_record_and_an_older_one_does_not
            l2_two_who_write_at_once_write_one_record
            l3_a_newer_failure_reopens_the_record_and_a_repeated_one_does_not
            l4_a_message_that_failed_at_two_origins_has_two_records
            l5_a_list_has_what_matches_in_pages
            l6_an_edit_keeps_the_first_payload
            l7_what_a_person_did_is_kept_with_who_and_when
            l8_records_are_written_all_or_none
        }
    };
}

fn start() -> Timestamp {
    "2026-01-31T12:00:00.125Z".parse().unwrap()
}

/// A failure so many seconds after the start.
fn failure(origin: &str, seconds: i64) -> ErrorRecord {
    let message = Message::new("order.placed", r#"{"a": 1}"#)
        .content_type("application/json")
        .key("k1")
        .header(header::ERROR_ORIGIN, origin)
        .header(header::ERROR_CODE, "HANDLER")
        .header(header::ERROR_TEXT, "it's \"odd\" \\ 100 %, ünï")
        .header(header::ERROR_ATTEMPTS, "3");
    let mut record = ErrorRecord::of(&message, start());
    record.last_seen = start() + SignedDuration::from_secs(seconds);
    record
}

async fn shown(fixture: &impl ErrorLogFixture, record: &ErrorRecord) -> ErrorRecord {
    let filter = ErrorFilter {
        message_id: Some(record.message_id.clone()),
        origin: Some(record.origin.clone()),
        ..ErrorFilter::default()
    };
    let found = fixture.log().list(&filter).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    fixture.log().show(&found[0].id).await.unwrap().expect("it is listed")
}

pub async fn l1_what_is_written_is_shown_as_it_was_given(fixture: &impl ErrorLogFixture) {
    let plain = failure("orders", 0);
    let mut bytes = failure("orders", 1);
    (bytes.key, bytes.payload) = (None, vec![0xff, 0, 0xfe].into());
    let mut text = failure("orders", 2);
    text.payload = "no json".into();
    fixture.log().write(&[plain.clone(), bytes.clone(), text.clone()]).await.unwrap();
    for given in [plain, bytes, text] {
        let mut found = shown(fixture, &given).await;
        // The database may give the id.
        found.id.clone_from(&given.id);
        assert_eq!(found, given);
    }
    assert_eq!(fixture.log().show("nowhere").await.unwrap(), None);
}

pub async fn l2_a_newer_failure_renews_the_record_and_an_older_one_does_not(fixture: &impl ErrorLogFixture) {
    let first = failure("orders", 10);
    let mut newer = first.clone();
    (newer.attempts, newer.cause) = (6, Cause::new("TIMEOUT", "too slow"));
    newer.last_seen = start() + SignedDuration::from_secs(20);
    let mut older = first.clone();
    older.attempts = 1;
    for (record, attempts) in [(&first, 3), (&newer, 6), (&older, 6), (&newer, 6)] {
        fixture.log().write(std::slice::from_ref(record)).await.unwrap();
        assert_eq!(shown(fixture, &first).await.attempts, attempts);
    }
    let found = shown(fixture, &first).await;
    assert_eq!(
        (found.cause, found.last_seen, found.first_seen),
        (newer.cause, newer.last_seen, first.first_seen)
    );
}

pub async fn l2_two_who_write_at_once_write_one_record(fixture: &impl ErrorLogFixture) {
    let records: Vec<_> = (0..10).map(|n| failure("orders", n)).collect();
    let (one, two) = (fixture.log(), fixture.log());
    let both = futures_util::future::join(one.write(&records), two.write(&records));
    // One may be in the way of the other, which then comes again.
    let (first, second) = both.await;
    for outcome in [first, second] {
        if let Err(error) = outcome {
            assert!(error.is_temporary(), "{}", error.chain());
            fixture.log().write(&records).await.unwrap();
        }
    }
    assert_eq!(fixture.log().list(&ErrorFilter::default()).await.unwrap().len(), 10);
}

pub async fn l3_a_newer_failure_reopens_the_record_and_a_repeated_one_does_not(
    fixture: &impl ErrorLogFixture,
) {
    let first = failure("orders", 0);
    fixture.log().write(std::slice::from_ref(&first)).await.unwrap();
    let id = shown(fixture, &first).await.id;
    for (returned, seconds) in [(false, 10), (true, 20)] {
        if returned {
            fixture.log().returned(&id, "ada").await.unwrap();
        } else {
            fixture.log().resolve(&id, "ada", Some("done")).await.unwrap();
        }
        let before = shown(fixture, &first).await;
        assert_ne!(before.resolution, Resolution::Open);
        fixture.log().write(std::slice::from_ref(&first)).await.unwrap();
        assert_eq!(shown(fixture, &first).await, before, "the same failure again is no news");
        let mut newer = first.clone();
        newer.last_seen = start() + SignedDuration::from_secs(seconds);
        fixture.log().write(&[newer]).await.unwrap();
        let after = shown(fixture, &first).await;
        assert_eq!((after.resolution, after.resolved_by, after.resolved_at), (Resolution::Open, None, None));
        assert_eq!(after.id, id);
    }
}

pub async fn l4_a_message_that_failed_at_two_origins_has_two_records(fixture: &impl ErrorLogFixture) {
    let one = failure("orders", 0);
    let mut two = failure("mails", 0);
    two.message_id.clone_from(&one.message_id);
    fixture.log().write(&[one.clone(), two.clone()]).await.unwrap();
    let (one, two) = (shown(fixture, &one).await, shown(fixture, &two).await);
    fixture.log().resolve(&one.id, "ada", None).await.unwrap();
    assert_eq!(shown(fixture, &two).await.resolution, Resolution::Open);
}

pub async fn l5_a_list_has_what_matches_in_pages(fixture: &impl ErrorLogFixture) {
    let mut records: Vec<_> = (0..7).map(|n| failure("orders", n)).collect();
    records[1].kind = "mail.sent".to_owned();
    records[2].key = Some("k2".to_owned());
    records[3].cause = Cause::new("TIMEOUT", "slow");
    records[4].origin = "mails".to_owned();
    let log = fixture.log();
    log.write(&records).await.unwrap();
    log.resolve(&shown(fixture, &records[5]).await.id, "ada", None).await.unwrap();
    let at = |seconds| Some(start() + SignedDuration::from_secs(seconds));
    let filter = ErrorFilter::default;
    for (filter, expected) in [
        (filter(), vec![0, 1, 2, 3, 4, 5, 6]),
        (ErrorFilter { kind: Some("order.*".into()), ..filter() }, vec![0, 2, 3, 4, 5, 6]),
        (ErrorFilter { kind: Some("mail.sent".into()), ..filter() }, vec![1]),
        (ErrorFilter { kind: Some("mail".into()), ..filter() }, vec![]),
        (ErrorFilter { key: Some("k2".into()), ..filter() }, vec![2]),
        (ErrorFilter { code: Some("TIMEOUT".into()), ..filter() }, vec![3]),
        (ErrorFilter { origin: Some("mails".into()), ..filter() }, vec![4]),
        (ErrorFilter { message_id: Some(records[6].message_id.clone()), ..filter() }, vec![6]),
        (ErrorFilter { resolution: Some(Resolution::Resolved), ..filter() }, vec![5]),
        (
            ErrorFilter { resolution: Some(Resolution::Open), code: Some("HANDLER".into()), ..filter() },
            vec![0, 1, 2, 4, 6],
        ),
        (ErrorFilter { older_than: at(2), ..filter() }, vec![0, 1]),
        (ErrorFilter { newer_than: at(5), ..filter() }, vec![5, 6]),
    ] {
        let found = log.list(&filter).await.unwrap();
        assert!(found.iter().all(|record| record.payload.is_empty()));
        let mut found: Vec<_> = found.into_iter().map(|record| record.message_id).collect();
        let mut expected: Vec<_> =
            expected.into_iter().map(|n: usize| records[n].message_id.clone()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{filter:?}");
    }
    let (mut pages, mut page) = (Vec::new(), ErrorFilter { limit: 3, with_payload: true, ..filter() });
    loop {
        let found = log.list(&page).await.unwrap();
        let Some(last) = found.last() else { break };
        page.after = Some(last.id.clone());
        assert_eq!(found[0].payload, records[0].payload);
        pages.push(found.len());
    }
    assert_eq!(pages, [3, 3, 1]);
}

pub async fn l6_an_edit_keeps_the_first_payload(fixture: &impl ErrorLogFixture) {
    let given = failure("orders", 0);
    fixture.log().write(std::slice::from_ref(&given)).await.unwrap();
    let id = shown(fixture, &given).await.id;
    for payload in [&b"{\"a\": 2}"[..], b"\xff", b"{\"a\": 3}"] {
        fixture.log().edit(&id, payload).await.unwrap();
        let found = shown(fixture, &given).await;
        assert_eq!((&*found.payload, found.original_payload.as_deref()), (payload, Some(&*given.payload)));
    }
    // What comes again does not undo what a person has changed.
    let mut newer = given.clone();
    newer.last_seen = start() + SignedDuration::from_secs(10);
    fixture.log().write(&[newer]).await.unwrap();
    assert_eq!(&*shown(fixture, &given).await.payload, b"{\"a\": 3}");
}

pub async fn l7_what_a_person_did_is_kept_with_who_and_when(fixture: &impl ErrorLogFixture) {
    let (log, given) = (fixture.log(), failure("orders", 0));
    log.write(std::slice::from_ref(&given)).await.unwrap();
    let id = shown(fixture, &given).await.id;
    log.returned(&id, "ada").await.unwrap();
    let found = shown(fixture, &given).await;
    assert_eq!((found.resolution, found.resolved_by.as_deref()), (Resolution::Returned, Some("ada")));
    let age = Timestamp::now().duration_since(found.resolved_at.unwrap()).as_secs();
    assert!((-5..60).contains(&age), "{found:?}");
    log.resolve(&id, "bob", Some("it's done")).await.unwrap();
    let found = shown(fixture, &given).await;
    let told = (found.resolution, found.resolved_by.as_deref(), found.note.as_deref());
    assert_eq!(told, (Resolution::Resolved, Some("bob"), Some("it's done")));
    for id in ["nowhere", "01900000-0000-7000-8000-000000000000", "-1"] {
        let tried =
            [log.resolve(id, "ada", None).await, log.returned(id, "ada").await, log.edit(id, b"x").await];
        for error in tried.map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{}", error.chain());
        }
    }
}

pub async fn l8_records_are_written_all_or_none(fixture: &impl ErrorLogFixture) {
    let Some(unfit) = fixture.unfit() else { return };
    let error = fixture.log().write(&[failure("orders", 0), unfit]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{}", error.chain());
    assert!(fixture.log().list(&ErrorFilter::default()).await.unwrap().is_empty());
}
