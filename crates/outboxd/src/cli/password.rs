//! `password`: makes the hash of a password for the configuration.

use std::io::{BufRead, Read, Write};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::output::Output;
use crate::password;
use crate::trouble::{Exit, Trouble};

/// The least that a password must have: what people choose that is shorter is guessed.
const LEAST: usize = 12;

/// The longest that can sign in.
const MOST: usize = 1_024;

/// Asks for a password, twice, and prints its hash.
pub fn password(output: &mut Output) -> anyhow::Result<Exit> {
    let password = if output.is_interactive() {
        let first = ask("Password: ", output)?;
        check(&first)?;
        if ask("Again: ", output)? != first {
            return Err(Trouble::usage("the two are not the same", "type it again").into());
        }
        first
    } else {
        let mut line = String::new();
        std::io::stdin().lock().take(4_096).read_line(&mut line)?;
        let line = line.trim_end_matches(['\r', '\n']).to_owned();
        check(&line)?;
        line
    };
    output.line(password::hash(&password)?)?;
    output.flush()?;
    output.note("put it into the configuration, and start `outboxd run` again:");
    output
        .note("    [http.people.NAME]\n    role = \"viewer\"    # or \"operator\"\n    password_hash = '…'");
    Ok(Exit::Ok)
}

fn check(password: &str) -> Result<(), Trouble> {
    let length = password.chars().count();
    if length < LEAST {
        let what = format!("the password has {length} characters, and needs {LEAST} or more");
        return Err(Trouble::usage(what, "a few words that nobody else would put together are easy to keep"));
    }
    if password.len() > MOST {
        return Err(Trouble::usage(
            format!("the password has more than {MOST} bytes"),
            "choose a shorter one",
        ));
    }
    Ok(())
}

/// Asks on the terminal, which does not show what is typed.
fn ask(prompt: &str, output: &Output) -> anyhow::Result<String> {
    output.prompt(prompt);
    enable_raw_mode()?;
    let typed = typed(std::io::stdin().lock().bytes());
    disable_raw_mode()?;
    let _ = std::io::stderr().write_all(b"\n");
    match typed? {
        Some(typed) => Ok(typed),
        None => Err(Trouble::usage("no password was typed", "type it, and press Enter").into()),
    }
}

/// A line, as keys are pressed on a terminal that leaves editing to us. None if somebody gave up.
fn typed(keys: impl Iterator<Item = std::io::Result<u8>>) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    for key in keys {
        match key? {
            b'\r' | b'\n' => return Ok(String::from_utf8(line).ok()),
            // Ctrl-C and Ctrl-D.
            3 | 4 => return Ok(None),
            // Ctrl-U.
            21 => line.clear(),
            8 | 127 => {
                // A character may have several bytes.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_can_be_edited_and_given_up() {
        let line = |keys: &[u8]| typed(keys.iter().map(|key| Ok(*key))).expect("it can be read");
        assert_eq!(line(b"secret\r rest").as_deref(), Some("secret"));
        assert_eq!(line(b"secrex\x7ft\n").as_deref(), Some("secret"));
        assert_eq!(line("sä\u{7f}ecret\r".as_bytes()).as_deref(), Some("secret"));
        assert_eq!(line(b"\x7f\x7fwrong\x15secret\r").as_deref(), Some("secret"));
        assert_eq!((line(b"secret\x03"), line(b"secret\x04"), line(b"secret")), (None, None, None));
    }

    #[test]
    fn a_short_password_is_refused() {
        assert!(check("twelve chars").is_ok() && check(&"x".repeat(MOST)).is_ok());
        assert!(check("eleven char").is_err() && check(&"x".repeat(MOST + 1)).is_err());
    }
}
