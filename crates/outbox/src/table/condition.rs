//! Conditions and assignments as a person writes them, read by a small grammar of our own and written anew for
//! the database. Nothing of the text itself ever reaches the database.
//!
//! ```text
//! condition   = all { OR all }            all = one { AND one }
//! one         = [NOT] ( condition ) | [NOT] column | column IS [NOT] NULL
//!             | column ( = | <> | != | < | <= | > | >= ) value | column [NOT] IN ( value, … )
//! assignments = column = value, …
//! value       = number | 'text' | true | false | null | now
//! ```

use std::fmt;

use super::parser::Parser;
use crate::schema::Name;

/// A value in a condition or an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number, as it was written.
    Number(String),
    /// A text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// Nothing.
    Null,
    /// The database's own time.
    Now,
}

/// How a column is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    pub(crate) fn as_sql(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// Which rows are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Every one of these.
    All(Vec<Condition>),
    /// One of these.
    Any(Vec<Condition>),
    /// Not this.
    Not(Box<Condition>),
    /// The column is null.
    IsNull(Name),
    /// The column compares so to a value.
    Compare(Name, Operator, Value),
    /// The column is one of these.
    OneOf(Name, Vec<Value>),
}

/// A column and what it is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The column.
    pub column: Name,
    /// The value.
    pub value: Value,
}

impl Condition {
    /// Reads a condition; an error says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser::new(text)?;
        let condition = parser.any()?;
        parser.end()?;
        Ok(condition)
    }

    /// Every column that it looks at, with the values it is compared to.
    pub fn columns(&self) -> Vec<(&Name, Vec<&Value>)> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::columns).collect(),
            Self::Not(inner) => inner.columns(),
            Self::IsNull(column) => vec![(column, Vec::new())],
            Self::Compare(column, _, value) => vec![(column, vec![value])],
            Self::OneOf(column, values) => vec![(column, values.iter().collect())],
        }
    }

    /// The limit that it sets to a counter: what the counter reaches when a row is not meant any more.
    pub fn limit_of(&self, counter: &Name) -> Option<u32> {
        match self {
            Self::All(parts) => parts.iter().filter_map(|part| part.limit_of(counter)).min(),
            Self::Compare(column, operator, Value::Number(number)) if column == counter => {
                let number = number.parse::<u32>().ok()?;
                match operator {
                    Operator::Less => Some(number),
                    Operator::LessOrEqual => number.checked_add(1),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The same without what it says about a column, where that can be left out.
    pub fn without(&self, column: &Name) -> Option<Self> {
        match self {
            Self::All(parts) => {
                let parts: Vec<_> = parts.iter().filter_map(|part| part.without(column)).collect();
                if parts.is_empty() { None } else { Some(Self::All(parts)) }
            }
            Self::Compare(name, ..) | Self::IsNull(name) | Self::OneOf(name, _) if name == column => None,
            other => Some(other.clone()),
        }
    }
}

/// Reads assignments; an error says what is wrong and where.
pub fn parse_assignments(text: &str) -> Result<Vec<Assignment>, String> {
    let mut parser = Parser::new(text)?;
    let mut assignments: Vec<Assignment> = Vec::new();
    loop {
        let column = parser.column()?;
        parser.expect("=")?;
        let value = parser.value()?;
        if assignments.iter().any(|other| other.column == column) {
            return Err(format!("'{column}' is set twice"));
        }
        assignments.push(Assignment { column, value });
        if !parser.take(",") {
            break;
        }
    }
    parser.end()?;
    Ok(assignments)
}

impl Value {
    /// The value for SQL, where `now` is what the column's type needs.
    pub(crate) fn as_sql(&self, now: &str) -> String {
        match self {
            Self::Number(number) => number.clone(),
            // The grammar leaves nothing to escape.
            Self::Text(text) => format!("'{text}'"),
            Self::Bool(true) => "true".to_owned(),
            Self::Bool(false) => "false".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Now => now.to_owned(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_sql("now"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str) -> Name {
        Name::parse(name).unwrap()
    }

    #[test]
    fn the_conditions_of_the_documents_can_be_read() {
        let ticketflow = Condition::parse("\"DispatchedAt\" IS NULL AND Attempts < 5").unwrap();
        assert_eq!(
            ticketflow,
            Condition::All(vec![
                Condition::IsNull(column("DispatchedAt")),
                Condition::Compare(column("Attempts"), Operator::Less, Value::Number("5".into())),
            ])
        );
        assert_eq!(ticketflow.limit_of(&column("Attempts")), Some(5));
        assert_eq!(ticketflow.limit_of(&column("DispatchedAt")), None);
        assert_eq!(
            ticketflow.without(&column("Attempts")),
            Some(Condition::All(vec![Condition::IsNull(column("DispatchedAt"))]))
        );
        let prisma = Condition::parse("status = 'PENDING' and retries<=4").unwrap();
        assert_eq!(prisma.limit_of(&column("retries")), Some(5));
        let ecommerce = Condition::parse("NOT IsProcessed AND (RetryCount < 3 OR Due <= now())").unwrap();
        assert_eq!(ecommerce.columns().len(), 3);
        assert_eq!(
            Condition::parse("s IN ('a', 'b') and not t is true").unwrap(),
            Condition::All(vec![
                Condition::OneOf(column("s"), vec![Value::Text("a".into()), Value::Text("b".into())]),
                Condition::Not(Box::new(Condition::Compare(column("t"), Operator::Equal, Value::Bool(true)))),
            ])
        );
    }

    #[test]
    fn what_is_no_condition_is_told_with_its_place() {
        let told = |text: &str| Condition::parse(text).expect_err(text);
        assert_eq!(told("a IS NULL; DROP TABLE x"), "at character 10: ';' cannot stand here");
        assert!(told("a IS NULL -- x").contains("at character 11: '-'"), "{}", told("a IS NULL -- x"));
        assert!(told("").contains("it ends where a column should stand"));
        assert!(told("a = b").contains("'b' stands where a value"));
        assert!(told("a = 'it''s'").contains("cannot have quotes"));
        assert!(told("a = 'x\\'").contains("backslashes"));
        assert!(told("a = 'x").contains("not closed"));
        assert!(told("a = null").contains("IS NULL"));
        assert!(told("a < 5)").contains("')' stands where AND"));
        assert!(told("lower(a) = 'x'").contains("'('"));
        assert!(told("a BETWEEN 1 AND 2").contains("BETWEEN"));
        assert!(told("\"a\"\"b\" = 1").contains("stands where"));
        assert!(told(&"(".repeat(1_000)).contains("too deeply"));
    }

    #[test]
    fn assignments_are_columns_with_values() {
        let set = parse_assignments("status = 'PROCESSED', processedAt = now, Error = null").unwrap();
        let shown: Vec<_> = set.iter().map(|one| format!("{}={}", one.column, one.value)).collect();
        assert_eq!(shown, ["status='PROCESSED'", "processedAt=now", "Error=null"]);
        assert!(parse_assignments("a = 1, a = 2").unwrap_err().contains("twice"));
        assert!(parse_assignments("a = 1; b = 2").unwrap_err().contains("';'"));
        assert!(parse_assignments("a = a + 1").unwrap_err().contains("'+'"));
    }
}
