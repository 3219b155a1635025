//! The one table from kinds to backends: the only file that knows which databases and brokers there are.

/// What a template of a routing key may hold.
pub const TEMPLATE_HELP: &str = "write text with {type}, {key} or {header:NAME} in it";

/// Whether a template of a routing key can be used.
pub fn check_template(_template: &str) -> Result<(), String> {
    Ok(())
}
