//! Conditions and assignments of mapped tables: refused, or read as what they say, and with nothing to escape.

use outbox::fuzz::value_as_sql;
use outbox::table::{Condition, Name, Operator, Value, parse_assignments};

pub fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Condition::parse(text) {
        Ok(condition) => {
            for (column, values) in condition.columns() {
                values.into_iter().for_each(is_tame);
                let _ = (condition.limit_of(column), condition.without(column));
            }
            let written = write(&condition);
            match Condition::parse(&written) {
                // The brackets that are added here are brackets too.
                Err(why) if why.contains("too deeply") => {}
                again => assert_eq!(again.as_ref(), Ok(&condition), "{written}"),
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
    if let Ok(assignments) = parse_assignments(text) {
        assignments.iter().for_each(|one| is_tame(&one.value));
        let written: Vec<_> =
            assignments.iter().map(|one| format!("{} = {}", column(&one.column), one.value)).collect();
        assert_eq!(parse_assignments(&written.join(", ")), Ok(assignments));
    }
}

/// A value cannot say more than its own.
fn is_tame(value: &Value) {
    match value {
        Value::Text(text) => assert!(!text.contains(['\'', '\\', '\0']), "{text:?}"),
        Value::Number(number) => {
            assert!(number.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)), "{number:?}");
            assert!(number.contains(|c: char| c.is_ascii_digit()) && !number.contains("--"), "{number:?}");
        }
        Value::Bool(_) | Value::Null | Value::Now => {}
    }
    let sql = value_as_sql(value);
    assert!(!sql.contains("--") || sql.starts_with('\''), "{sql}");
}

fn column(name: &Name) -> String {
    format!("\"{}\"", name.as_str())
}

/// The condition as a person would write it, with brackets around everything.
fn write(condition: &Condition) -> String {
    let all = |parts: &[Condition], word: &str| {
        let parts: Vec<_> = parts.iter().map(|part| format!("({})", write(part))).collect();
        parts.join(word)
    };
    match condition {
        Condition::All(parts) => all(parts, " AND "),
        Condition::Any(parts) => all(parts, " OR "),
        Condition::Not(inner) => format!("NOT ({})", write(inner)),
        Condition::IsNull(name) => format!("{} IS NULL", column(name)),
        Condition::Compare(name, operator, value) => {
            let sign = match operator {
                Operator::Equal => "=",
                Operator::Unequal => "<>",
                Operator::Less => "<",
                Operator::LessOrEqual => "<=",
                Operator::Greater => ">",
                Operator::GreaterOrEqual => ">=",
            };
            format!("{} {sign} {value}", column(name))
        }
        Condition::OneOf(name, values) => {
            let values: Vec<_> = values.iter().map(ToString::to_string).collect();
            format!("{} IN ({})", column(name), values.join(", "))
        }
    }
}
