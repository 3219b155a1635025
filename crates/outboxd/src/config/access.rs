//! `[http.people.NAME]` and the other keys of `[http]` that say who may ask.

use super::{days, secs};
use crate::mistake::{At, Place};
use crate::options::{ANONYMOUS_WORDS, AccessOptions, PAYLOAD_WORDS, PersonOptions, Role};
use crate::password;
use crate::reader::Section;
use crate::secret::Secret;

/// Who may ask for pages and the API.
#[derive(Debug)]
pub struct AccessConfig {
    /// All that stands by itself; the people are not in it yet.
    pub options: AccessOptions,
    /// Where it says what somebody may who has not signed in.
    pub anonymous_place: Place,
    /// `[http.people.NAME]`
    pub people: Vec<PersonConfig>,
}

/// Somebody who can sign in.
#[derive(Debug)]
pub struct PersonConfig {
    /// As they are called.
    pub name: At<String>,
    /// Where their token stands.
    pub token_place: Place,
    /// What they may, and how they are known.
    pub options: PersonOptions,
}

/// The least that a token must have, so that nobody guesses it.
const TOKEN_LEAST: usize = 16;

/// The least that a key must have, so that nobody guesses it.
const KEY_LEAST: usize = 32;

/// `token` or `token_file`; what is wrong with it is noted.
pub(super) fn read_token(section: &Section<'_>) -> Option<At<Secret>> {
    let (token, key) = secret(section, "token", "token_file");
    let token = token?;
    if token.value.len() < TOKEN_LEAST || token.value.chars().any(|c| !c.is_ascii_graphic()) {
        let rule = format!("the token must have {TOKEN_LEAST} characters or more, without spaces");
        section.note_hidden(key, rule, "make one with: openssl rand -hex 24");
    }
    Some(At::new(Secret::new(token.value), token.place))
}

/// A secret that is written or in a file, and which of the two keys it was.
fn secret(
    section: &Section<'_>,
    key: &'static str,
    file: &'static str,
) -> (Option<At<String>>, &'static str) {
    let written = section.text(key);
    if !section.has(file) {
        return (written, key);
    }
    if section.is_set(key) {
        section.note(file, format!("stands beside '{key}'"), "keep one of the two");
    }
    (section.secret_file(file), file)
}

pub(super) fn read_access(section: &Section<'_>) -> AccessConfig {
    let mut options = AccessOptions::default();
    section.flag("dashboard", &mut options.dashboard);
    options.hosts = read_hosts(section);
    section.choice("anonymous", &ANONYMOUS_WORDS, &mut options.anonymous);
    section.choice("payloads", &PAYLOAD_WORDS, &mut options.payloads);
    section.duration("session_lasts", secs(1)..=days(90), &mut options.session_lasts);
    let (session_key, key) = secret(section, "session_key", "session_key_file");
    if session_key.as_ref().is_some_and(|written| written.value.len() < KEY_LEAST) {
        let rule = format!("the key must have {KEY_LEAST} characters or more");
        section.note_hidden(key, rule, "make one with: openssl rand -hex 32");
    }
    options.session_key = session_key.map(|key| Secret::new(key.value));
    let people = section.section("people").map(|people| {
        people.named_sections().into_iter().map(|(name, section)| read_person(name, section)).collect()
    });
    let anonymous_place = section.place_of("anonymous");
    AccessConfig { options, anonymous_place, people: people.unwrap_or_default() }
}

/// Names without scheme, port and path: what a browser sends as Host, less its port.
fn read_hosts(section: &Section<'_>) -> Vec<String> {
    let mut hosts = Vec::new();
    for host in section.texts("hosts") {
        let name = host.value.trim_end_matches('.').to_ascii_lowercase();
        let well_formed = !name.is_empty()
            && name.len() <= 253
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.');
        if well_formed {
            hosts.push(name);
            continue;
        }
        let shown: String = host.value.chars().filter(|c| !c.is_control()).take(80).collect();
        let help = "write a name alone, without https:// and port: hosts = [\"outbox.example.com\"]";
        section.note("hosts", format!("'{shown}' is no name of a host"), help);
    }
    hosts
}

fn read_person(name: At<String>, section: Section<'_>) -> PersonConfig {
    let mut role = Role::Viewer;
    section.choice("role", &Role::WORDS, &mut role);
    if !section.is_set("role") {
        section.note_missing(&["role"], "say what they may: role = \"viewer\" or role = \"operator\"");
    }
    let password_hash = section.text("password_hash").map(|text| Secret::new(text.value));
    if password_hash.as_ref().is_some_and(|hash| !password::is_hash(hash.reveal())) {
        // It may be the password itself.
        let help = "make one with `outboxd password`, and copy all of its line";
        section.note_hidden("password_hash", "is no argon2id hash of a password", help);
    }
    let token = read_token(&section);
    let (written, file) = (section.is_set("token"), section.is_set("token_file"));
    if !written && !file && !section.is_set("password_hash") {
        let help = "add a password_hash, made by `outboxd password`, or a token_file for scripts";
        section.note_missing(&["password_hash", "token", "token_file"], help);
    }
    let token_place = section.place_of(if file { "token_file" } else { "token" });
    section.finish(&[]);
    let options = PersonOptions { role, password_hash, token: token.map(|token| token.value) };
    PersonConfig { name, token_place, options }
}
