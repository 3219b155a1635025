use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use anyhow::Result;
use testbed::{Smtp, available};

/// Says these lines one after the other; the first word of each answer.
fn talk(port: u16, lines: &[&str]) -> Result<Vec<String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut answer = || -> Result<String> {
        loop {
            let mut line = String::new();
            answers.read_line(&mut line)?;
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(line.chars().take(3).collect());
            }
        }
    };
    let mut said = vec![answer()?];
    for line in lines {
        write!(stream, "{line}\r\n")?;
        said.push(answer()?);
    }
    Ok(said)
}

#[tokio::test]
async fn a_letter_is_kept_and_the_recipient_decides_who_gets_none() -> Result<()> {
    let Some(smtp) = testbed::smtp().await else { return Ok(()) };
    let port = smtp.open_port();
    let letter = [
        "EHLO x",
        "MAIL FROM:<a@x.example>",
        "RCPT TO:<kept@x.example>",
        "DATA",
        "Subject: s\r\n\r\nhi\r\n.",
    ];
    let said = tokio::task::spawn_blocking(move || talk(port, &letter)).await??;
    assert_eq!(said, ["220", "250", "250", "250", "354", "250"]);
    let [mail] = smtp.mails("kept@x.example")?.try_into().expect("one letter");
    assert_eq!((mail.from.as_str(), mail.user, mail.is_tls), ("a@x.example", None, false));
    assert_eq!(mail.content, "Subject: s\r\n\r\nhi\r\n");
    let refused = [
        "EHLO x",
        "MAIL FROM:<a@x.example>",
        "RCPT TO:<refused@x.example>",
        "RCPT TO:<greylisted@x.example>",
    ];
    let said = tokio::task::spawn_blocking(move || talk(port, &refused)).await??;
    assert_eq!(said[3..], ["550", "451"]);
    Ok(())
}

#[tokio::test]
async fn without_tls_and_login_the_guarded_port_takes_nothing() -> Result<()> {
    let Some(smtp) = testbed::smtp().await else { return Ok(()) };
    let port = smtp.starttls_port();
    let said =
        tokio::task::spawn_blocking(move || talk(port, &["EHLO x", "MAIL FROM:<a@x.example>"])).await??;
    assert_eq!(said, ["220", "250", "530"]);
    Ok(())
}

#[tokio::test]
async fn a_private_server_can_be_stopped_and_started_again() -> Result<()> {
    let Some(mut smtp) = available(Smtp::start().await) else { return Ok(()) };
    let port = smtp.open_port();
    smtp.stop().await?;
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    smtp.start_again().await?;
    let said = tokio::task::spawn_blocking(move || talk(port, &["NOOP"])).await??;
    assert_eq!(said, ["220", "250"]);
    Ok(())
}
