//! Whether an index serves the claim, judged from the indexes that there are, and the index that would. Pure.
//!
//! Not from a plan: for a table with few rows the server reads all of them, whatever indexes it has.

use crate::finding::Finding;
use crate::schema::{Dialect, Name, Type};
use crate::table::{Condition, Done, Layout, Operator, Value};

const WHAT: &str = "claim index";

/// An index with its columns, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

/// Judges them.
pub(super) fn judge(layout: &Layout, indexes: &[Index]) -> Finding {
    let (mapping, table) = (&layout.mapping, &layout.table);
    let narrowing = narrowing(layout);
    let order = mapping.order_by.first().unwrap_or(&mapping.id);
    let begins = |names: &[&Name]| {
        indexes.iter().find(|index| {
            index.columns.first().is_some_and(|first| names.iter().any(|name| name.as_str() == first))
        })
    };
    if let Some(index) = begins(&narrowing) {
        return Finding::ok(WHAT, format!("index '{}' leads to the pending rows of '{table}'", index.name));
    }
    match begins(&[order]) {
        // Where what is done is removed, there is nothing to be led past.
        Some(index) if mapping.done == Done::Delete => {
            Finding::ok(WHAT, format!("index '{}' gives the order of '{table}'", index.name))
        }
        Some(index) => {
            let evidence = format!(
                "index '{}' gives the order of '{table}', but every claim walks over the rows that are done",
                index.name
            );
            Finding::warning(WHAT, evidence).fix(create(layout, &narrowing))
        }
        None => {
            let evidence =
                format!("no index serves the claim on '{table}': every claim reads and sorts all rows");
            Finding::warning(WHAT, evidence).fix(create(layout, &narrowing))
        }
    }
}

/// The columns whose value tells a pending row; those that must have one value, if there are any.
fn narrowing(layout: &Layout) -> Vec<&Name> {
    let pending = &layout.mapping.pending;
    let mut names = fixed(pending);
    if names.is_empty() {
        names = pending.columns().into_iter().map(|(name, _)| name).collect();
    }
    names.retain(|name| can_be_indexed(layout, name));
    names.dedup();
    names
}

fn fixed(condition: &Condition) -> Vec<&Name> {
    match condition {
        Condition::All(parts) => parts.iter().flat_map(fixed).collect(),
        Condition::IsNull(name) => vec![name],
        Condition::Compare(name, Operator::Equal, value) if *value != Value::Now => vec![name],
        Condition::Not(inner) => match &**inner {
            // Not true is false.
            Condition::Compare(_, Operator::Equal, Value::Bool(_)) => fixed(inner),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Long texts cannot, without a length.
fn can_be_indexed(layout: &Layout, name: &Name) -> bool {
    layout.column(name).is_none_or(|column| {
        !matches!(column.kind, Type::Text(None) | Type::Json | Type::Bytes)
            && !column.type_name.contains("text")
    })
}

/// The index that leads to the pending rows, in order.
fn create(layout: &Layout, narrowing: &[&Name]) -> String {
    let mapping = &layout.mapping;
    let mut columns: Vec<String> = Vec::new();
    let order = mapping.order_by.iter().filter(|name| can_be_indexed(layout, name));
    for name in narrowing.iter().copied().chain(order).chain([&mapping.id]) {
        let name = name.quoted(Dialect::MySql);
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let (table, columns) = (layout.table.quoted(Dialect::MySql), columns.join(", "));
    format!("CREATE INDEX outbox_pending ON {table} ({columns});")
}
