//! Who may ask the program's own server: people with tokens, with sessions, and pages of others that try.

mod client;
mod refusals;
mod secrets;
mod sessions;

use std::net::SocketAddr;

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, Version};

use crate::program::{Program, RELAY, Running};
use crate::web::server;

/// What everybody of these tests knows.
const ANNA: &str = "anna's long password";
const BEN: &str = "ben's longer password";
const ANNAS_TOKEN: &str = "annas-token-0123456789";
const CI_TOKEN: &str = "ci-token-0123456789";
const PUBLISHER_TOKEN: &str = "publisher-token-0123456789";
const SESSION_KEY: &str = "session-key-0123456789-0123456789-0123456789";

/// A hash that is quick to look at.
fn hash(password: &str) -> String {
    let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
    let quick = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash: PasswordHash = quick.hash_password(password.as_bytes()).unwrap();
    hash.to_string()
}

/// A relay with a server, on which anna repairs and ben and a script look; `more` are lines of `[http]`.
fn config(more: &str, annas_hash: &str, annas_role: &str) -> String {
    let bens_hash = hash(BEN);
    format!(
        r#"{RELAY}
[http]
listen = "127.0.0.1:0"
token = "{PUBLISHER_TOKEN}"
session_key = "{SESSION_KEY}"
hosts = ["outbox.example.com"]
{more}
[http.people.anna]
role = "{annas_role}"
password_hash = "{annas_hash}"
token = "{ANNAS_TOKEN}"
[http.people.ben]
role = "viewer"
password_hash = "{bens_hash}"
[http.people.ci]
role = "viewer"
token = "{CI_TOKEN}"
"#
    )
}

fn usual(more: &str) -> Program {
    Program::migrated(&config(more, &hash(ANNA), "operator"))
}

fn start(program: &Program) -> (Running, SocketAddr) {
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    (running, address)
}

/// Stops it; gives what it said.
fn end(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}
