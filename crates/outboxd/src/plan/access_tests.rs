//! The rules of who may ask the program's own server.

use super::tests::{BASE, assert_each, assert_shown, mistakes, only_mistake, parse, warnings};
use crate::options::{AccessOptions, Payloads, Role};
use crate::show::effective;

const HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
const HERE: &str = "[http]\nlisten = \"127.0.0.1:8480\"\n";
const ANNA: &str = "[http.people.anna]\nrole = \"operator\"\n";

/// Somebody with every key.
pub(super) const EVERY_PERSON: &str = "[http.people.anna]\nrole = \"viewer\"\ntoken = \"token-of-anna-16\"\n";

/// A server that everybody can reach, with these lines.
fn anywhere(more: &str) -> String {
    format!("{BASE}[http]\nlisten = \"0.0.0.0:8480\"\n{more}")
}

fn here(more: &str) -> String {
    format!("{BASE}{HERE}{more}")
}

#[test]
fn nobody_may_anything_unless_it_is_written() {
    let access = parse(&here("")).expect("it is valid").http.expect("it listens").access;
    assert_eq!(access, AccessOptions::default());
    assert_eq!((access.anonymous, access.payloads, access.dashboard), (None, Payloads::Operator, true));
    assert!(access.people.is_empty() && access.hosts.is_empty());
}

#[test]
fn people_have_a_role_and_a_password_or_a_token() {
    let text = anywhere(&format!(
        "hosts = [\"Outbox.Example.com.\"]\nsession_key = \"{}\"\nsession_lasts = \"30m\"\npayloads = \"nobody\"\n\
         {ANNA}password_hash = \"{HASH}\"\n[http.people.ci]\nrole = \"viewer\"\ntoken = \"canary-0123456789\"\n",
        "canary-key-".repeat(3)
    ));
    let plan = parse(&text).expect("it is valid");
    let shown = format!("{plan:?} {}", effective(&plan));
    for secret in ["canary", "$argon2id", "CTFhFdXPJO1a"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    let shown = &effective(&plan)["http"];
    assert_eq!(shown["people"]["anna"]["password_hash"], "***", "{shown}");
    assert_eq!((&shown["people"]["ci"]["token"], &shown["session_key"]), (&"***".into(), &"***".into()));
    let access = plan.http.expect("it listens").access;
    assert_eq!(access.hosts, ["outbox.example.com"]);
    assert_eq!((access.people["anna"].role, access.people["ci"].role), (Role::Operator, Role::Viewer));
    assert_eq!(access.people["anna"].password_hash.as_ref().expect("it has one").reveal(), HASH);
    assert_shown(&here("hosts = [\"a.example\"]\nanonymous = \"operator\"\ndashboard = false\n"));
}

#[test]
fn a_server_that_anybody_can_reach_needs_somebody_who_signs_in() {
    let text = anywhere("");
    assert!(
        only_mistake(&text)
            .contains("http.listen = \"0.0.0.0:8480\": anybody can reach it, and nobody needs"),
        "{}",
        only_mistake(&text)
    );
    assert!(parse(&anywhere(&format!("{ANNA}password_hash = \"{HASH}\"\n"))).is_ok());
    assert!(parse(&anywhere(&format!("{ANNA}token = \"0123456789abcdef\"\n"))).is_ok());
    for role in ["viewer", "operator"] {
        let more = format!("anonymous = \"{role}\"\ntoken = \"0123456789abcdef\"\n");
        let found = only_mistake(&anywhere(&more));
        let words = format!("http.anonymous = \"{role}\": anybody can reach 0.0.0.0:8480 without signing in");
        assert!(found.starts_with("/srv/outboxd.toml:16:13") && found.contains(&words), "{found}");
        assert!(parse(&here(&more)).is_ok());
    }
    assert!(parse(&anywhere("anonymous = \"none\"\ntoken = \"0123456789abcdef\"\n")).is_ok());
}

#[test]
fn who_is_let_in_without_a_name_should_not_come_through_a_proxy() {
    let told = warnings(&here("hosts = [\"a.example\"]\nanonymous = \"viewer\"\n"));
    assert_eq!(told.len(), 1, "{told:#?}");
    let words = "http.anonymous = \"viewer\": who comes through a proxy as a.example need not sign in either";
    assert!(told[0].contains(words), "{told:#?}");
    assert!(warnings(&here("anonymous = \"viewer\"\n")).is_empty());
}

#[test]
fn where_people_sign_in_over_a_network_somebody_should_speak_tls() {
    for who in [format!("password_hash = \"{HASH}\"\n"), "token = \"0123456789abcdef\"\n".to_owned()] {
        let told = warnings(&anywhere(&format!("{ANNA}{who}")));
        assert_eq!(told.len(), 1, "{told:#?}");
        let words = "http.listen = \"0.0.0.0:8480\": passwords and tokens cross the network in plain text";
        assert!(told[0].contains(words) && told[0].contains("TLS"), "{told:#?}");
        assert!(warnings(&here(&format!("{ANNA}{who}"))).is_empty(), "this machine alone");
    }
}

#[test]
fn what_is_wrong_with_people_is_told_without_their_secrets() {
    let person = |lines: &str| here(&format!("{ANNA}{lines}"));
    assert_each(&[
        (person(""), "[http.people.anna] has no 'password_hash' or 'token' or 'token_file'"),
        (
            person("password_hash = \"canary\"\n"),
            "http.people.anna.password_hash: is no argon2id hash of a password | make one with `outboxd password`",
        ),
        (person("token = \"canary\"\n"), "http.people.anna.token: the token must have 16 characters"),
        (person("token_file = \"/nonexistent\"\n"), "http.people.anna.token_file = \"/nonexistent\": cannot"),
        (
            person("tokn = \"canary-0123456789\"\n"),
            "unknown key 'tokn' in [http.people.anna] | did you mean 'token'",
        ),
        (
            person(
                "token = \"canary-0123456789\"\n[http.people.ben]\nrole = \"viewer\"\ntoken = \"canary-0123456789\"\n",
            ),
            "http.people.ben: has the same token as [http.people.anna] | give each their own",
        ),
        (
            here(&format!("token = \"canary-0123456789\"\n{ANNA}token = \"canary-0123456789\"\n")),
            "http.people.anna: has the same token as [http]",
        ),
        (here("[http.people.anna]\ntoken = \"canary-0123456789\"\n"), "[http.people.anna] has no 'role'"),
        (
            here("[http.people.anna]\nrole = \"admin\"\ntoken = \"canary-0123456789\"\n"),
            "http.people.anna.role = \"admin\": must be one of: viewer, operator",
        ),
        (
            here("[http.people.\"anna b\"]\nrole = \"viewer\"\ntoken = \"canary-0123456789\"\n"),
            "\"anna b\" in [http.people] is no name",
        ),
        (
            here("[http.people.anonymous]\nrole = \"viewer\"\ntoken = \"canary-0123456789\"\n"),
            "\"anonymous\" in [http.people] stands for who has not signed in",
        ),
        (here("session_key = \"canary\"\n"), "http.session_key: the key must have 32 characters"),
        (here("session_lasts = \"0s\"\n"), "http.session_lasts = \"0s\": is out of range"),
        (here("anonymous = \"all\"\n"), "http.anonymous = \"all\": must be one of: none, viewer, operator"),
        (here("payloads = \"all\"\n"), "http.payloads = \"all\": must be one of: nobody, operator, viewer"),
        (here("dashboard = \"no\"\n"), "http.dashboard: must be true or false"),
        (here("hosts = [\"https://a.example\"]\n"), "http.hosts: 'https://a.example' is no name of a host"),
        (here("hosts = \"a.example\"\n"), "http.hosts: must be a list of strings"),
    ]);
    let both = person("token = \"canary\"\ntoken_file = \"/nonexistent\"\n");
    let all = mistakes(&both).concat();
    assert!(all.contains("http.people.anna.token_file = \"/nonexistent\": stands beside 'token'"), "{all}");
    for text in [person("password_hash = \"canary\"\n"), person("token = \"canary\"\n"), both] {
        assert!(!mistakes(&text).concat().contains("canary"), "{text}");
    }
}
