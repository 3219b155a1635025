//! `outboxd top`: as one frame, refused where there is no terminal, and in a real one (E7).

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
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

/// A program in a terminal of 80 by 24 that `script` makes. Without it the terminal is gone, and with it the program.
struct Terminal {
    script: Child,
    screen: PathBuf,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

impl Terminal {
    /// Starts `top` there and waits until it shows something; `before` stands before the command.
    fn start(program: &Program, before: &str) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            eprintln!("SKIPPED: there is no `script` to make a terminal");
            return None;
        }
        let binary = env!("CARGO_BIN_EXE_outboxd");
        let line = format!("stty cols 80 rows 24; {before} {binary} top --every 100ms");
        let screen = program.path("screen");
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line]).arg(&screen);
        command.current_dir(program.path("")).env("TERM", "xterm").env_remove("OUTBOXD_CONFIG");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let terminal = Self { script: command.spawn().unwrap(), screen };
        terminal.wait_for("not well");
        Some(terminal)
    }

    /// All that was ever on the screen, with what steers it: only what changes is written.
    fn seen(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.screen).unwrap_or_default()).into_owned()
    }

    fn wait_for(&self, word: &str) {
        let begun = Instant::now();
        while !self.seen().contains(word) {
            assert!(begun.elapsed() < PATIENCE, "'{word}' was never shown");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn type_in(&mut self, key: &str) {
        let stdin = self.script.stdin.as_mut().unwrap();
        stdin.write_all(key.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// How it ended, and whether the screen was given back.
    fn end(mut self) -> (i32, bool) {
        let code = self.script.wait().unwrap().code().unwrap_or(-1);
        let seen = self.seen();
        (code, seen.find(ENTER).is_some_and(|entered| seen.rfind(LEAVE).is_some_and(|left| entered < left)))
    }
}

#[test]
fn e7_in_a_terminal_it_listens_to_keys_and_gives_the_terminal_back() {
    let program = program();
    let Some(mut terminal) = Terminal::start(&program, "") else { return };
    for (key, word) in [("s", "name"), ("p", "PAUSED"), ("?", "Ctrl-C")] {
        assert!(!terminal.seen().contains(word), "{word}");
        terminal.type_in(key);
        terminal.wait_for(word);
    }
    terminal.type_in("q");
    assert_eq!(terminal.end(), (0, true));
}

#[test]
fn e7_a_signal_gives_the_terminal_back() {
    let program = program();
    // The one that a service manager, or `kill`, sends.
    let Some(terminal) = Terminal::start(&program, "timeout --foreground -s TERM 3") else { return };
    assert!(terminal.end().1);
}
