//! CloudEvents: what can be read is written as an event that is read as the same.

use outbox::cloudevents::{binary, parse, structured};

pub fn target(data: &[u8]) {
    let Ok((message, source)) = parse(data) else { return };
    let written = structured(&message, &source).expect("what was read can be written");
    assert!(!written.contains('\n'), "one line: {written}");
    let again = parse(written.as_bytes()).expect("what was written can be read");
    assert_eq!(again, (message.clone(), source.clone()), "{written}");
    assert!(binary(&message, &source, "ce_").all(|(name, _)| name.starts_with("ce_")));
}
