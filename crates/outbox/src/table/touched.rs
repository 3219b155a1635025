//! Which columns a mapping reads and sets: what a user must be allowed. Pure.

use super::{Assignment, ClaimBy, Column, Done, Mapping, Name, Origin};

/// Every column that is read; a claim by stamp reads them all.
pub(crate) fn read_columns(mapping: &Mapping, columns: &[Column]) -> Vec<String> {
    if matches!(mapping.claim, ClaimBy::Stamp { .. }) {
        return columns.iter().map(|column| column.name.clone()).collect();
    }
    let mut names: Vec<&Name> = vec![&mapping.id, &mapping.payload.column];
    for origin in [&mapping.kind, &mapping.content_type] {
        if let Origin::Field(field) = origin {
            names.push(&field.column);
        }
    }
    names.extend(mapping.key.iter().chain(&mapping.headers).map(|field| &field.column));
    names.extend(mapping.header_columns.iter().map(|(_, field)| &field.column));
    names.extend(mapping.occurred_at.iter().chain(&mapping.attempts).chain(&mapping.due));
    names.extend(&mapping.order_by);
    names.extend(mapping.pending.columns().into_iter().map(|(name, _)| name));
    present(names, columns)
}

/// Every column that is set.
pub(crate) fn set_columns(mapping: &Mapping, columns: &[Column]) -> Vec<String> {
    let mut names: Vec<&Name> = mapping.attempts.iter().chain(&mapping.error).chain(&mapping.due).collect();
    let done: &[Assignment] = match &mapping.done {
        Done::Delete => &[],
        Done::Set(set) => set,
    };
    names.extend(done.iter().chain(&mapping.failed).chain(&mapping.dead).map(|one| &one.column));
    if let ClaimBy::Stamp { column, .. } = &mapping.claim {
        names.push(column);
    }
    present(names, columns)
}

/// Asking for the rights on a column that is not there would be an error; that it is not there is told elsewhere.
fn present(names: Vec<&Name>, columns: &[Column]) -> Vec<String> {
    let mut names: Vec<_> = names.into_iter().map(|name| name.as_str().to_owned()).collect();
    names.retain(|name| columns.iter().any(|column| column.name == *name));
    names.sort();
    names.dedup();
    names
}
