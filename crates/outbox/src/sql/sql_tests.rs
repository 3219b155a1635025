use super::*;
use crate::message::Message;

fn text(kind: Kind, sql: &str) -> String {
    let statement = Statement::parse(kind, sql, 1).unwrap();
    statement.text(|place| format!("<{}>", statement.values[place]))
}

#[test]
fn values_are_found_and_everything_else_is_left_alone() {
    for (sql, expected) in [
        ("insert into t values (:id, :type)", "insert into t values (<:id>, <:type>)"),
        ("select ':id', ':it''s :id'", "select ':id', ':it''s :id'"),
        ("select E'a\\':id', e'\\\\' , :key", "select E'a\\':id', e'\\\\' , <:key>"),
        ("select 'a\\' , :key", "select 'a\\' , <:key>"),
        ("select \":id\", \"a\"\":id\"", "select \":id\", \"a\"\":id\""),
        ("select $$ :id $$, $a$ $$ :id $a$, :time", "select $$ :id $$, $a$ $$ :id $a$, <:time>"),
        ("select :payload::jsonb, x::text", "select <:payload>::jsonb, x::text"),
        ("select a[1:2], a[x: y], f(a := 1)", "select a[1:2], a[x: y], f(a := 1)"),
        ("select :id -- :type\n, :key", "select <:id> -- :type\n, <:key>"),
        ("select /* :id /* :id */ :id */ :key", "select /* :id /* :id */ :id */ <:key>"),
        ("select :id; -- the end\n /* :id */", "select <:id>"),
        ("select :payload.qty-1, :payload.qty*2", "select <:payload.qty>-1, <:payload.qty>*2"),
        ("select :header.x-tenant, :payload.a.0.b?", "select <:header.x-tenant>, <:payload.a.0.b>"),
        ("select :payload.\"odd-name\".x", "select <:payload.odd-name.x>"),
        ("select doc ? 'a', a$1 from t", "select doc ? 'a', a$1 from t"),
        ("select 'ünï', :key", "select 'ünï', <:key>"),
    ] {
        assert_eq!(text(Kind::Postgres, sql), expected);
    }
    for (sql, expected) in [
        ("select 'a\\':id', \"b\\\":id\", `:id`, :key", "select 'a\\':id', \"b\\\":id\", `:id`, <:key>"),
        ("select 5--1, :id # :key", "select 5--1, <:id> # :key"),
        ("select @a, $b$, :id -- :key", "select @a, $b$, <:id> -- :key"),
        ("select /* /* :id */ :key", "select /* /* :id */ <:key>"),
    ] {
        assert_eq!(text(Kind::MySql, sql), expected);
    }
    assert_eq!(text(Kind::Sqlite, "select [:id], `:id`, :id"), "select [:id], `:id`, <:id>");
}

#[test]
fn a_mistake_is_told_with_its_place() {
    for (kind, sql, place, part) in [
        (Kind::Postgres, "select 1;\nselect :id", "line 2, character 1", "a second statement begins"),
        (Kind::Postgres, "select ':id", "line 1, character 8", "does not end"),
        (Kind::Postgres, "select\n  /* x", "line 2, character 3", "comment does not end"),
        (Kind::Postgres, "select $q$ x", "line 1, character 8", "with $q$ does not end"),
        (Kind::Postgres, "select $1", "line 1, character 8", "nobody gives"),
        (Kind::MySql, "select ?", "line 1, character 8", "nobody gives"),
        (Kind::Sqlite, "select @a", "line 1, character 8", "nobody gives"),
        (Kind::Sqlite, "select :idd", "line 1, character 8", "there is no value :idd; there are :id,"),
        (Kind::Sqlite, "select ä, :id.x", "line 1, character 11", ":id has no parts"),
        (Kind::Sqlite, "select :payload.", "line 1, character 8", "ends with a dot"),
        (Kind::Sqlite, "select :header", "line 1, character 8", ":header lacks a name"),
        (Kind::Sqlite, "select :id?", "line 1, character 8", "needs no ?"),
        (Kind::Sqlite, " -- nothing\n;", "line 1, character 1", "there is no statement"),
    ] {
        let error = Statements::parse(kind, &["select 1", sql]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let told = error.to_string();
        assert!(told.starts_with(&format!("statement 2, {place}: ")) && told.contains(part), "{told}");
    }
    assert!(Statements::parse::<&str>(Kind::Sqlite, &[]).is_err());
    let error = Statements::parse(Kind::MySql, &[" COMMIT"]).unwrap_err();
    assert!(error.to_string().contains("'COMMIT' is left to the inbox"), "{error}");
}

#[test]
fn values_come_from_the_message_and_what_is_missing_is_named() {
    let message = Message::new("order.placed", r#"{"qty": 3, "note": null, "to": {"a": [1]}}"#)
        .id("m1")
        .header("x-tenant", "acme");
    let bound = |sql: &str, message: &Message| {
        Statement::parse(Kind::Sqlite, sql, 1).unwrap().bind(&View::new(message))
    };
    let sql = "select :id, :type, :correlation_id, :attempts, :header.x-tenant, :payload.qty, :payload.to.a, :key?, :payload.note?";
    let expected = vec![
        Bound::Text("m1".to_owned()),
        Bound::Text("order.placed".to_owned()),
        Bound::Text("m1".to_owned()),
        Bound::Int(0),
        Bound::Text("acme".to_owned()),
        Bound::Json(3.into()),
        Bound::Json(serde_json::json!([1])),
        Bound::Null,
        Bound::Null,
    ];
    assert_eq!(bound(sql, &message).unwrap(), expected);
    for (sql, message, part) in [
        ("select :key", message.clone(), ":key: the message has none"),
        ("select :payload.note", message.clone(), ":payload.note: the message has none"),
        ("select :header.x", message.clone(), ":header.x: the message has none"),
        ("select :payload.a?", Message::new("a", ""), ":payload.a: the payload is empty"),
        ("select :payload.a?", Message::new("a", "s3cret"), ":payload.a: the payload is no JSON"),
    ] {
        let failure = format!("{:?}", bound(sql, &message).unwrap_err());
        assert!(
            failure.contains(part) && failure.contains("UNFIT") && failure.contains("Defect"),
            "{failure}"
        );
        assert!(!failure.contains("s3cret"));
    }
    assert_eq!(bound("select :payload?", &Message::new("a", "")).unwrap(), [Bound::Null]);
}
