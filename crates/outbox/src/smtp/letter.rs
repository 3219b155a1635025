//! A letter made of a message: who gets it, and what stands in it. Pure.

use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message as Mail};
use sha2::{Digest as _, Sha256};

use super::config::MailConfig;
use crate::message::{Message, MessageId};
use crate::sink::{Cause, Outcome, code};
use crate::template::Template;
use crate::view::View;

/// The longest id that becomes part of a `Message-ID` as it is.
const LONGEST: usize = 64;

/// A letter, ready to be sent.
pub(super) struct Letter {
    pub(super) envelope: Envelope,
    pub(super) content: Vec<u8>,
}

impl Letter {
    /// The letter of a message, or why the message cannot have one.
    pub(super) fn new(message: &Message, config: &MailConfig) -> Result<Self, Outcome> {
        let view = View::new(message);
        let from =
            address("from", &config.from, &view)?.ok_or_else(|| unfit("'from' is empty".to_owned()))?;
        let to = addresses("to", &config.to, &view)?;
        if to.is_empty() {
            return Err(unfit("every address in 'to' is empty".to_owned()));
        }
        let mut mail = Mail::builder()
            .message_id(Some(message_id(&message.id, from.email.domain())))
            .subject(line(&rendered("subject", config.subject.render_view(&view))?))
            .raw_header(raw(HeaderName::new_from_ascii_str("X-Event-Id"), message.id.as_str()))
            .raw_header(raw(HeaderName::new_from_ascii_str("X-Correlation-Id"), message.correlation_id()))
            // Whoever is away need not tell us.
            .raw_header(raw(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated"))
            .from(from);
        for mailbox in to {
            mail = mail.to(mailbox);
        }
        for mailbox in addresses("cc", &config.cc, &view)? {
            mail = mail.cc(mailbox);
        }
        for mailbox in addresses("reply_to", config.reply_to.as_slice(), &view)? {
            mail = mail.reply_to(mailbox);
        }
        let text = config.text.as_ref().map(|text| rendered("text", text.render_view(&view))).transpose()?;
        let html = config.html.as_ref().map(|html| rendered("html", html.render_html(&view))).transpose()?;
        let mail = match (text.map(Into::into), html) {
            (Some(text), Some(html)) => {
                mail.multipart(MultiPart::alternative_plain_html::<String, _>(text, html))
            }
            (None, Some(html)) => mail.singlepart(SinglePart::html(html)),
            (text, None) => mail.singlepart(SinglePart::plain::<String>(text.unwrap_or_default())),
        };
        let mail = mail.map_err(|error| unfit(format!("no letter can be made of it: {error}")))?;
        Ok(Self { envelope: mail.envelope().clone(), content: mail.formatted() })
    }

    /// Whether an address needs more than ASCII, which not every server takes.
    pub(super) fn is_international(&self) -> bool {
        let addresses = self.envelope.to().iter().chain(self.envelope.from());
        addresses.into_iter().any(|address| !AsRef::<str>::as_ref(address).is_ascii())
    }
}

fn addresses(name: &str, templates: &[Template], view: &View<'_>) -> Result<Vec<Mailbox>, Outcome> {
    templates.iter().filter_map(|template| address(name, template, view).transpose()).collect()
}

/// The address that a template gives, if it gives any. What it gives is not told: it is somebody's address.
fn address(name: &str, template: &Template, view: &View<'_>) -> Result<Option<Mailbox>, Outcome> {
    let text = rendered(name, template.render_view(view))?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mailbox =
        mailbox(&text).map_err(|why| unfit(format!("'{name}' ({template}) is no e-mail address: {why}")))?;
    Ok(Some(mailbox))
}

/// Reads `ana@shop.example` or `Ana <ana@shop.example>`. Only what stands in the last brackets is an address, so that
/// no name can bring another one along.
pub(super) fn mailbox(text: &str) -> Result<Mailbox, &'static str> {
    let text = text.trim();
    let (name, address) = match text.strip_suffix('>') {
        Some(text) => text.rsplit_once('<').ok_or("it has a '>' and no '<'")?,
        None => ("", text),
    };
    if text.chars().any(char::is_control) {
        return Err("it has a line break or another control character");
    }
    if address.contains(|c: char| c.is_whitespace() || "<>,;\"".contains(c)) {
        return Err("it is more than one address, or has characters that an address cannot have");
    }
    let address: Address = address.parse().map_err(|_| "it should be as in ana@shop.example")?;
    let name = name.trim().trim_matches('"').trim();
    Ok(Mailbox::new((!name.is_empty()).then(|| name.to_owned()), address))
}

/// The same for every repeat of a message, so that a mail program knows it.
fn message_id(id: &MessageId, domain: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let id = match id.as_str() {
        id if !id.is_empty() && id.len() <= LONGEST && id.chars().all(is_plain) => id.to_owned(),
        id => Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let domain = if domain.is_ascii() { domain } else { "outboxd.invalid" };
    format!("<{id}@{domain}>")
}

fn raw(name: HeaderName, value: &str) -> HeaderValue {
    HeaderValue::new(name, line(value))
}

/// The text on one line: a header ends where its line does.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

fn rendered<T>(name: &str, text: crate::Result<T>) -> Result<T, Outcome> {
    text.map_err(|error| unfit(format!("'{name}': {}", error.chain())))
}

fn unfit(why: String) -> Outcome {
    Outcome::defect(Cause::new(code::UNFIT, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    fn config() -> MailConfig {
        let mut config = MailConfig::new(
            template("Shop <shop@x.example>"),
            template("{payload.email}"),
            template("Hi {payload.name}"),
        );
        config.text = Some(template("Dear {payload.name}"));
        config
    }

    fn letter(payload: &str, config: &MailConfig) -> Result<(Vec<String>, String), String> {
        let message = Message::new("a", payload.to_owned()).id("7");
        let letter = Letter::new(&message, config).map_err(|outcome| match outcome {
            Outcome::Rejected(rejection) if rejection.permanent && rejection.cause.code == code::UNFIT => {
                rejection.cause.detail
            }
            other => panic!("{other:?}"),
        })?;
        let to = letter.envelope.to().iter().map(ToString::to_string).collect();
        Ok((to, String::from_utf8(letter.content).unwrap()))
    }

    #[test]
    fn d9_no_value_brings_headers_or_recipients_along() {
        let evil = r#"{"email": "Ana <a@b.example>", "name": "x\r\nBcc: evil@x.example\r\n\r\nbody"}"#;
        let (to, content) = letter(evil, &config()).unwrap();
        assert_eq!(to, ["a@b.example"]);
        let (head, _) = content.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{content}");
        assert!(head.contains("Message-ID: <7@x.example>") && head.contains("X-Event-Id: 7"), "{head}");
        for email in [
            "a@b.example, evil@x.example",
            "a@b.example\\r\\nRCPT TO:<evil@x.example>",
            "a@b.example evil@x.example",
            "a@b.example;evil@x.example",
            "<a@b.example> <evil@x.example",
            "a@b.example>",
            "nobody",
            "@",
            "a@",
            "a b@c.example",
        ] {
            let told = letter(&format!(r#"{{"email": "{email}", "name": "n"}}"#), &config()).unwrap_err();
            assert!(told.contains("'to' ({payload.email}) is no e-mail address"), "{email}: {told}");
            assert!(!told.contains("b.example") && !told.contains("nobody"), "{told}");
        }
        let named = r#"{"email": "\"Doe, <evil@x.example>\" <a@b.example>", "name": ""}"#;
        let (to, content) = letter(named, &config()).unwrap();
        assert_eq!(to, ["a@b.example"], "{content}");
    }

    #[test]
    fn d9_what_a_letter_lacks_is_told_by_name() {
        for (payload, told) in [
            (r#"{"name": "n"}"#, "'to': the message has no 'email' in its payload"),
            (r#"{"email": "a@b.example"}"#, "'subject': the message has no 'name' in its payload"),
            ("s3cret", "the payload is no JSON"),
            ("", "the payload is empty"),
            (r#"{"name": "n", "email": " "}"#, "every address in 'to' is empty"),
        ] {
            let why = letter(payload, &config()).unwrap_err();
            assert!(why.contains(told) && !why.contains("s3cret"), "{why}");
        }
        let mut config = config();
        config.cc = vec![template("{payload.cc|}"), template("boss@x.example")];
        let (to, _) = letter(r#"{"name": "n", "email": "a@b.example"}"#, &config).unwrap();
        assert_eq!(to, ["a@b.example", "boss@x.example"], "an empty copy is none");
    }

    #[test]
    fn the_message_id_is_the_same_for_every_repeat_and_always_legal() {
        assert_eq!(message_id(&"0190-a".into(), "x.example"), "<0190-a@x.example>");
        let odd = message_id(&"a b\r\n".into(), "x.example");
        assert_eq!(odd, message_id(&"a b\r\n".into(), "x.example"));
        assert!(odd.len() == 64 + 12 && odd != message_id(&"a b".into(), "x.example"), "{odd}");
        assert!(message_id(&"1".into(), "ü.example").ends_with("@outboxd.invalid>"));
    }
}
