//! The RabbitMQ backend.
