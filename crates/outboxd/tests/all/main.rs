//! The program as people meet it: the real binary, in a folder of its own, by its exit codes and outputs.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod backlog;
mod bad_input;
mod broker;
mod closed_output;
mod consent;
mod consumer_kills;
mod data_registry;
mod demo;
mod doctor;
mod ecommerce;
mod endpoint;
mod exit_codes;
mod first_steps;
mod handlers;
mod init_from;
mod inventory;
mod kafka;
mod kills;
mod life;
mod mapped;
mod mysql;
mod presets;
mod program;
mod prometheus;
mod publisher;
mod queues;
mod repair;
mod secrets;
mod servers;
mod signals;
mod statements;
mod status;
mod ticketflow;
mod ticketflow_adr;
mod web;
