//! Fuzz targets for whatever reads foreign bytes. There is one program for all, `FUZZ_TARGET` says which; `scripts/fuzz`
//! builds it with the coverage that libFuzzer follows, and runs it.
//!
//! A target does more than not to panic: what is refused is refused with words, what is taken is written as it was read.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod amqp;
#[cfg(fuzzing)]
mod cloudevents;
#[cfg(fuzzing)]
mod conditions;
#[cfg(fuzzing)]
mod headers;
#[cfg(fuzzing)]
mod input;
#[cfg(fuzzing)]
mod kafka;
#[cfg(fuzzing)]
mod names;
#[cfg(fuzzing)]
mod signatures;

#[cfg(fuzzing)]
mod chosen {
    use std::sync::LazyLock;

    type Target = fn(&[u8]);

    /// Every target; the names are those of the folders in `seeds`.
    const TARGETS: [(&str, Target); 10] = [
        ("amqp", super::amqp::target),
        ("cloudevents", super::cloudevents::target),
        ("conditions", super::conditions::target),
        ("config", |data| text(data, outboxd::fuzz::config)),
        ("cursors", |data| text(data, outboxd::fuzz::cursor)),
        ("filter", |data| text(data, outboxd::fuzz::filter)),
        ("headers", super::headers::target),
        ("kafka", super::kafka::target),
        ("names", super::names::target),
        ("signatures", super::signatures::target),
    ];

    fn text(data: &[u8], target: fn(&str)) {
        if let Ok(text) = std::str::from_utf8(data) {
            target(text);
        }
    }

    static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("FUZZ_TARGET is none of {:?}", TARGETS.map(|(name, _)| name))).1
    });

    libfuzzer_sys::fuzz_target!(|data: &[u8]| CHOSEN(data));
}

/// As a test of the workspace there is nothing to do: the seeds are run by `scripts/fuzz 0`.
#[cfg(not(fuzzing))]
fn main() {}
