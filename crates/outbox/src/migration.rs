//! A step of a database schema, as plain SQL that anybody can read and run.

/// One step; steps are applied in order, each once, and never changed after a release.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Its place in the order, from 1.
    pub version: u32,
    /// What it does, in a word or two.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}
