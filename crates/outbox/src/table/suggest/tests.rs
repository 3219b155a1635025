use super::*;
use crate::table::Type;

fn column(name: &str, kind: Type) -> Column {
    Column {
        name: name.into(),
        type_name: format!("{kind:?}").to_lowercase(),
        kind,
        nullable: true,
        optional: true,
        unique: name.eq_ignore_ascii_case("id"),
    }
}

fn table(name: &str, columns: &[(&str, Type)]) -> Seen {
    Seen {
        schema: "public".into(),
        name: name.into(),
        visible: true,
        columns: columns.iter().map(|(name, kind)| column(name, kind.clone())).collect(),
        values: Vec::new(),
    }
}

fn time() -> Type {
    Type::Time { zoned: true }
}

fn text() -> Type {
    Type::Text(None)
}

fn plain(name: &str) -> Seen {
    let columns =
        [("id", Type::Integer), ("event_type", text()), ("payload", Type::Json), ("created_at", time())];
    table(name, &columns)
}

#[test]
fn a_table_without_any_mark_is_emptied_and_that_is_told() {
    let found = suggest(&[plain("outbox_events")]).unwrap();
    assert_eq!(found.draft.done.as_deref(), Some("delete"));
    assert!(found.unsure.iter().any(|words| words.starts_with("done: no column says")), "{:?}", found.unsure);
    assert!(found.unsure.iter().any(|words| words.starts_with("attempts: no column")), "{:?}", found.unsure);
}

#[test]
fn a_status_of_text_is_read_from_its_values() {
    let mut outbox = plain("outbox");
    outbox.columns.extend([
        column("status", text()),
        column("sent_at", time()),
        column("attempts", Type::Integer),
    ]);
    outbox.values = ["new", "sent", "failed"].map(|value| ("status".to_owned(), value.to_owned())).to_vec();
    let found = suggest(std::slice::from_ref(&outbox)).unwrap().draft;
    assert_eq!(found.pending.as_deref(), Some("status = 'new' AND attempts < 5"));
    assert_eq!(found.done.as_deref(), Some("status = 'sent', sent_at = now"));
    assert_eq!(found.dead.as_deref(), Some("status = 'failed'"));
    outbox.values = vec![("status".to_owned(), "x".to_owned())];
    let found = suggest(&[outbox]).unwrap();
    assert!(found.unsure.iter().any(|words| words.contains("is a guess; found: x")), "{:?}", found.unsure);
}

#[test]
fn what_is_no_outbox_is_not_taken_for_one() {
    let orders =
        table("orders", &[("id", Type::Uuid), ("type", text()), ("data", Type::Json), ("status", text())]);
    let users = table("users", &[("id", Type::Uuid), ("name", text()), ("created_at", time())]);
    let mut inbox = plain("inbox_messages");
    inbox.columns.push(column("processed_at", time()));
    assert_eq!(suggest(&[orders, users, inbox]), None);
    assert_eq!(suggest(&[]), None);
}

#[test]
fn a_known_layout_with_a_state_of_its_own_is_not_the_known_one() {
    let columns = [
        ("id", Type::Uuid),
        ("aggregatetype", text()),
        ("aggregateid", text()),
        ("type", text()),
        ("payload", Type::Json),
    ];
    let known = suggest(&[table("outbox", &columns)]).unwrap();
    assert_eq!((known.preset, known.draft.table.as_deref()), (Some("debezium"), Some("outbox")));
    let mut marked = table("outbox", &columns);
    marked.columns.push(column("published", Type::Bool));
    let found = suggest(&[marked]).unwrap();
    assert_eq!(found.preset, None);
    assert_eq!(found.draft.key.as_deref(), Some("aggregateid"));
    assert_eq!(found.draft.pending.as_deref(), Some("published = false"));
    let mut timed = table("outbox", &columns);
    timed.columns.push(column("created_at", time()));
    let found = suggest(&[timed]).unwrap();
    assert_eq!((found.preset, found.draft.occurred_at.as_deref()), (Some("debezium"), Some("created_at")));
}

#[test]
fn partitions_are_one_outbox_and_other_candidates_are_named() {
    let parts = ["OutboxEvents_Partition_0", "OutboxEvents_Partition_1"].map(plain);
    let found = suggest(&[&parts[..], &[plain("domain_events_outbox")]].concat()).unwrap();
    assert_eq!(found.draft.table.as_deref(), Some("OutboxEvents_Partition_*"));
    assert!(
        found.unsure.iter().any(|words| words.starts_with("2 tables of one shape")),
        "{:?}",
        found.unsure
    );
    let others = "other tables look like an outbox too: domain_events_outbox";
    assert!(found.unsure.iter().any(|words| words == others), "{:?}", found.unsure);
}

#[test]
fn a_column_with_an_odd_name_is_quoted() {
    let mut odd = plain("outbox");
    odd.columns.push(column("Processed-At", time()));
    assert_eq!(suggest(&[odd]).unwrap().draft.pending.as_deref(), Some("\"Processed-At\" IS NULL"));
}
