//! `outboxd top`: as one frame, refused where there is no terminal, and in a real one (E7).

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{PATIENCE, Program, RELAY};

/// A pipe that carries, and one message that is dead.
fn program() -> Program {
    let program = Program::migrated(RELAY);
    program.send("a");
    program.run(&["run", "--once"]);
    program
}

#[test]
fn e7_one_frame_as_text() {
    let program = program();
    let frame = program.ok(&["top", "--once", "--every", "100ms"]);
    assert!(frame.starts_with("1 of 1 is not well: relay (1 dead, "), "{frame}");
    let line = frame.lines().find(|line| line.starts_with("relay ")).unwrap_or_else(|| panic!("{frame}"));
    assert!(frame.contains("RATE/S") && line.contains(" 1 "), "{frame}");
    assert!(!frame.contains('\u{1b}'), "it is text: {frame:?}");
    program.make_folder("out");
    program.ok(&["retry", "--yes", "--state", "dead"]);
    let running = program.start(&["run"]);
    let begun = Instant::now();
    loop {
        let frame = program.ok(&["top", "--once", "--every", "50ms"]);
        if frame.starts_with("All is well.") && frame.contains(" running ") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{frame}");
    }
    drop(running);
}

#[test]
fn e7_without_a_terminal_it_says_what_to_use_instead() {
    let program = program();
    let ran = program.run(&["top"]);
    let (error, help) = ran.only_error(2);
    assert_eq!(error, "`top` needs a terminal");
    assert!(help.contains("outboxd status --format json") && help.contains("--once"), "{help}");
    let json = program.run(&["top", "--once", "--format", "json"]);
    assert!(json.only_error(2).1.contains("outboxd status --format json"), "{json:#?}");
    let unknown = program.run(&["top", "--once", "--source", "ordrs"]);
    assert!(unknown.only_error(2).1.contains("did you mean 'orders'"), "{unknown:#?}");
}

#[test]
fn e7_a_source_that_does_not_answer_is_shown() {
    let program = Program::with(&RELAY.replace("sqlite:shop.db", "postgres://app@127.0.0.1:1/shop"));
    let frame = program.ok(&["top", "--once", "--every", "100ms"]);
    assert!(frame.starts_with("1 of 1 is not well: relay (unknown)"), "{frame}");
    assert!(frame.contains("relay: cannot open the source"), "{frame}");
}

/// The words that give a terminal its own screen, and give it back.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// Runs in a terminal of 80 by 24 that `script` makes, types, and gives how it ended and all that was on the screen.
fn in_terminal(program: &Program, prelude: &str, typed: &[&str]) -> Option<(i32, String)> {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no `script` to make a terminal");
        return None;
    }
    let line = format!("stty cols 80 rows 24; {prelude} {} top --every 100ms", env!("CARGO_BIN_EXE_outboxd"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &line]).arg(program.path("screen"));
    command.current_dir(program.path("")).env("TERM", "xterm").env_remove("OUTBOXD_CONFIG");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let begun = Instant::now();
    let seen = || std::fs::read_to_string(program.path("screen")).unwrap_or_default();
    let wait_for = |words: &str| {
        while !seen().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "'{words}' was never shown: {:?}", seen());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("relay");
    for words in typed.chunks(2) {
        stdin.write_all(words[0].as_bytes()).unwrap();
        stdin.flush().unwrap();
        if let Some(answer) = words.get(1) {
            wait_for(answer);
        }
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    Some((code, seen()))
}

#[test]
fn e7_in_a_terminal_it_listens_to_keys_and_gives_the_terminal_back() {
    let program = program();
    let typed = ["?", "this help", "?", "relay", "s", "by name", "p", "PAUSED", "q"];
    let Some((code, screen)) = in_terminal(&program, "", &typed) else { return };
    assert_eq!(code, 0, "{screen:?}");
    assert!(screen.contains(ENTER) && screen.contains(LEAVE), "{screen:?}");
    assert!(screen.find(ENTER) < screen.rfind(LEAVE), "{screen:?}");
    assert!(screen.contains("not well"), "{screen:?}");
}

#[test]
fn e7_a_signal_gives_the_terminal_back() {
    let program = program();
    // Ends it from outside once it shows something: `timeout` sends the signal.
    let Some((_, screen)) = in_terminal(&program, "timeout --foreground -s TERM 3", &[]) else { return };
    assert!(screen.find(ENTER).is_some() && screen.find(ENTER) < screen.rfind(LEAVE), "{screen:?}");
}
