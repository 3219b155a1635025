//! What an answer of a mail server, or none, means for a letter. Pure.

use crate::sink::{Cause, Outcome, code};

/// How far a letter has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The connection, TLS and the login: nothing of the letter was told.
    Greeting,
    /// Sender and recipients were told; nobody has the letter.
    Envelope,
    /// The letter is on its way: if no answer comes, the server may have it or not.
    Content,
}

/// Why a letter was not accepted.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server said so.
    Answer(u16, String),
    /// It told before that it cannot.
    Unfit(&'static str),
    /// The connection failed, or something came that is no answer.
    Lost(String),
    /// No answer came in time.
    Late,
}

/// What became of a letter that was not accepted; `place` is what causes call the server.
pub(super) fn outcome(stage: Stage, fault: &Fault, place: &str) -> Outcome {
    let told = match fault {
        Fault::Answer(code, words) => format!("{place} answered {code}: {words}"),
        Fault::Unfit(words) => format!("{place} {words}"),
        Fault::Lost(words) => format!("{place}: {words}"),
        Fault::Late => format!("{place}: no answer in time"),
    };
    match (stage, fault) {
        // The login is asked for or refused: that is no letter's fault.
        (Stage::Greeting, Fault::Answer(530..=538, _)) | (_, Fault::Answer(530 | 534 | 535 | 538, _)) => {
            Outcome::Unavailable(Cause::new(code::FORBIDDEN, told))
        }
        // 421 is said by a server that closes, whatever it was asked.
        (Stage::Greeting, Fault::Answer(..)) | (_, Fault::Answer(421, _)) => {
            Outcome::Unavailable(Cause::new(code::REFUSED, told))
        }
        (_, Fault::Answer(answer @ 500.., _)) => Outcome::refused(Cause::new(format!("SMTP_{answer}"), told)),
        (_, Fault::Answer(answer, _)) => Outcome::rejected(Cause::new(format!("SMTP_{answer}"), told)),
        (_, Fault::Unfit(_)) => Outcome::refused(Cause::new(code::UNFIT, told)),
        // The server may have it. Tried without end, it would come without end: so it spends an attempt.
        (Stage::Content, Fault::Late) => Outcome::rejected(Cause::new(code::TIMEOUT, told)),
        (Stage::Content, Fault::Lost(_)) => Outcome::rejected(Cause::new(code::UNREACHABLE, told)),
        (_, Fault::Late) => Outcome::Unavailable(Cause::new(code::TIMEOUT, told)),
        (_, Fault::Lost(_)) => Outcome::Unavailable(Cause::new(code::UNREACHABLE, told)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d9_what_the_server_says_decides_and_when_it_says_it() {
        use Stage::{Content, Envelope, Greeting};
        let answer = |code| Fault::Answer(code, "words".into());
        for (stage, fault, expected) in [
            (Envelope, answer(550), "SMTP_550!"),
            (Envelope, answer(451), "SMTP_451"),
            (Content, answer(554), "SMTP_554!"),
            (Content, answer(452), "SMTP_452"),
            (Envelope, answer(421), "~REFUSED"),
            (Greeting, answer(554), "~REFUSED"),
            (Greeting, answer(450), "~REFUSED"),
            (Greeting, answer(535), "~FORBIDDEN"),
            (Envelope, answer(530), "~FORBIDDEN"),
            (Envelope, Fault::Unfit("takes it not"), "UNFIT!"),
            (Greeting, Fault::Late, "~TIMEOUT"),
            (Envelope, Fault::Late, "~TIMEOUT"),
            (Content, Fault::Late, "TIMEOUT"),
            (Greeting, Fault::Lost(String::new()), "~UNREACHABLE"),
            (Envelope, Fault::Lost(String::new()), "~UNREACHABLE"),
            (Content, Fault::Lost(String::new()), "UNREACHABLE"),
        ] {
            let outcome = match outcome(stage, &fault, "smtp://x") {
                Outcome::Rejected(rejection) if rejection.permanent => format!("{}!", rejection.cause.code),
                Outcome::Rejected(rejection) => rejection.cause.code.to_string(),
                Outcome::Unavailable(cause) => format!("~{}", cause.code),
                Outcome::Delivered => "delivered".to_owned(),
            };
            assert_eq!(outcome, expected, "{stage:?} {fault:?}");
        }
    }
}
