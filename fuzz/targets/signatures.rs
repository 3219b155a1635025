//! Secrets and signatures of webhooks: a secret is refused without being shown, and a signature is of this body alone.

use std::sync::LazyLock;

use outbox::Message;
use outbox::http::Secret;
use outbox::http::fuzz::{headers, signature};

use crate::input::Input;

pub fn target(data: &[u8]) {
    let mut input = Input::new(data);
    let (first, second, id) = (input.text(), input.text(), input.text());
    let body = input.rest();
    let secrets: Vec<Secret> = [&first, &second].into_iter().filter_map(|text| read(text)).collect();
    let signed = signature(&secrets, &id, 5, body);
    assert_eq!(signed.split(' ').filter(|one| !one.is_empty()).count(), secrets.len());
    for one in signed.split(' ').filter(|one| !one.is_empty()) {
        assert!(one.starts_with("v1,") && one.len() == 47, "{one}");
    }
    if secrets.is_empty() {
        return;
    }
    assert_eq!(signed, signature(&secrets, &id, 5, body));
    assert_ne!(signed, signature(&secrets, &id, 6, body));
    assert_ne!(signed, signature(&secrets, &format!("{id}x"), 5, body));
    assert_ne!(signed, signature(&secrets, &id, 5, &[body, b"x"].concat()));
    let message = Message::new("a", body.to_vec()).id(id.as_str());
    let Ok(headers) = headers(&message, secrets.clone(), 5) else { return };
    // What is signed is what stands in the header, however the id had to be written there.
    let sent = headers["webhook-id"].to_str().expect("printable");
    assert_eq!(headers["webhook-signature"], signature(&secrets, sent, 5, body).as_str());
}

fn read(text: &str) -> Option<Secret> {
    match Secret::parse(text) {
        Ok(secret) => {
            assert_eq!(format!("{secret:?}"), "Secret(…)");
            Some(secret)
        }
        Err(error) => {
            let told = without_digits(&error.chain());
            assert!(REFUSED.iter().any(|other| told == *other), "it tells more than what is wrong: {told}");
            None
        }
    }
}

/// What is told of secrets that hold nothing, one for each mistake that can be made.
static REFUSED: LazyLock<[String; 3]> = LazyLock::new(|| {
    ["", "whsec_!", "whsec_"].map(|text| without_digits(&Secret::parse(text).expect_err("no secret").chain()))
});

/// How many bytes there are may be told.
fn without_digits(text: &str) -> String {
    text.chars().filter(|one| !one.is_ascii_digit()).collect()
}
