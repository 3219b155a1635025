//! SMTP: e-mail as a handler.
//!
//! `sink.rs` is the sink, `letter.rs` makes a letter of a message, `relay.rs` reads where letters go, `session.rs` speaks
//! to the server and keeps its connections, `answer.rs` says what its answer means.

mod answer;
mod config;
mod letter;
mod relay;
mod session;
mod sink;

pub use config::MailConfig;
pub use relay::Relay;
pub use sink::Mailer;
