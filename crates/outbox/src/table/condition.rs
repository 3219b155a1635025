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

use super::name::Name;

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

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Text(String),
    Number(String),
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Number(text) => write!(f, "'{text}'"),
            Self::Quoted(text) => write!(f, "'\"{text}\"'"),
            Self::Text(_) => f.write_str("this text"),
            Self::Sign(sign) => write!(f, "'{sign}'"),
        }
    }
}

/// Longer ones first, so that `<=` is not read as `<`.
const SIGNS: [&str; 10] = ["<=", ">=", "<>", "!=", "=", "<", ">", "(", ")", ","];

/// Words that are no columns, unless they stand in double quotes.
const RESERVED: [&str; 10] = ["and", "or", "not", "is", "null", "in", "true", "false", "now", "between"];

/// Whether a name reads as a column without double quotes.
pub(super) fn is_plain_column(name: &str) -> bool {
    matches!(tokens(name).as_deref(), Ok([(_, Token::Word(word))]) if word == name && !is_reserved(word))
}

fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    end: usize,
    depth: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Self, String> {
        Ok(Self { tokens: tokens(text)?, at: 0, end: text.chars().count() + 1, depth: 0 })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        Err(match self.tokens.get(self.at) {
            Some((position, token)) => {
                format!("at character {position}: {token} stands where {wanted} should")
            }
            None => format!("at character {}: it ends where {wanted} should stand", self.end),
        })
    }

    fn take(&mut self, sign: &str) -> bool {
        let taken = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(taken);
        taken
    }

    fn take_word(&mut self, word: &str) -> bool {
        let taken = matches!(self.peek(), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { self.wrong(&format!("'{sign}'")) }
    }

    fn end(&self) -> Result<(), String> {
        if self.at == self.tokens.len() { Ok(()) } else { self.wrong("AND, OR or the end") }
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.take_word("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.one()?];
        while self.take_word("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
    }

    fn one(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > 50 {
            return Err("it is nested too deeply".to_owned());
        }
        let read = self.one_inside();
        self.depth -= 1;
        read
    }

    fn one_inside(&mut self) -> Result<Condition, String> {
        if self.take_word("not") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.take("(") {
            let inner = self.any()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let column = self.column()?;
        if self.take_word("is") {
            let not = self.take_word("not");
            let test = match self.value()? {
                Value::Null => Condition::IsNull(column),
                value @ Value::Bool(_) => Condition::Compare(column, Operator::Equal, value),
                _ => return self.back().wrong("NULL, TRUE or FALSE"),
            };
            return Ok(if not { Condition::Not(Box::new(test)) } else { test });
        }
        let not = self.take_word("not");
        if self.take_word("in") {
            let test = Condition::OneOf(column, self.values()?);
            return Ok(if not { Condition::Not(Box::new(test)) } else { test });
        }
        if not {
            return self.wrong("IN");
        }
        let Some(operator) = self.operator() else {
            // A boolean column by itself.
            return Ok(Condition::Compare(column, Operator::Equal, Value::Bool(true)));
        };
        match self.value()? {
            Value::Null => {
                Err(format!("nothing equals null: write '{column} IS NULL' or '{column} IS NOT NULL'"))
            }
            value => Ok(Condition::Compare(column, operator, value)),
        }
    }

    fn back(&mut self) -> &Self {
        self.at -= 1;
        self
    }

    fn operator(&mut self) -> Option<Operator> {
        let operators = [
            ("=", Operator::Equal),
            ("<>", Operator::Unequal),
            ("!=", Operator::Unequal),
            ("<", Operator::Less),
            ("<=", Operator::LessOrEqual),
            (">", Operator::Greater),
            (">=", Operator::GreaterOrEqual),
        ];
        operators.into_iter().find(|(sign, _)| self.take(sign)).map(|(_, operator)| operator)
    }

    fn values(&mut self) -> Result<Vec<Value>, String> {
        self.expect("(")?;
        let mut values = vec![self.value()?];
        while self.take(",") {
            values.push(self.value()?);
        }
        self.expect(")")?;
        if values.contains(&Value::Null) {
            return Err("nothing is in a list by being null: write … IS NULL".to_owned());
        }
        Ok(values)
    }

    fn column(&mut self) -> Result<Name, String> {
        let name = match self.peek() {
            Some(Token::Quoted(name)) => name.clone(),
            Some(Token::Word(word)) if !is_reserved(word) => word.clone(),
            _ => return self.wrong("a column"),
        };
        self.at += 1;
        Name::parse(&name)
    }

    fn value(&mut self) -> Result<Value, String> {
        let value = match self.peek() {
            Some(Token::Text(text)) => Value::Text(text.clone()),
            Some(Token::Number(number)) => Value::Number(number.clone()),
            Some(Token::Word(word)) => match word.to_ascii_lowercase().as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                "now" => Value::Now,
                _ => return self.wrong("a value (a number, 'text', true, false, null, now)"),
            },
            _ => return self.wrong("a value (a number, 'text', true, false, null, now)"),
        };
        self.at += 1;
        // As SQL writes it.
        if value == Value::Now && self.take("(") {
            self.expect(")")?;
        }
        Ok(value)
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let (c, start) = (chars[at], at);
        let run = |from: usize, fits: &dyn Fn(char) -> bool| {
            from + chars[from..].iter().take_while(|c| fits(**c)).count()
        };
        let token = if c.is_whitespace() {
            at += 1;
            continue;
        } else if c.is_alphabetic() || c == '_' {
            at = run(at, &|c| c.is_alphanumeric() || c == '_' || c == '$');
            Token::Word(chars[start..at].iter().collect())
        } else if c.is_ascii_digit() || (c == '-' && chars.get(at + 1).is_some_and(char::is_ascii_digit)) {
            at = run(at + 1, &|c| c.is_ascii_digit() || c == '.');
            let number: String = chars[start..at].iter().collect();
            if number.parse::<f64>().is_err() {
                return Err(format!("at character {}: '{number}' is no number", start + 1));
            }
            Token::Number(number)
        } else if c == '"' || c == '\'' {
            let end = run(at + 1, &|other| other != c);
            if end == chars.len() {
                return Err(format!("at character {}: this {c} is not closed", start + 1));
            }
            let inner: String = chars[start + 1..end].iter().collect();
            at = end + 1;
            if c == '"' {
                Token::Quoted(inner)
            } else if inner.contains('\\')
                || inner.chars().any(char::is_control)
                || chars.get(at) == Some(&'\'')
            {
                return Err(format!(
                    "at character {}: a text cannot have quotes, backslashes or control characters in it",
                    start + 1
                ));
            } else {
                Token::Text(inner)
            }
        } else {
            let rest: String = chars[at..].iter().take(2).collect();
            let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
                return Err(format!("at character {}: {c:?} cannot stand here", start + 1));
            };
            at += sign.len();
            Token::Sign(sign)
        };
        tokens.push((start + 1, token));
    }
    Ok(tokens)
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
