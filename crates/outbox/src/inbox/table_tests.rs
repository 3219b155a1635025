use super::*;

fn column(name: &str, kind: Type, optional: bool) -> Column {
    let type_name = format!("{kind:?}");
    Column { name: name.to_owned(), kind, type_name, nullable: false, optional, unique: false }
}

fn unique(columns: &[&str]) -> Unique {
    columns.iter().map(|name| (*name).to_owned()).collect()
}

fn misfit(table: &InboxTable, columns: &[Column], indexes: &[Unique]) -> String {
    let error = table.check(columns, indexes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mapping);
    error.to_string()
}

#[test]
fn every_misfit_is_told() {
    let table = InboxTable::parse(None, "ProcessedEvents", "EventId").unwrap();
    let timed = table.clone().at("ProcessedAt").unwrap();
    let good =
        [column("EventId", Type::Uuid, false), column("ProcessedAt", Type::Time { zoned: true }, false)];
    let index = [unique(&["EventId"])];
    let keys = timed.check(&good, &index).unwrap();
    assert_eq!(keys, Keys { uuid: true, id: None, consumer: None });
    assert!(misfit(&table, &[], &[]).contains("there is no table 'ProcessedEvents'"));
    assert!(misfit(&table, &good, &index).contains("column 'ProcessedAt' must be filled"));
    let told = misfit(&timed, &[column("EventId", Type::Json, false)], &[unique(&["EventId", "x"])]);
    for part in ["must be a uuid or text", "no column 'ProcessedAt'", "no unique index on exactly 'EventId'"]
    {
        assert!(told.contains(part), "{told}");
    }
    let named = timed.consumer("Name").unwrap();
    let columns = [&good[..], &[column("Name", Type::Text(Some(5)), false)]].concat();
    assert!(misfit(&named, &columns, &index).contains("on exactly 'EventId', 'Name'"));
    let both = unique(&["Name", "EventId"]);
    assert!(misfit(&named, &columns, &[both.clone(), index[0].clone()]).contains("would see each other's"));
    let keys = named.check(&columns, &[both]).unwrap();
    assert_eq!(keys.check_consumer("sixsix").unwrap_err().kind(), ErrorKind::Config);
    assert!(keys.check_consumer("fives").is_ok());
}

#[test]
fn only_what_has_a_time_is_pruned_and_only_names_are_names() {
    let table = InboxTable::parse(Some("shop"), "Done", "Id").unwrap();
    assert!(table.clone().prune(true).unwrap_err().to_string().contains("column that has the time"));
    assert!(table.at("At").unwrap().prune(true).unwrap().prune);
    for (schema, name, id) in [(Some("a\"b"), "t", "i"), (None, "t;", "i"), (None, "t", "i'")] {
        assert_eq!(InboxTable::parse(schema, name, id).unwrap_err().kind(), ErrorKind::Config);
    }
}

#[test]
fn an_id_is_kept_as_it_is_or_refused() {
    let text = Keys { uuid: false, id: Some(4), consumer: None };
    assert_eq!(text.id(&"äöüß".into()).unwrap(), "äöüß");
    assert_eq!(text.id(&"12345".into()).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(text.id(&"a\0".into()).unwrap_err().kind(), ErrorKind::Invalid);
    let uuid = Keys { uuid: true, id: None, consumer: None };
    let id = "0190ABCD-0000-7000-8000-000000000001";
    assert_eq!(uuid.id(&id.into()).unwrap(), id.to_lowercase());
    assert!(uuid.id(&"order-1".into()).unwrap_err().to_string().contains("'order-1' is no UUID"));
}
