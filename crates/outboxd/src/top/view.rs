//! How it is drawn: into any buffer, so that a terminal, a text and a test see the same.

use std::collections::VecDeque;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Widget as _};

use super::model::{Level, Line, Model};
use crate::cli::output::printable;
use crate::quantity::show_age;

/// What is shown besides the lines.
#[derive(Debug, Default)]
pub struct View {
    /// Lines do not change until it is lifted.
    pub frozen: bool,
    /// Somebody can type.
    pub keys: bool,
    /// The keys are explained.
    pub help: bool,
    /// How often one looks, for people.
    pub every: String,
    /// The time of the last look, for people.
    pub at: String,
    /// Why there is no news, if there is none.
    pub trouble: Option<String>,
}

const HEADER: [&str; 9] = ["PIPE", "STATE", "PENDING", "LAG", "RATE/S", "WAIT", "DEAD", "TREND", "OWNER"];
const KEYS: &str = "q quit   p pause the display   s sort   ? help";
const HELP: [&str; 13] = [
    "q, Esc, Ctrl-C   quit",
    "p                pause the display, and go on; the pipes do not care",
    "s                sort by trouble, name, rate, lag",
    "?                this help",
    "",
    "PENDING   committed and not read yet",
    "LAG       age of the oldest message that is neither done nor dead",
    "RATE/S    delivered in a second, between two looks; where only the instances",
    "          count, as of a queue or topic, by what they tell every 30 s",
    "WAIT      set aside: for the next attempt, or behind an earlier one of the key",
    "DEAD      waits for you: outboxd list --state dead",
    "TREND     the rates before",
    "OWNER     who holds the pipe, or runs it",
];
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const TREND: usize = 8;

/// The rows that a text of these lines needs.
pub fn height(model: &Model) -> u16 {
    let lines = model.lines();
    let causes = lines.iter().filter(|line| line.cause.is_some()).count();
    u16::try_from(lines.len() + causes + if causes > 0 { 5 } else { 4 }).unwrap_or(u16::MAX)
}

/// Draws all of it.
pub fn draw(model: &Model, view: &View, area: Rect, buffer: &mut Buffer) {
    let row = |n: u16, height: u16| {
        let y = area.y.saturating_add(n);
        Rect { y, height, ..area }.intersection(area)
    };
    let (level, truth) = match &view.trouble {
        Some(trouble) => (Level::Bad, trouble.clone()),
        None if view.at.is_empty() => (Level::Uneasy, "Looking …".to_owned()),
        None => model.truth(),
    };
    Paragraph::new(printable(&truth)).style(colour(level).bold()).render(row(0, 1), buffer);
    Paragraph::new(heading(model, view)).dim().render(row(1, 1), buffer);
    let body = row(3, area.height.saturating_sub(if view.keys { 4 } else { 3 }));
    if view.help {
        Paragraph::new(HELP.map(Text::from).to_vec()).render(body, buffer);
    } else {
        draw_lines(&model.lines(), body, buffer);
    }
    if view.keys && area.height > 4 {
        Paragraph::new(KEYS).dim().render(row(area.height - 1, 1), buffer);
    }
}

fn heading(model: &Model, view: &View) -> Text<'static> {
    let mut words = vec![Span::from(format!(
        "outboxd top   {}   every {}   by {}",
        view.at,
        view.every,
        model.sort.as_str()
    ))];
    if view.frozen {
        words.push("   PAUSED: p goes on".bold());
    }
    words.into()
}

fn draw_lines(lines: &[&Line], area: Rect, buffer: &mut Buffer) {
    // Pipes before causes: a line that does not fit is counted.
    let room = usize::from(area.height.saturating_sub(1));
    let shown = if lines.len() > room { room.saturating_sub(1) } else { lines.len() };
    let rows = lines[..shown].iter().map(|line| to_row(line));
    let widths = [14, 11, 7, 5, 6, 6, 6, TREND as u16].map(Constraint::Length);
    let widths = widths.into_iter().chain([Constraint::Min(5)]);
    let header = Row::new(HEADER).style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(rows, widths).header(header).column_spacing(1).render(area, buffer);
    let mut y = area.y + 1 + u16::try_from(shown).unwrap_or(u16::MAX);
    let mut say = |text: String, style: Style| {
        let line = Rect { y, height: 1, ..area }.intersection(area);
        Paragraph::new(text).style(style).render(line, buffer);
        y = y.saturating_add(1);
    };
    if shown < lines.len() {
        say(format!("… and {} more", lines.len() - shown), Style::new());
        return;
    }
    say(String::new(), Style::new());
    for line in lines {
        if let Some(cause) = &line.cause {
            say(printable(&format!("{}: {cause}", line.pipe)), colour(line.level));
        }
    }
}

fn to_row(line: &Line) -> Row<'static> {
    let number = |count: Option<u64>| Cell::from(count.map_or("-".to_owned(), show_count));
    let dead = number(line.dead);
    Row::new(vec![
        Cell::from(printable(&line.pipe)),
        Cell::from(line.state.clone()).style(colour(line.level)),
        number(line.pending),
        Cell::from(line.lag.map_or("-".to_owned(), show_age)),
        Cell::from(line.rate.map_or("-".to_owned(), show_rate)),
        number(line.waiting),
        if line.dead.is_some_and(|dead| dead > 0) { dead.style(colour(Level::Bad)) } else { dead },
        Cell::from(trend(&line.history, TREND)),
        Cell::from(line.owner.as_deref().map_or("-".to_owned(), printable)),
    ])
}

/// Colour only adds to what words say.
fn colour(level: Level) -> Style {
    Style::new().fg(match level {
        Level::Well => Color::Green,
        Level::Uneasy => Color::Yellow,
        Level::Bad => Color::Red,
    })
}

fn show_count(count: u64) -> String {
    match count {
        outbox::admin::COUNTED_AT_MOST.. => format!("≥{}", outbox::admin::COUNTED_AT_MOST),
        _ => count.to_string(),
    }
}

fn show_rate(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// The last rates as bars, the highest of them full.
fn trend(history: &VecDeque<f64>, width: usize) -> String {
    let last = history.iter().skip(history.len().saturating_sub(width));
    let most = last.clone().copied().fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 7")]
    let bar = |rate: &f64| BARS[if most > 0.0 { (rate / most * 7.0).round() as usize } else { 0 }.min(7)];
    last.map(bar).collect()
}

/// The same as text, without colour.
pub fn text(model: &Model, view: &View, width: u16) -> String {
    let area = Rect::new(0, 0, width, height(model));
    let mut buffer = Buffer::empty(area);
    draw(model, view, area, &mut buffer);
    lines(&buffer)
}

fn lines(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let rows = buffer.content().chunks(width);
    let text = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    text.map(|row| format!("{}\n", row.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};

    use super::*;

    fn cursor(pipe: &str, delivered: u64, dead: u64) -> Value {
        json!({
            "source": "orders", "pipe": pipe, "started": true, "owner": "shop-1:4711:9f", "lane": 0, "lanes": 1, "pending": 10_000,
            "lag_seconds": 780.0, "waiting": 1, "behind": 1, "dead": dead, "delivered": delivered,
        })
    }

    fn model(cursors: impl Fn(u64) -> Vec<Value>) -> Model {
        let mut model = Model::default();
        let waiting = json!({
            "instance": "shop-2", "pipe": "mailer", "state": "waiting", "cause": "UNREACHABLE: refused\u{1b}[2J", "delivered": 0,
            "beat_at": "2026-01-31T12:00:00Z",
        });
        for n in 0..3_u32 {
            let told = json!({ "pipes": cursors(n.into()), "instances": [waiting] });
            let told = serde_json::from_value(told).expect("as status tells");
            let now = "2026-01-31T12:00:00Z".parse().expect("a time");
            model.look(&told, &["mailer".to_owned()], f64::from(n) * 2.0, now);
        }
        model
    }

    fn view() -> View {
        View { every: "2s".to_owned(), at: "12:00:00".to_owned(), keys: true, ..View::default() }
    }

    /// What a terminal of this size shows.
    fn screen(model: &Model, view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it never fails");
        let drawn = terminal.draw(|frame| draw(model, view, frame.area(), frame.buffer_mut()));
        lines(drawn.expect("it never fails").buffer)
    }

    #[test]
    fn e7_a_terminal_of_80_by_24_shows_all_of_it() {
        let model = model(|n| vec![cursor("relay", n * n * 100, 0), cursor("mailer", 0, 3)]);
        let shown = screen(&model, &view(), 80, 24);
        let expected = "\
1 of 2 is not well: mailer (3 dead, waiting)
outboxd top   12:00:00   every 2s   by trouble

PIPE           STATE       PENDING LAG   RATE/S WAIT   DEAD   TREND    OWNER
mailer         waiting     ≥10000  13m   0      2      3      ▁▁       shop-1:47
relay          running     ≥10000  13m   150    2      0      ▃█       shop-1:47

mailer: UNREACHABLE: refused\u{fffd}[2J
";
        assert!(shown.starts_with(expected), "{shown}");
        assert_eq!(shown.lines().count(), 24);
        assert_eq!(shown.lines().last(), Some(KEYS));
    }

    #[test]
    fn e7_what_does_not_fit_is_counted_and_no_size_is_too_small() {
        let many = model(|_| (0..30).map(|n| cursor(&format!("pipe-{n:02}"), 0, 0)).collect());
        let shown = screen(&many, &view(), 80, 24);
        assert!(shown.contains("… and 13 more"), "{shown}");
        for (width, height) in [(1, 1), (10, 2), (20, 4), (40, 5), (200, 60)] {
            screen(&many, &view(), width, height);
            screen(&many, &View { help: true, ..view() }, width, height);
        }
    }

    #[test]
    fn e7_help_trouble_and_pause_are_shown() {
        let model = model(|_| vec![cursor("relay", 0, 0)]);
        let help = screen(&model, &View { help: true, ..view() }, 80, 24);
        assert!(
            help.contains("sort by trouble, name, rate, lag") && !help.contains("RATE/S   WAIT"),
            "{help}"
        );
        let view = View { frozen: true, trouble: Some("no answer within 10s".to_owned()), ..view() };
        let frozen = screen(&model, &view, 80, 24);
        assert!(frozen.starts_with("no answer within 10s\n") && frozen.contains("PAUSED"), "{frozen}");
    }

    #[test]
    fn e7_one_frame_as_text_has_every_pipe() {
        let many = model(|_| (0..30).map(|n| cursor(&format!("pipe-{n:02}"), 0, 0)).collect());
        let text = text(&many, &View { keys: false, ..view() }, 100);
        assert!(!text.contains(KEYS) && text.lines().count() == usize::from(height(&many)), "{text}");
        assert!((0..30).all(|n| text.contains(&format!("pipe-{n:02}"))), "{text}");
        assert!(text.contains("mailer: UNREACHABLE") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn e7_the_trend_is_the_last_rates() {
        assert_eq!(trend(&VecDeque::new(), 3), "");
        assert_eq!(trend(&VecDeque::from([0.0, 0.0]), 3), "▁▁");
        assert_eq!(trend(&VecDeque::from([100.0, 0.0, 3.5, 7.0]), 3), "▁▅█");
    }
}
