//! The publisher: what it answers, on a paused clock; and what arrives, with real servers that fail.

#[cfg(all(feature = "postgres", feature = "rabbitmq"))]
mod broker;
mod chaos;
#[cfg(all(feature = "rabbitmq", feature = "sqlite"))]
mod killed;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod lanes;
mod logic;
#[cfg(all(feature = "mysql", feature = "postgres", feature = "rabbitmq"))]
mod tables;
