//! The parser of conditions and assignments; the grammar is told in `condition.rs`.

use std::fmt;

use super::condition::{Condition, Operator, Value};
use crate::schema::Name;

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

pub(super) struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    end: usize,
    depth: usize,
}

impl Parser {
    pub(super) fn new(text: &str) -> Result<Self, String> {
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

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let taken = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(taken);
        taken
    }

    fn take_word(&mut self, word: &str) -> bool {
        let taken = matches!(self.peek(), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.at += usize::from(taken);
        taken
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { self.wrong(&format!("'{sign}'")) }
    }

    pub(super) fn end(&self) -> Result<(), String> {
        if self.at == self.tokens.len() { Ok(()) } else { self.wrong("AND, OR or the end") }
    }

    pub(super) fn any(&mut self) -> Result<Condition, String> {
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

    pub(super) fn column(&mut self) -> Result<Name, String> {
        let name = match self.peek() {
            Some(Token::Quoted(name)) => name.clone(),
            Some(Token::Word(word)) if !is_reserved(word) => word.clone(),
            _ => return self.wrong("a column"),
        };
        self.at += 1;
        Name::parse(&name)
    }

    pub(super) fn value(&mut self) -> Result<Value, String> {
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
