//! `examples/data-registry`, end to end: its own table, configuration and producer, PostgreSQL and Kafka.

#[cfg(feature = "kafka")]
mod carried;
#[cfg(feature = "kafka")]
mod deaths;
#[cfg(feature = "kafka")]
mod failing;
#[cfg(feature = "kafka")]
mod scene;

use crate::program::Program;

#[cfg(feature = "kafka")]
#[path = "../../../../examples/data-registry/producer.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod producer;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data-registry/outboxd.toml");

/// Also in a build that has no Kafka.
#[test]
fn the_configuration_is_valid_as_it_stands() {
    let program = Program::new();
    let mut command = program.command(&["validate", "--config", FILE]);
    let ran = Program::finish(command.env_remove("DATABASE_URL").env_remove("KAFKA_URL"));
    assert_eq!(ran.code, 0, "{ran:#?}");
}
