//! E-mail as a sink, against a real mail server. What arrived is always read back from it.

mod answers;
mod conformance;
mod letters;
mod login;

use std::time::Duration;

use outbox::smtp::{MailConfig, Mailer};
use outbox::{Message, Outcome, Template};
use testbed::{Mail, Smtp};

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

/// Letters to whom the payload names.
fn config() -> MailConfig {
    let mut config = MailConfig::new(
        template("Shop <shop@x.example>"),
        template("{payload.email}"),
        template("Order {payload.order}"),
    );
    config.text = Some(template("Dear {payload.name|customer}"));
    config.timeout = Duration::from_secs(10);
    config
}

fn mailer(smtp: &Smtp, config: MailConfig) -> Mailer {
    Mailer::new(&format!("smtp://127.0.0.1:{}", smtp.open_port()), config).unwrap()
}

/// An address that no other test has.
fn somebody() -> String {
    format!("ana@{}.example", outbox::MessageId::new())
}

fn order(n: usize, email: &str) -> Message {
    Message::json("order.created", &serde_json::json!({"order": n, "email": email})).unwrap()
}

/// The only letter for a recipient.
fn only(smtp: &Smtp, recipient: &str) -> Mail {
    let mails = smtp.mails(recipient).unwrap();
    let [mail] = mails.as_slice() else { panic!("{mails:?}") };
    mail.clone()
}

/// The value of a header that stands on one line.
fn header(mail: &Mail, name: &str) -> Option<String> {
    let (head, _) = mail.content.split_once("\r\n\r\n").unwrap();
    let mut values = head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let value = values.next().map(str::to_owned);
    assert_eq!(values.next(), None, "{name} is there twice");
    value
}

/// The content without the transfer encoding (quoted-printable), as a reader sees it.
fn readable(mail: &Mail) -> String {
    let (mut bytes, mut rest) = (Vec::new(), mail.content.as_bytes());
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        rest = match (first, hex) {
            (b'=', _) if tail.starts_with(b"\r\n") => &tail[2..],
            (b'=', Some(byte)) => {
                bytes.push(byte);
                &tail[2..]
            }
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    String::from_utf8(bytes).unwrap()
}

/// The outcome in a word: `delivered`, or the code of its cause with `!` when permanent and `~` when unavailable.
fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered => "delivered".to_owned(),
        Outcome::Rejected(rejection) if rejection.permanent => format!("{}!", rejection.cause.code),
        Outcome::Rejected(rejection) => rejection.cause.code.to_string(),
        Outcome::Unavailable(cause) => format!("~{}", cause.code),
    }
}

fn words(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(word).collect()
}
