//! Whether an index serves the claim, judged from plans, and the index that would. Pure.

use serde_json::Value as Json;

use crate::finding::Finding;
use crate::table::{Condition, Dialect, Done, Layout, Name, Value};

/// In a table with fewer rows than this it does not matter yet which plan is taken.
const MANY: f64 = 5_000.0;

const WHAT: &str = "claim index";

/// How a plan reads the mapped table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// The indexes that give the order, each with whether it leads past rows that are done.
    pub(super) indexes: Vec<(String, bool)>,
    /// Whether all rows are read, or sorted.
    pub(super) all_rows: bool,
}

impl Reads {
    /// Reads the output of `EXPLAIN (FORMAT JSON)`.
    pub(super) fn of(plan: &Json) -> Self {
        let root = &plan[0]["Plan"];
        let mut reads = Self::default();
        // A claim by stamp looks in its first part, and marks in the others what it has found.
        reads.walk(find_next(root).unwrap_or(root));
        reads
    }

    fn walk(&mut self, node: &Json) {
        let kind = node["Node Type"].as_str().unwrap_or_default();
        let alias = node["Alias"].as_str().unwrap_or_default();
        // Partitions have the alias of their parent and a number.
        let is_ours = alias == "m" || alias.starts_with("m_");
        match kind {
            "Index Scan" | "Index Only Scan" if is_ours => {
                let name = node["Index Name"].as_str().unwrap_or_default().to_owned();
                self.indexes.push((name, !node["Index Cond"].is_null()));
            }
            "Seq Scan" | "Bitmap Heap Scan" if is_ours => self.all_rows = true,
            "Sort" => self.all_rows = true,
            _ => {}
        }
        for child in node["Plans"].as_array().into_iter().flatten() {
            self.walk(child);
        }
    }
}

fn find_next(node: &Json) -> Option<&Json> {
    if node["Subplan Name"] == "CTE next" {
        return Some(node);
    }
    node["Plans"].as_array()?.iter().find_map(find_next)
}

/// What was read about a table and its claim.
pub(super) struct Look<'a> {
    pub(super) layout: &'a Layout,
    /// Rows as the planner believes; below 0 if it does not know.
    pub(super) rows: f64,
    pub(super) partitioned: bool,
    /// The plan as the planner likes it best.
    pub(super) liked: Reads,
    /// The plan if it must not sort, nor read all rows.
    pub(super) forced: Reads,
    /// Indexes that have some of the rows only.
    pub(super) partial: Vec<String>,
}

/// Judges it.
pub(super) fn judge(look: &Look<'_>) -> Finding {
    let layout = look.layout;
    let table = &layout.table;
    let size =
        if look.rows < 0.0 { "size unknown".to_owned() } else { format!("about {:.0} rows", look.rows) };
    let create = || create(layout, look.partitioned);
    if look.forced.all_rows || look.forced.indexes.is_empty() {
        let evidence =
            format!("no index serves the claim on '{table}' ({size}): every claim reads and sorts all rows");
        return Finding::warning(WHAT, evidence).fix(create());
    }
    let names: Vec<_> = look.forced.indexes.iter().map(|(name, _)| format!("'{name}'")).collect();
    let names = names.join(", ");
    // Where what is done is removed, there is nothing to be led past.
    let leads = |(name, cond): &(String, bool)| {
        *cond || look.partial.contains(name) || layout.mapping.done == Done::Delete
    };
    if !look.forced.indexes.iter().all(leads) {
        let evidence = format!(
            "index {names} gives the order of '{table}' ({size}), but every claim walks over the rows that are done"
        );
        return Finding::warning(WHAT, evidence).fix(create());
    }
    if look.liked.all_rows && look.rows > MANY {
        let evidence = format!("index {names} could serve the claim on '{table}' ({size}), but is not used");
        return Finding::warning(WHAT, evidence).fix(format!("ANALYZE {};", table.quoted(Dialect::Postgres)));
    }
    Finding::ok(WHAT, format!("index {names} serves the claim on '{table}' ({size})"))
}

/// The index that has just the pending rows, in order.
fn create(layout: &Layout, partitioned: bool) -> String {
    let quoted = |name: &Name| name.quoted(Dialect::Postgres);
    let mut columns: Vec<_> = layout.mapping.order_by.iter().map(quoted).collect();
    let id = quoted(&layout.mapping.id);
    if !columns.contains(&id) {
        columns.push(id);
    }
    // A partitioned table takes no index while others write.
    let concurrently = if partitioned { "" } else { " CONCURRENTLY" };
    let (table, columns) = (layout.table.quoted(Dialect::Postgres), columns.join(", "));
    let only = lasting(&layout.mapping.pending).map(|it| format!(" WHERE {}", predicate(&it)));
    format!("CREATE INDEX{concurrently} ON {table} ({columns}){};", only.unwrap_or_default())
}

/// As much of a condition as does not change with time: an index can hold no more.
fn lasting(condition: &Condition) -> Option<Condition> {
    if let Condition::All(parts) = condition {
        let mut parts: Vec<_> = parts.iter().filter_map(lasting).collect();
        return if parts.len() > 1 { Some(Condition::All(parts)) } else { parts.pop() };
    }
    let changes = condition.columns().iter().any(|(_, values)| values.contains(&&Value::Now));
    (!changes).then(|| condition.clone())
}

/// A condition in an index, where the table has no other name.
fn predicate(condition: &Condition) -> String {
    let column = |name: &Name| name.quoted(Dialect::Postgres);
    let value = |value: &Value| value.as_sql("now()");
    let list = |parts: &[Condition], word: &str| parts.iter().map(nested).collect::<Vec<_>>().join(word);
    match condition {
        Condition::All(parts) => list(parts, " AND "),
        Condition::Any(parts) => list(parts, " OR "),
        Condition::Not(inner) => match &**inner {
            Condition::IsNull(name) => format!("{} IS NOT NULL", column(name)),
            inner => format!("NOT ({})", predicate(inner)),
        },
        Condition::IsNull(name) => format!("{} IS NULL", column(name)),
        Condition::Compare(name, operator, with) => {
            format!("{} {} {}", column(name), operator.as_sql(), value(with))
        }
        Condition::OneOf(name, values) => {
            let values: Vec<_> = values.iter().map(value).collect();
            format!("{} IN ({})", column(name), values.join(", "))
        }
    }
}

fn nested(condition: &Condition) -> String {
    match condition {
        Condition::All(_) | Condition::Any(_) => format!("({})", predicate(condition)),
        other => predicate(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::finding::Level;
    use crate::table::{Column, TableName, Type, preset};

    fn layout(name: &str) -> Layout {
        let mapping = preset(name).unwrap().check().unwrap();
        let column = |name: &str, kind: Type| Column {
            name: name.into(),
            type_name: "text".into(),
            kind,
            nullable: true,
            optional: true,
            unique: true,
        };
        let time = || Type::Time { zoned: true };
        let columns = vec![
            column("Id", Type::Uuid),
            column("Type", Type::Text(None)),
            column("PayloadJson", Type::Text(None)),
            column("CorrelationId", Type::Uuid),
            column("OccurredAt", time()),
            column("DispatchedAt", time()),
            column("Attempts", Type::Integer),
            column("Error", Type::Text(None)),
        ];
        let processed = vec![column("EventId", Type::Uuid), column("ProcessedAt", time())];
        let table = TableName { schema: None, table: Name::parse("OutboxMessages").unwrap() };
        Layout::check(mapping.into(), Dialect::Postgres, table, columns, processed).unwrap()
    }

    fn index(name: &str) -> Reads {
        Reads { indexes: vec![(name.to_owned(), false)], all_rows: false }
    }

    #[test]
    fn a_plan_tells_how_the_table_is_read() {
        let sorted = json!([{ "Plan": { "Node Type": "Limit", "Plans": [{ "Node Type": "Sort", "Plans": [
            { "Node Type": "Seq Scan", "Alias": "m" }] }] } }]);
        assert!(Reads::of(&sorted).all_rows);
        let stamped = json!([{ "Plan": { "Node Type": "Sort", "Plans": [
            { "Node Type": "Limit", "Subplan Name": "CTE next", "Plans": [
                { "Node Type": "Index Scan", "Alias": "m", "Index Name": "pending" },
                { "Node Type": "Seq Scan", "Alias": "p" }] },
            { "Node Type": "CTE Scan", "Alias": "m" }] } }]);
        assert_eq!(Reads::of(&stamped), index("pending"));
    }

    #[test]
    fn an_index_must_give_the_order_and_leave_out_what_is_done() {
        let layout = layout("ticketflow");
        let found = |rows, liked, forced, partial: &[&str]| {
            let partial = partial.iter().map(|name| (*name).to_owned()).collect();
            judge(&Look { layout: &layout, rows, partitioned: false, liked, forced, partial })
        };
        let all = || Reads { all_rows: true, ..Reads::default() };
        let none = found(10.0, all(), all(), &[]);
        assert_eq!(none.level, Level::Warning);
        assert_eq!(
            none.fix.as_deref(),
            Some(
                "CREATE INDEX CONCURRENTLY ON \"OutboxMessages\" (\"OccurredAt\", \"Id\") \
                 WHERE \"DispatchedAt\" IS NULL AND \"Attempts\" < 5;"
            )
        );
        assert_eq!(found(10.0, all(), index("pending"), &["pending"]).level, Level::Ok);
        let walks = found(10.0, all(), index("occurred"), &[]);
        assert!(walks.level == Level::Warning && walks.evidence.contains("walks over the rows"));
        let unused = found(9_000.0, all(), index("pending"), &["pending"]);
        assert_eq!(unused.fix.as_deref(), Some("ANALYZE \"OutboxMessages\";"));
    }

    #[test]
    fn what_changes_with_time_is_not_in_an_index() {
        let of = |text| lasting(&Condition::parse(text).unwrap()).map(|it| predicate(&it));
        assert_eq!(of("a IS NULL AND due <= now").as_deref(), Some("\"a\" IS NULL"));
        assert_eq!(of("due <= now"), None);
        assert_eq!(
            of("NOT a AND (b = 'x' OR c IN (1, 2))").as_deref(),
            Some("NOT (\"a\" = true) AND (\"b\" = 'x' OR \"c\" IN (1, 2))")
        );
    }
}
