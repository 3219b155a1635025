//! Where words go: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::args::{Color, Format, Global};

/// The two outputs of a verb.
pub struct Output {
    /// How data is written.
    pub format: Format,
    stdout: BufWriter<Stdout>,
    quiet: bool,
    color: bool,
}

impl Output {
    /// As the flags ask for it.
    pub fn new(global: &Global) -> Self {
        let color = use_color(global.color);
        Self { format: global.format, stdout: BufWriter::new(io::stdout()), quiet: global.quiet > 0, color }
    }

    /// Whether scripts read along.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether a person sits in front of standard error and standard input.
    pub fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// One line of data.
    pub fn line(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{line}")
    }

    /// Text of our own, as it is.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    /// What an application wrote: as it is for files and other programs; a terminal gets what cannot steer it.
    pub fn payload(&mut self, bytes: &[u8]) -> io::Result<()> {
        if io::stdout().is_terminal() {
            return self.stdout.write_all(printable_lines(bytes).as_bytes());
        }
        self.raw(bytes)
    }

    /// A value as JSON.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.stdout, value)?;
        writeln!(self.stdout)
    }

    /// A table: columns apart by spaces, so that other programs can cut it.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.iter().map(|name| name.to_uppercase()));
        for row in rows {
            table.add_row(row.iter().map(|cell| printable(cell)));
        }
        for line in table.lines() {
            writeln!(self.stdout, "{}", line.trim())?;
        }
        Ok(())
    }

    /// Hands over what was written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// A remark, on standard error. If nobody can read it there, there is nobody to tell.
    pub fn note(&self, remark: impl Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{remark}");
        }
    }

    /// Remarks that came with an answer.
    pub fn notes<'r>(&self, remarks: impl IntoIterator<Item = &'r String>) {
        remarks.into_iter().for_each(|remark| self.note(remark));
    }

    /// A question or a progress, on standard error, without a line break.
    pub fn prompt(&self, words: impl Display) {
        let _ = write!(io::stderr(), "{words}");
        let _ = io::stderr().flush();
    }

    /// A failure, on standard error: one line, and what to do.
    pub fn error(&self, what: impl Display, help: &str) {
        self.tell("error", "\x1b[1;31m", what, help);
    }

    /// What should be looked at though nothing failed: the same.
    pub fn warning(&self, what: impl Display, help: &str) {
        self.tell("warning", "\x1b[1;33m", what, help);
    }

    fn tell(&self, word: &str, word_color: &str, what: impl Display, help: &str) {
        let (bold, cyan, plain) = if self.color { (word_color, "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let what = printable(&what.to_string());
        let _ = writeln!(io::stderr(), "{bold}{word}:{plain} {what}");
        if !help.is_empty() {
            let _ = writeln!(io::stderr(), "{cyan}help:{plain} {}", printable(help));
        }
    }
}

/// Whether standard error gets colour.
pub fn use_color(color: Color) -> bool {
    let allowed = || std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let capable = || std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => allowed() && capable() && io::stderr().is_terminal(),
    }
}

/// Without control characters: what an application wrote must not steer somebody's terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The same for a text of several lines.
fn printable_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split('\n').map(|line| printable(line.strip_suffix('\r').unwrap_or(line)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_keeps_its_lines_and_cannot_steer_a_terminal() {
        let shown = printable_lines(b"{\r\n \"a\": 1\n}\x1b]0;title\x07\r\xff");
        assert_eq!(shown, "{\n \"a\": 1\n}\u{fffd}]0;title\u{fffd}\u{fffd}\u{fffd}");
    }
}
