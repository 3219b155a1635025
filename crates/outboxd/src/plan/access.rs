//! Who may ask the program's own server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Checker;
use crate::config::AccessConfig;
use crate::mistake::At;
use crate::options::AccessOptions;
use crate::secret::Secret;

/// Names that stand for somebody else in the audit.
const TAKEN: [(&str, &str); 1] = [("anonymous", "who has not signed in")];

impl Checker<'_> {
    pub(super) fn access(
        &self,
        config: AccessConfig,
        listen: &At<SocketAddr>,
        token: Option<&Secret>,
    ) -> AccessOptions {
        let mut options = config.options;
        if let Some(role) = options.anonymous.filter(|_| !listen.value.ip().is_loopback()) {
            let what = format!(
                "http.anonymous = \"{}\": anybody can reach {} without signing in",
                role.as_str(),
                listen.value
            );
            let help = "listen on 127.0.0.1, or remove it and add [http.people.NAME]";
            self.mistakes.note(config.anonymous_place, what, help);
        }
        // Somebody set up a proxy, for which everybody comes from this machine.
        if let (Some(role), Some(host)) = (options.anonymous, options.hosts.first()) {
            let what = format!(
                "http.anonymous = \"{}\": who comes through a proxy as {host} need not sign in either",
                role.as_str()
            );
            let help = "remove it and add [http.people.NAME], unless the proxy lets in only whom it should";
            self.mistakes.warn(config.anonymous_place, what, help);
        }
        // Whether something before us speaks TLS cannot be seen from here.
        if !config.people.is_empty() && !listen.value.ip().is_loopback() {
            let what = format!(
                "http.listen = \"{}\": passwords and tokens cross the network in plain text",
                listen.value
            );
            let help = "put a proxy that speaks TLS in front, or listen on 127.0.0.1";
            self.mistakes.warn(listen.place, what, help);
        }
        let mut tokens: BTreeMap<String, String> = BTreeMap::new();
        tokens.extend(token.map(|token| (token.reveal().to_owned(), "[http]".to_owned())));
        for person in config.people {
            self.name("http.people", &person.name);
            let name = person.name.value;
            if let Some((_, whom)) = TAKEN.iter().find(|(taken, _)| *taken == name) {
                let what = format!("\"{name}\" in [http.people] stands for {whom}");
                self.mistakes.note(person.name.place, what, "choose another name");
            }
            if let Some(token) = &person.options.token {
                let whose = format!("[http.people.{name}]");
                if let Some(other) = tokens.insert(token.reveal().to_owned(), whose) {
                    let what = format!("http.people.{name}: has the same token as {other}");
                    let help = "give each their own, so that it can be told who did what";
                    self.mistakes.note(person.token_place, what, help);
                }
            }
            options.people.insert(name, person.options);
        }
        options
    }
}
