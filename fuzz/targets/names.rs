//! Names of tables and columns: refused, or quoted so that nothing of them can end the quotes.

use outbox::fuzz::{quoted, quoted_table};
use outbox::table::{Dialect, Field, Name, TableName};

pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for name in [Name::parse(text), Name::parse_table(text)] {
        match name {
            Ok(name) => {
                assert_eq!(name.as_str(), text);
                assert_eq!(quoted(&name, Dialect::Postgres), format!("\"{text}\""));
                assert_eq!(quoted(&name, Dialect::MySql), format!("`{text}`"));
                is_tame(text);
            }
            Err(why) => assert!(!why.contains(char::is_control), "{why:?}"),
        }
    }
    if let Some((schema, table)) = text.split_once('.')
        && let (Ok(schema), Ok(table)) = (Name::parse(schema), Name::parse_table(table))
    {
        let quoted = quoted_table(&TableName { schema: Some(schema), table }, Dialect::Postgres);
        assert_eq!(quoted.matches('"').count(), 4, "{quoted}");
    }
    if let Ok(field) = Field::parse(text) {
        assert_eq!(Field::parse(&field.to_string()).as_ref(), Ok(&field), "{field}");
        is_tame(field.column.as_str());
        field.path.iter().for_each(|member| is_tame(member));
    }
}

/// Nothing that means anything to a database.
fn is_tame(text: &str) {
    assert!(!text.contains(['"', '\'', '`', '\\', '\0', ';', '(', ')', '\n']), "{text:?}");
}
