//! Names of tables and columns: a strict grammar, and the one place where they are quoted.

use std::fmt;

/// Which SQL is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MariaDB and MySQL.
    MySql,
}

/// The name of a schema, a table or a column, exactly as the database has it.
///
/// Letters and digits of any script, `_`, `$`, `-` and inner spaces; at most 63 bytes. It is always quoted, so
/// `OutboxMessages` means just that and not `outboxmessages`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// What to do about a name that breaks the grammar.
pub const NAME_HELP: &str = "write the name as the database has it, without quotes: letters, digits, _ $ - and inner spaces, at most 63 bytes";

impl Name {
    /// Reads a name; an error says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, "_$- ")
    }

    fn parse_with(text: &str, signs: &str) -> Result<Self, String> {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        if text.is_empty() {
            return Err("a name is missing".to_owned());
        }
        if text.len() > 63 {
            return Err(format!("'{shown}' is longer than 63 bytes"));
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            return Err(format!("'{shown}' begins or ends with a space"));
        }
        if !text.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return Err(format!("'{shown}' does not begin with a letter"));
        }
        match text.chars().find(|c| !c.is_alphanumeric() && !signs.contains(*c)) {
            Some(c) => Err(format!("'{shown}' has {c:?} in it, which a name cannot have")),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// Reads the name of a table, which may have a dot inside: MySQL has tables such as `cap.published`, whose
    /// dot parts nothing.
    pub fn parse_table(text: &str) -> Result<Self, String> {
        if text.ends_with('.') { Self::parse(text) } else { Self::parse_with(text, "_$- .") }
    }

    /// The name, not quoted: for messages and for values, never for SQL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name for standard SQL. The grammar leaves nothing to escape.
    pub(crate) fn standard(&self) -> String {
        format!("\"{}\"", self.0)
    }

    /// The name for SQL.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn quoted(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Postgres => self.standard(),
            Dialect::MySql => format!("`{}`", self.0),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A table, in a schema or where the connection looks first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The schema (a database, in MySQL).
    pub schema: Option<Name>,
    /// The table.
    pub table: Name,
}

impl TableName {
    /// For standard SQL.
    #[cfg(feature = "sqlite")]
    pub(crate) fn standard(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.standard(), self.table.standard()),
            None => self.table.standard(),
        }
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn quoted(&self, dialect: Dialect) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.quoted(dialect), self.table.quoted(dialect)),
            None => self.table.quoted(dialect),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.table),
            None => write!(f, "{}", self.table),
        }
    }
}

/// A column, or a member of the JSON in it.
///
/// Written `Column`, `Column->member->member` for a member as JSON, `Column->>member` for a text member without
/// its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The column.
    pub column: Name,
    /// The way to a member; empty for the column itself.
    pub path: Vec<String>,
    /// Whether a text member loses its quotes.
    pub unquoted: bool,
}

impl Field {
    /// Reads a field; an error says which rule it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split("->");
        let column = Name::parse(parts.next().unwrap_or_default())?;
        let (mut path, mut unquoted) = (Vec::new(), false);
        for part in parts {
            if unquoted {
                return Err(format!("'{text}': ->> is the last step of a way"));
            }
            let member = part.strip_prefix('>').unwrap_or(part);
            unquoted = member.len() != part.len();
            let fits = |c: char| c.is_alphanumeric() || "_$-".contains(c);
            if member.is_empty() || !member.chars().all(fits) {
                return Err(format!("'{text}': '{member}' is no name of a member"));
            }
            path.push(member.to_owned());
        }
        Ok(Self { column, path, unquoted })
    }

    /// The column itself.
    pub fn of(column: Name) -> Self {
        Self { column, path: Vec::new(), unquoted: false }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.column)?;
        for (index, member) in self.path.iter().enumerate() {
            let arrow = if self.unquoted && index + 1 == self.path.len() { "->>" } else { "->" };
            write!(f, "{arrow}{member}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_could_leave_the_quotes_is_a_name() {
        for good in
            ["Id", "OutboxMessages", "outbox_messages", "_x", "Événements", "2fa", "a b", "a-b", "a$1"]
        {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
        for bad in
            ["", "a\"b", "a`b", "a;b", "a.b", "a'b", "a\\b", "a\nb", "a\0b", " a", "a ", "-a", "$a", "a(b)"]
        {
            Name::parse(bad).expect_err(bad);
        }
        assert!(Name::parse(&"x".repeat(64)).is_err());
        for bad in ["", ".a", "a.", "a.b;c", "a.`b"] {
            Name::parse_table(bad).expect_err(bad);
        }
    }

    #[test]
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn a_name_is_quoted_as_its_database_does() {
        let name = Name::parse("DispatchedAt").unwrap();
        assert_eq!(name.quoted(Dialect::Postgres), "\"DispatchedAt\"");
        assert_eq!(name.quoted(Dialect::MySql), "`DispatchedAt`");
        assert_eq!(Name::parse_table("cap.published").unwrap().quoted(Dialect::MySql), "`cap.published`");
    }

    #[test]
    fn a_field_is_a_column_or_a_member_of_it() {
        for text in ["Id", "Content->Value", "Content->Headers->>cap-msg-id"] {
            assert_eq!(Field::parse(text).unwrap().to_string(), text);
        }
        let field = Field::parse("Data->a->>b").unwrap();
        assert_eq!((field.path, field.unquoted), (vec!["a".to_owned(), "b".to_owned()], true));
        for bad in ["", "->a", "a->", "a->>", "a->>b->c", "a->b'c", "a->{b}", "a->b;c"] {
            Field::parse(bad).expect_err(bad);
        }
    }
}
