//! Values that must never be shown: passwords, and the URLs that carry them.
//!
//! `Debug` and `Display` of both types mask, so that a secret reaches an output only through `reveal`,
//! which the backends alone call.

use std::fmt;

use url::Url;

/// What stands for a secret.
pub const MASK: &str = "***";

/// A password or another value that nobody may see.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `value` from being shown.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, to be handed to whoever needs it and to nobody else.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Where a URL leads, without what may be secret in it: hooks have keys in their paths, and users that are keys. A bare
    /// scheme, host and port stay as they are.
    pub fn place(&self) -> String {
        let Ok(url) = Url::parse(self.0.trim()) else { return MASK.to_owned() };
        let origin = url.origin().ascii_serialization();
        if url.as_str().trim_end_matches('/') == origin { url.into() } else { format!("{origin}/{MASK}") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

/// A URL whose password is masked wherever it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Keeps the secrets in `url` from being shown.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL with its secrets, to connect with.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(&self.0))
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask(&self.0))
    }
}

/// The text with the password of its userinfo, and secret-looking query values, masked.
///
/// It must hold for text that is no URL at all too, since what a person typed wrong may contain a password:
/// then everything up to the last `@` goes.
pub fn mask(text: &str) -> String {
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    // A `?` in a password that was not encoded must not push the userinfo into the query.
    if query.contains('@') {
        return mask_userinfo(text);
    }
    let mut masked = mask_userinfo(before);
    for (index, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        masked.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if is_secret_name(name) => {
                masked.push_str(name);
                masked.push('=');
                masked.push_str(MASK);
            }
            _ => masked.push_str(pair),
        }
    }
    masked
}

fn mask_userinfo(text: &str) -> String {
    let Some((userinfo, rest)) = text.rsplit_once('@') else {
        return text.to_owned();
    };
    let (scheme, userinfo) = match userinfo.split_once("://") {
        Some((scheme, userinfo)) => (format!("{scheme}://"), userinfo),
        None => (String::new(), userinfo),
    };
    let well_formed =
        !scheme.is_empty() && Url::parse(text).is_ok() && !userinfo.contains(['/', '?', '#', '@']);
    match userinfo.split_once(':') {
        Some((user, _)) if well_formed => format!("{scheme}{user}:{MASK}@{rest}"),
        None if well_formed => format!("{scheme}{userinfo}@{rest}"),
        _ => format!("{scheme}{MASK}@{rest}"),
    }
}

/// Whether what bears this name is a secret, by the looks of it: a parameter of a URL, a header.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "secret", "token", "key", "auth", "cookie", "credential", "signature"]
        .iter()
        .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_url_shows_its_password() {
        for text in [
            "postgres://app:canary@db.example/shop",
            "postgres://app:can@canary@db.example/shop",
            "postgres://app:canary?x@db.example/shop",
            "postgres://db.example/shop?password=canary&sslmode=require",
            "postgres//app:canary@db.example/shop",
            "app:canary@db.example",
            "amqps://:canary@broker",
            "amqp://a/b:canary@broker",
        ] {
            let url = SecretUrl::new(text);
            for shown in [format!("{url}"), format!("{url:?}"), mask(text)] {
                assert!(!shown.contains("canary"), "{text} -> {shown}");
                assert!(shown.contains(MASK), "{text} -> {shown}");
            }
            assert_eq!(url.reveal(), text);
        }
        let secret = Secret::new("canary");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
    }

    #[test]
    fn of_a_hook_only_its_place_is_shown() {
        for text in [
            "https://hooks.example/services/canary",
            "https://hooks.example/?canary",
            "https://hooks.example/#canary",
            "https://canary@hooks.example",
            "https://u:canary@hooks.example/",
        ] {
            assert_eq!(Secret::new(text).place(), "https://hooks.example/***", "{text}");
        }
        assert_eq!(Secret::new("https://hooks.example:8443").place(), "https://hooks.example:8443/");
        assert_eq!(Secret::new("canary").place(), MASK);
    }

    #[test]
    fn what_is_not_secret_stays_readable() {
        for text in ["sqlite:shop.db", "postgres://app@db/shop?sslmode=verify-full", "amqp://broker/%2f", "?"]
        {
            assert_eq!(mask(text).trim_end_matches('?'), text.trim_end_matches('?'));
        }
        assert_eq!(mask("postgres://app:x@db/shop"), "postgres://app:***@db/shop");
    }
}
