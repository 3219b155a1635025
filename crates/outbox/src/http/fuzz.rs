//! Doors to private parts for the fuzz targets; only there with `--cfg fuzzing`.

use reqwest::header::HeaderMap;

use super::config::EndpointConfig;
use super::{Secret, envelope, sign};
use crate::message::Message;
use crate::sink::Outcome;

/// The headers of the request for a message.
pub fn headers(message: &Message, secrets: Vec<Secret>, now: i64) -> Result<HeaderMap, Outcome> {
    let mut config = EndpointConfig::new("https://shop.example");
    config.secrets = secrets;
    envelope::headers(message, &config, now)
}

/// The signature of a body.
pub fn signature(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    sign::signature(secrets, id, timestamp, body)
}
