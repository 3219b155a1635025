//! The testbed tests itself: a fault that does not happen would make the other tests worthless.

mod browser;
#[cfg(feature = "kafka")]
mod kafka;
mod lifetime;
mod mariadb;
mod postgres;
mod prometheus;
mod proxy;
mod rabbitmq;
mod smtp;
