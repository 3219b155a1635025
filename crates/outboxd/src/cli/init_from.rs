//! `init --from URL`: looks at a database and proposes the mapping of the table that looks like an outbox.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use outbox::postgres;
use outbox::table::{Draft, Suggestion, suggest};
use url::Url;

use super::output::printable;
use crate::connection::{Connection, Kind};
use crate::quantity::show_duration;
use crate::secret::{SecretUrl, mask};
use crate::trouble::{Exit, Trouble, is_out_of_reach};

/// What was found, and the configuration for it.
pub struct Proposal {
    /// The mapping.
    pub suggestion: Suggestion,
    /// The configuration.
    pub text: String,
    /// Whether a password was left out.
    pub without_password: bool,
}

/// Looks at a database, and writes a configuration for what it found there.
pub async fn propose(url: &SecretUrl) -> anyhow::Result<Proposal> {
    let shown = mask(url.reveal());
    let connection = Connection::parse("db", url.reveal(), None, false, Path::new("."))
        .map_err(|(what, help)| Trouble::usage(format!("--from {shown}: {what}"), help))?;
    if connection.kind != Kind::Postgres {
        let what = format!("--from {shown}: only a PostgreSQL database can be looked at so far");
        let help =
            "write the mapping by hand, with layout = \"table\"; for a log of your own use `outboxd init`";
        return Err(Trouble::new(Exit::Failed, what, help).into());
    }
    let tables = postgres::Table::discover(connection.url.reveal()).await.map_err(|error| {
        let exit = if is_out_of_reach(error.kind()) { Exit::Source } else { Exit::Failed };
        let help = error.advice().replace("work resumes by itself", "then try again");
        Trouble::new(
            exit,
            format!("cannot look at the database ({}): {}", connection.url, error.chain()),
            help,
        )
    })?;
    let Some(suggestion) = suggest(&tables) else {
        let what = format!("none of the {} tables at {} looks like an outbox", tables.len(), connection.url);
        let help = "map one by hand, with layout = \"table\"; or make a log with `outboxd init` and `outboxd migrate`";
        return Err(Trouble::new(Exit::Failed, what, help).into());
    };
    let (address, without_password) = address(url.reveal());
    let text = configuration(&suggestion, &address, without_password);
    Ok(Proposal { suggestion, text, without_password })
}

/// The URL as it may be written down, and whether a password was taken out of it.
fn address(url: &str) -> (String, bool) {
    let Ok(mut url) = Url::parse(url) else { return (mask(url), true) };
    let mut had_password = url.password().is_some();
    let _ = url.set_password(None);
    let is_secret = |name: &str| ["pass", "secret", "token"].iter().any(|word| name.contains(word));
    let (secret, plain): (Vec<_>, Vec<_>) =
        url.query_pairs().into_owned().partition(|(name, _)| is_secret(&name.to_lowercase()));
    if !secret.is_empty() {
        had_password = true;
        url.set_query(None);
        if !plain.is_empty() {
            url.query_pairs_mut().extend_pairs(plain);
        }
    }
    let user = url.username().to_owned();
    let mut address = String::from(url);
    // An empty default, so that the file can be checked where the variable is not set.
    if had_password && !user.is_empty() {
        address = address.replacen(&format!("{user}@"), &format!("{user}:${{DATABASE_PASSWORD:-}}@"), 1);
    }
    (address, had_password)
}

fn configuration(suggestion: &Suggestion, address: &str, without_password: bool) -> String {
    let mut text = format!(
        "# Written by `outboxd init --from`: the table '{}' of a database, mapped as it looks there.\n\
         # Next: outboxd validate, then outboxd doctor, which holds it against the database, then outboxd run.\n",
        suggestion.table
    );
    if !suggestion.unsure.is_empty() {
        text.push_str("#\n# Look at these, which the database does not tell for certain:\n");
        for words in &suggestion.unsure {
            let _ = writeln!(text, "# - {}", printable(words));
        }
    }
    text.push_str("\n[connections]\n");
    if without_password {
        let plain = address.replace(":${DATABASE_PASSWORD:-}", "");
        let _ = writeln!(
            text,
            "# The password is not written here. Set DATABASE_PASSWORD (encoded as in a URL: @ is %40), or keep it in a\n\
             # file: db = {{ url = {}, password_file = \"/run/secrets/db\" }}",
            quoted(&plain)
        );
    }
    let _ = writeln!(text, "db = {}", quoted(address));
    text.push_str("\n[sources.outbox]\non = \"db\"\n");
    if let Some(preset) = suggestion.preset {
        let _ = writeln!(
            text,
            "# The layout is a known one; `outboxd config show` prints its mapping, and any key of it can be set here."
        );
        let _ = writeln!(text, "preset = {}", quoted(preset));
    } else {
        text.push_str("layout = \"table\"\n");
    }
    text.push_str(&mapping(&suggestion.draft));
    text.push_str(REST);
    text
}

/// Where messages go: to the screen, until somebody decides.
const REST: &str = r#"
[sinks.screen]
stdout = true

# To RabbitMQ instead: add rabbit = "amqp://guest:guest@localhost:5672/%2f" to [connections], let the pipe lead to
# "events", and:
#
# [sinks.events]
# on = "rabbit"
# exchange = "shop.events"
# routing_key = "{type}"
#
# To Kafka: kafka = "kafka://localhost:9092" in [connections], and a sink with on = "kafka" and topic = "shop.events".

[pipes.relay]
from = "outbox"
to = "screen"
"#;

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The keys that are set, in the order of the documents.
fn mapping(draft: &Draft) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    let one = |value: &Option<String>| value.as_deref().map(quoted);
    let list = |values: &[String]| {
        let values: Vec<_> = values.iter().map(|value| quoted(value)).collect();
        (!values.is_empty()).then(|| format!("[{}]", values.join(", ")))
    };
    let keys = [
        ("schema", one(&draft.schema)),
        ("table", one(&draft.table)),
        ("tables", list(&draft.tables)),
        ("id", one(&draft.id)),
        ("type", one(&draft.kind)),
        ("key", one(&draft.key)),
        ("payload", one(&draft.payload)),
        ("content_type", one(&draft.content_type)),
        ("headers", one(&draft.headers)),
        ("header_columns", inline(&draft.header_columns)),
        ("occurred_at", one(&draft.occurred_at)),
        ("order_by", list(&draft.order_by)),
        ("pending", one(&draft.pending)),
        ("done", one(&draft.done)),
        ("failed", one(&draft.failed)),
        ("dead", one(&draft.dead)),
        ("attempts", one(&draft.attempts)),
        ("error", one(&draft.error)),
        ("due", one(&draft.due)),
        ("stamp", one(&draft.stamp)),
        ("stamp_timeout", draft.stamp_timeout.map(|timeout| quoted(&show_duration(timeout)))),
        ("lock", draft.lock.map(|lock| lock.to_string())),
    ];
    for (key, value) in keys {
        if let Some(value) = value {
            line(key, value);
        }
    }
    text
}

fn inline(columns: &BTreeMap<String, String>) -> Option<String> {
    let pairs: Vec<_> =
        columns.iter().map(|(header, column)| format!("{} = {}", quoted(header), quoted(column))).collect();
    (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_written_down() {
        let (written, without) = address("postgres://app:canary@localhost:5433/shop?sslmode=disable");
        assert!(without);
        assert_eq!(written, "postgres://app:${DATABASE_PASSWORD:-}@localhost:5433/shop?sslmode=disable");
        let (written, without) = address("postgres://app@localhost/shop?password=canary&sslmode=require");
        assert!(without && !written.contains("canary"));
        assert_eq!(written, "postgres://app:${DATABASE_PASSWORD:-}@localhost/shop?sslmode=require");
        assert_eq!(
            address("postgres://app@localhost/shop"),
            ("postgres://app@localhost/shop".to_owned(), false)
        );
    }
}
