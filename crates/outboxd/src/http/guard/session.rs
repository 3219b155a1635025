//! Sessions: a signed cookie that says who signed in, until when, and with which password.
//!
//! A session ends with its time, with the key, with the password, or when its holder says so; only that last is kept here, in
//! memory. What somebody may is looked up with every request.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum_extra::extract::cookie::{Cookie, Key, SameSite, SignedCookieJar};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::token::is_same;
use crate::http::person::{Person, Role};
use crate::options::AccessOptions;
use crate::password;

/// The name of the cookie.
const COOKIE: &str = "outboxd-session";

/// What is derived from the key, and from a hash: neither must lead to the other.
const FOR_COOKIES: &[u8] = b"outboxd: signs sessions";
const FOR_MARKS: &[u8] = b"outboxd: marks of passwords";

/// So many sessions that were ended are kept; the one that is over first makes room.
const KEPT: usize = 10_000;

pub(super) struct Sessions {
    key: Key,
    lasts: Duration,
    people: BTreeMap<String, Known>,
    ended: Mutex<Ended>,
}

/// Sessions that their holders have ended, by id, each with when it would have been over.
#[derive(Default)]
struct Ended(HashMap<String, u64>);

impl Ended {
    fn insert(&mut self, id: String, until: u64, now: u64) {
        if self.0.len() >= KEPT {
            self.0.retain(|_, until| *until > now);
        }
        if self.0.len() >= KEPT {
            let first = self.0.iter().min_by_key(|(_, until)| **until).map(|(id, _)| id.clone());
            first.and_then(|first| self.0.remove(&first));
        }
        self.0.insert(id, until);
    }
}

/// What is known of somebody with a password.
struct Known {
    role: Role,
    /// Follows from the hash of the password, and changes with it.
    mark: String,
}

/// What a cookie says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ticket {
    name: String,
    /// In seconds since 1970.
    until: u64,
    mark: String,
    /// Of this session alone.
    id: String,
}

impl Ticket {
    /// No part has dots.
    fn write(&self) -> String {
        format!("{}.{}.{}.{}", self.name, self.until, self.mark, self.id)
    }

    fn read(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let [name, until, mark, id] = parts[..] else { return None };
        let until = until.parse().ok()?;
        Some(Self { name: name.to_owned(), until, mark: mark.to_owned(), id: id.to_owned() })
    }
}

impl Sessions {
    pub(super) fn new(access: &AccessOptions) -> anyhow::Result<Self> {
        let key = match &access.session_key {
            Some(key) => Key::from(&password::derive::<64>(key.reveal(), FOR_COOKIES)?),
            None => Key::generate(),
        };
        let mut people = BTreeMap::new();
        for (name, person) in &access.people {
            let Some(hash) = &person.password_hash else { continue };
            let mark = URL_SAFE_NO_PAD.encode(password::derive::<16>(hash.reveal(), FOR_MARKS)?);
            people.insert(name.clone(), Known { role: person.role, mark });
        }
        Ok(Self { key, lasts: access.session_lasts, people, ended: Mutex::default() })
    }

    /// Who has signed in, if their session still holds.
    pub(super) fn person(&self, headers: &HeaderMap, now: SystemTime) -> Option<Person> {
        self.holder(&self.ticket(headers)?, seconds(now))
    }

    fn ticket(&self, headers: &HeaderMap) -> Option<Ticket> {
        Ticket::read(self.jar(headers).get(COOKIE)?.value())
    }

    fn holder(&self, ticket: &Ticket, now: u64) -> Option<Person> {
        let known = self.people.get(&ticket.name)?;
        // One that outlasts what is configured was made under another configuration.
        let in_time = now < ticket.until && ticket.until <= now.saturating_add(self.lasts.as_secs());
        let same = is_same(ticket.mark.as_bytes(), known.mark.as_bytes());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).0.contains_key(&ticket.id);
        (in_time && same && !ended).then(|| Person { name: ticket.name.clone(), role: known.role })
    }

    /// The cookies with a new session in them, if that is somebody with a password.
    pub(super) fn begin(
        &self,
        name: &str,
        headers: &HeaderMap,
        tls: bool,
        now: SystemTime,
    ) -> Option<SignedCookieJar> {
        let mark = self.people.get(name)?.mark.clone();
        let until = seconds(now).saturating_add(self.lasts.as_secs());
        let id = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
        let ticket = Ticket { name: name.to_owned(), until, mark, id };
        // Parsed, since its parts are of a crate that we do not have.
        let age = self.lasts.as_secs();
        let mut cookie = Cookie::parse(format!("{COOKIE}={}; Max-Age={age}; Path=/", ticket.write())).ok()?;
        cookie.set_http_only(true);
        // Not strict: who follows a link in a mail is signed in. What a page of another site asks for is refused.
        cookie.set_same_site(SameSite::Lax);
        cookie.set_secure(tls);
        Some(self.jar(headers).add(cookie))
    }

    /// Ends the session, so that no copy of the cookie opens anything. The cookies without it.
    pub(super) fn end(&self, headers: &HeaderMap, now: SystemTime) -> SignedCookieJar {
        if let Some(Ticket { id, until, .. }) = self.ticket(headers) {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id, until, seconds(now));
        }
        self.jar(headers).remove(Cookie::build(COOKIE).path("/"))
    }

    fn jar(&self, headers: &HeaderMap) -> SignedCookieJar {
        SignedCookieJar::from_headers(headers, self.key.clone())
    }
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use axum::response::IntoResponse as _;

    use super::*;
    use crate::options::PersonOptions;
    use crate::secret::Secret;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn sessions(key: &str, hash: &str, role: Role) -> Sessions {
        let person = PersonOptions { role, password_hash: Some(Secret::new(hash)), token: None };
        let access = AccessOptions {
            session_key: Some(Secret::new(key)),
            session_lasts: Duration::from_secs(60),
            people: [("anna".to_owned(), person)].into(),
            ..AccessOptions::default()
        };
        Sessions::new(&access).expect("a key can be derived")
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
    }

    /// The cookie as it is set, at second 0.
    fn set(sessions: &Sessions, tls: bool) -> String {
        let jar = sessions.begin("anna", &HeaderMap::new(), tls, at(0)).expect("she has a password");
        let response = jar.into_response();
        response.headers()[header::SET_COOKIE].to_str().expect("it is text").to_owned()
    }

    /// The same as a browser sends it back.
    fn sent(set: &str) -> HeaderMap {
        let pair = set.split(';').next().expect("it has a first part");
        [(header::COOKIE, pair.parse().expect("a value"))].into_iter().collect()
    }

    #[test]
    fn a_session_holds_until_its_time_and_the_role_is_looked_up() {
        let (before, after) = (sessions(KEY, "one", Role::Operator), sessions(KEY, "one", Role::Viewer));
        let cookie = sent(&set(&before, false));
        let role =
            |sessions: &Sessions, second| sessions.person(&cookie, at(second)).map(|person| person.role);
        assert_eq!(role(&before, 0), Some(Role::Operator));
        assert_eq!(role(&before, 59), Some(Role::Operator));
        assert_eq!(role(&before, 60), None, "its time is over");
        assert_eq!(role(&after, 1), Some(Role::Viewer), "after a restart, with another role");
    }

    #[test]
    fn another_key_another_password_or_a_touched_cookie_end_a_session() {
        let sessions_now = sessions(KEY, "one", Role::Viewer);
        let set = set(&sessions_now, false);
        assert!(sessions_now.person(&sent(&set), at(1)).is_some());
        let other_key = sessions(&KEY.replace('0', "x"), "one", Role::Viewer);
        let other_password = sessions(KEY, "two", Role::Viewer);
        assert_eq!(other_key.person(&sent(&set), at(1)), None);
        assert_eq!(other_password.person(&sent(&set), at(1)), None);
        for (from, to) in
            [("anna.", "anne."), (".1000060.", ".9000060."), ("outboxd-session=", "outboxd-session=A")]
        {
            assert!(set.contains(from), "{set}");
            assert_eq!(sessions_now.person(&sent(&set.replace(from, to)), at(1)), None, "{to}");
        }
        let plain = format!("outboxd-session=anna.1000060.{}.id", sessions_now.people["anna"].mark);
        assert_eq!(sessions_now.person(&sent(&plain), at(1)), None, "without a signature");
        let mark = sessions_now.people["anna"].mark.clone();
        let longer = Ticket { name: "anna".to_owned(), until: 1_000_062, mark, id: "id".to_owned() };
        assert_eq!(sessions_now.holder(&longer, 1_000_001), None, "it would outlast what is configured");
    }

    #[test]
    fn who_signs_out_ends_this_session_and_no_other() {
        let sessions = sessions(KEY, "one", Role::Viewer);
        let (one, other) = (sent(&set(&sessions, false)), sent(&set(&sessions, false)));
        let _ = sessions.end(&one, at(1));
        assert_eq!(sessions.person(&one, at(2)), None, "also a copy of the cookie");
        assert!(sessions.person(&other, at(2)).is_some());
    }

    #[test]
    fn many_ended_sessions_take_no_more_memory() {
        let mut ended = Ended::default();
        for n in 0..KEPT as u64 * 2 {
            ended.insert(n.to_string(), 100 + n, 0);
        }
        assert_eq!(ended.0.len(), KEPT);
        assert!(
            ended.0.contains_key("19999") && !ended.0.contains_key("0"),
            "the first to be over made room"
        );
        ended.insert("new".to_owned(), 1_000_000, 500_000);
        assert_eq!(ended.0.len(), 1, "what is over is forgotten");
    }

    #[test]
    fn a_cookie_is_for_this_server_alone_and_no_script_reads_it() {
        let plain = set(&sessions(KEY, "one", Role::Viewer), false);
        for part in ["; HttpOnly", "; SameSite=Lax", "; Path=/", "; Max-Age=60"] {
            assert!(plain.contains(part), "{part} in {plain}");
        }
        assert!(!plain.contains("Secure") && !plain.contains("Domain"), "{plain}");
        assert!(set(&sessions(KEY, "one", Role::Viewer), true).contains("; Secure"));
        let headers = HeaderMap::new();
        assert!(sessions(KEY, "one", Role::Viewer).begin("ben", &headers, false, at(0)).is_none());
    }
}
