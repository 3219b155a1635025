//! What a person decides about e-mail; plain values, checked by [`MailConfig::check`].

use std::path::PathBuf;
use std::time::Duration;

use super::letter::mailbox;
use crate::error::{Error, ErrorKind, Result};
use crate::template::Template;

/// How a letter is made of a message, and how letters reach their server.
///
/// An address is written `ana@shop.example` or `Ana <ana@shop.example>`. Each template of an address gives one address,
/// or none if it gives an empty text: a value of a message cannot bring further recipients along.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MailConfig {
    /// The sender.
    pub from: Template,
    /// The recipients; at least one.
    pub to: Vec<Template>,
    /// Those who get a copy.
    pub cc: Vec<Template>,
    /// Where answers go, if not to the sender.
    pub reply_to: Option<Template>,
    /// The subject; line breaks in it become spaces.
    pub subject: Template,
    /// The letter as plain text.
    pub text: Option<Template>,
    /// The letter as HTML; what stands for a field is escaped. With both, the reader's program chooses.
    pub html: Option<Template>,
    /// How long a letter may take, from the connection to the answer (30 s).
    pub timeout: Duration,
    /// So many connections are open at a time (4).
    pub connections: usize,
    /// Whether `smtp:` may be used without TLS. A host that is literally `localhost`, `127.x.x.x` or `[::1]` needs no
    /// permission, and gets TLS only if there is a `ca_file`.
    pub plaintext: bool,
    /// A file of certificates in PEM that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl MailConfig {
    /// Letters from one to another; there must be a text or an HTML yet.
    pub fn new(from: Template, to: Template, subject: Template) -> Self {
        Self {
            from,
            to: vec![to],
            cc: Vec::new(),
            reply_to: None,
            subject,
            text: None,
            html: None,
            timeout: Duration::from_secs(30),
            connections: 4,
            plaintext: false,
            ca_file: None,
        }
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(ErrorKind::Config, what));
        if self.text.is_none() && self.html.is_none() {
            return wrong("a letter needs a `text` or an `html`");
        }
        if self.to.is_empty() {
            return wrong("a letter needs a recipient in `to`");
        }
        let from = [("from", &self.from)].into_iter();
        let to = self.to.iter().map(|template| ("to", template));
        let cc = self.cc.iter().map(|template| ("cc", template));
        let reply_to = self.reply_to.iter().map(|template| ("reply_to", template));
        for (name, template) in from.chain(to).chain(cc).chain(reply_to) {
            if let Some(Err(why)) = template.as_text().map(mailbox) {
                return wrong(&format!("{name}: '{template}' is no e-mail address: {why}"));
            }
        }
        if self.timeout < Duration::from_millis(100) || self.timeout > Duration::from_secs(600) {
            return wrong("the time limit must be from 100 ms to 10 minutes");
        }
        if self.connections == 0 || self.connections > 100 {
            return wrong("the number of connections must be from 1 to 100");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    #[test]
    fn what_cannot_work_is_told_at_once() {
        let told = |change: &dyn Fn(&mut MailConfig)| {
            let to = template("{payload.email}");
            let mut config = MailConfig::new(template("Shop <shop@x.example>"), to, template("Hello"));
            config.text = Some(template("Hi"));
            assert!(config.check().is_ok());
            change(&mut config);
            let error = config.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert!(told(&|config| config.text = None).contains("`text` or an `html`"));
        assert!(told(&|config| config.to.clear()).contains("recipient"));
        assert!(told(&|config| config.from = template("shop")).contains("from: 'shop' is no e-mail address"));
        assert!(told(&|config| config.cc = vec![template("a@b, c@d")]).contains("cc: 'a@b, c@d'"));
        assert!(told(&|config| config.reply_to = Some(template(""))).contains("reply_to"));
        assert!(told(&|config| config.timeout = Duration::ZERO).contains("time limit"));
        assert!(told(&|config| config.connections = 0).contains("connections"));
    }
}
