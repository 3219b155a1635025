//! What is typed while `top` runs.

use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

/// How long a stop may go unnoticed.
const STEP: Duration = Duration::from_millis(100);

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// To leave.
    Quit,
    /// That the display stands still, or goes on.
    Pause,
    /// Another order.
    Sort,
    /// To be told the keys, or no longer.
    Help,
    /// Nothing but a display that fits: the terminal has another size.
    Redraw,
}

/// Listens in a thread of its own, for reading keys blocks, until the stop or the end of the terminal.
pub fn listen(stop: CancellationToken) -> Receiver<Key> {
    let (found, keys) = channel(16);
    std::thread::spawn(move || {
        while !stop.is_cancelled() {
            let event = match poll(STEP) {
                Ok(false) => continue,
                Ok(true) => read(),
                Err(_) => return,
            };
            let Ok(event) = event else { return };
            if let Some(key) = key(&event)
                && found.blocking_send(key).is_err()
            {
                return;
            }
        }
    });
    keys
}

fn key(event: &Event) -> Option<Key> {
    let pressed = match event {
        Event::Resize(..) => return Some(Key::Redraw),
        Event::Key(pressed) if pressed.kind != KeyEventKind::Release => pressed,
        _ => return None,
    };
    let KeyEvent { code, modifiers, .. } = pressed;
    // In raw mode the terminal makes no signal of it.
    if modifiers.contains(KeyModifiers::CONTROL) {
        return (*code == KeyCode::Char('c')).then_some(Key::Quit);
    }
    match code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('p') => Some(Key::Pause),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Char('?' | 'h') => Some(Key::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e7_keys() {
        let typed = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |c| typed(KeyCode::Char(c), KeyModifiers::NONE);
        assert_eq!(plain('q'), Some(Key::Quit));
        assert_eq!(plain('p'), Some(Key::Pause));
        assert_eq!(plain('s'), Some(Key::Sort));
        assert_eq!(plain('?'), Some(Key::Help));
        assert_eq!(plain('c'), None);
        assert_eq!(typed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(typed(KeyCode::Char('s'), KeyModifiers::CONTROL), None);
        assert_eq!(typed(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(Key::Help));
        assert_eq!(typed(KeyCode::Esc, KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(key(&Event::Resize(80, 24)), Some(Key::Redraw));
    }
}
