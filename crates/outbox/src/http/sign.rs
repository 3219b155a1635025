//! Signatures by which an endpoint knows that a request is ours: Standard Webhooks, symmetric (`v1`).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, ErrorKind, Result};

/// What a secret begins with, so that it is known for one wherever it turns up.
const PREFIX: &str = "whsec_";

/// How many bytes a secret has.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that is shared with an endpoint: `whsec_` and 24 to 64 bytes in base64. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Reads a secret; the error does not repeat it.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong =
            |what: String| Error::new(ErrorKind::Config, format!("the secret of the signature {what}"));
        let text = text.trim();
        let encoded =
            text.strip_prefix(PREFIX).ok_or_else(|| wrong(format!("does not begin with '{PREFIX}'")))?;
        let bytes = BASE64.decode(encoded).map_err(|_| wrong(format!("is no base64 after '{PREFIX}'")))?;
        if !BYTES.contains(&bytes.len()) {
            let (least, most) = (BYTES.start(), BYTES.end());
            let what = format!("has {} bytes; it must have {least} to {most}", bytes.len());
            return Err(wrong(format!(
                "{what}: `openssl rand -base64 32` makes one, to write after '{PREFIX}'"
            )));
        }
        Ok(Self(bytes))
    }

    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        // HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for Secret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The value of `webhook-signature`: one signature per secret, so that an endpoint that knows one of them is satisfied
/// while a secret is replaced by another.
pub(super) fn signature(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the documents of Standard Webhooks.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn d9_the_signature_is_that_of_the_standard() {
        let secret = Secret::parse(SECRET).unwrap();
        assert_eq!(signature(std::slice::from_ref(&secret), ID, 1_614_265_330, BODY), SIGNATURE);
        assert_ne!(signature(std::slice::from_ref(&secret), ID, 1_614_265_331, BODY), SIGNATURE);
    }

    #[test]
    fn d9_while_a_secret_is_replaced_both_sign() {
        let new = format!("whsec_{}", BASE64.encode([7; 32]));
        let secrets = [Secret::parse(&new).unwrap(), Secret::parse(SECRET).unwrap()];
        let both = signature(&secrets, ID, 1_614_265_330, BODY);
        let (first, second) = both.split_once(' ').unwrap();
        assert!(first.starts_with("v1,") && first != second && second == SIGNATURE, "{both}");
    }

    #[test]
    fn a_secret_that_cannot_be_one_is_told_and_none_is_shown() {
        let told = |text: &str| {
            let told = Secret::parse(text).unwrap_err().to_string();
            assert!(!told.contains("canary"), "{told}");
            told
        };
        assert!(told("canary").contains("begin with 'whsec_'"));
        assert!(told("whsec_canary!").contains("no base64"));
        assert!(told("whsec_Y2FuYXJ5").contains("has 6 bytes; it must have 24 to 64"));
        assert_eq!(format!("{:?}", Secret::parse(SECRET).unwrap()), "Secret(…)");
    }
}
