//! `top`: how every pipe stands, live in the terminal.
//!
//! What is shown is what `status` tells, looked at again and again; `model.rs` makes rates of it, `view.rs` draws. Here is
//! the terminal: it is given back whatever happens, a panic and a signal included.

mod keys;
mod model;
mod view;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli::args::TopArgs;
use crate::cli::output::Output;
use crate::ops::Office;
use crate::ops::status::{StatusRequest, status};
use crate::quantity::show_duration;
use crate::trouble::{Exit, Trouble};
use keys::Key;
use model::{Model, Told};
use view::View;

/// How long a look may take before that is told.
const LIMIT: Duration = Duration::from_secs(10);

/// The width of a text that nobody's terminal limits.
const WIDTH: u16 = 120;

/// Shows how every pipe stands, until somebody has seen enough.
pub async fn top(args: &TopArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        let help = "for scripts there is `outboxd status --format json`";
        return Err(Trouble::usage("`top` writes no JSON", help).into());
    }
    let mut top = Top::new(args, office);
    if args.once {
        top.take(look(office, args.source.as_deref()).await?);
        // Two looks make a rate.
        tokio::time::sleep(args.every).await;
        top.take(look(office, args.source.as_deref()).await?);
        let width = ratatui::crossterm::terminal::size().map_or(WIDTH, |(width, _)| width);
        let width = if io::stdout().is_terminal() { width } else { WIDTH };
        output.raw(view::text(&top.model, &top.view, width).as_bytes())?;
        return Ok(Exit::Ok);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let help = "use `outboxd status --format json`, or `outboxd top --once` for one look as text";
        return Err(Trouble::usage("`top` needs a terminal", help).into());
    }
    top.live(args).await
}

/// What `status` tells: the same that it prints for scripts.
async fn look(office: &Office, source: Option<&str>) -> Result<Told, Trouble> {
    let request = StatusRequest { source: source.map(str::to_owned), activity: false };
    let told = tokio::time::timeout(LIMIT, status(office, &request)).await.map_err(|_| {
        let what = format!("no answer within {}", show_duration(LIMIT));
        Trouble::new(Exit::Source, what, "look at the databases: `outboxd doctor`")
    })??;
    serde_json::to_value(told).and_then(serde_json::from_value).map_err(|error| {
        let what = format!("what `status` tells cannot be shown: {error}");
        Trouble::new(Exit::Failed, what, "this is a mistake of ours: please tell us")
    })
}

/// What is shown, and what it is made from.
struct Top<'o> {
    office: &'o Office,
    pipes: Vec<String>,
    model: Model,
    view: View,
    begun: Instant,
}

impl<'o> Top<'o> {
    fn new(args: &TopArgs, office: &'o Office) -> Self {
        let is_meant = |from: &str| args.source.as_deref().is_none_or(|source| source == from);
        let pipes =
            office.plan.pipes.values().filter(|pipe| is_meant(&pipe.from)).map(|pipe| pipe.name.clone());
        let view = View { every: show_duration(args.every), keys: !args.once, ..View::default() };
        Self { office, pipes: pipes.collect(), model: Model::default(), view, begun: Instant::now() }
    }

    fn take(&mut self, told: Told) {
        let now = Timestamp::now();
        self.model.look(&told, &self.pipes, self.begun.elapsed().as_secs_f64(), now);
        self.view.at = now.strftime("%H:%M:%SZ").to_string();
        self.view.trouble = None;
    }

    /// Looks, draws and listens until somebody quits.
    async fn live(&mut self, args: &TopArgs) -> anyhow::Result<Exit> {
        let mut signals = Signals::new()?;
        let office = self.office;
        let (found, mut looks) = channel(1);
        let looking = async {
            loop {
                let next = Instant::now() + args.every;
                if found.send(look(office, args.source.as_deref()).await).await.is_err() {
                    return;
                }
                tokio::time::sleep_until(next).await;
            }
        };
        let stop = CancellationToken::new();
        // The reader of keys ends before the terminal is given back.
        let mut terminal = Screen::open()?;
        let mut keys = keys::listen(stop.clone());
        let _stop = stop.drop_guard();
        let shown = self.show(&mut terminal, &mut looks, &mut keys, &mut signals);
        tokio::select! {
            shown = shown => shown,
            () = looking => Ok(Exit::Ok),
        }
    }

    async fn show(
        &mut self,
        screen: &mut Screen,
        looks: &mut Receiver<Result<Told, Trouble>>,
        keys: &mut Receiver<Key>,
        signals: &mut Signals,
    ) -> anyhow::Result<Exit> {
        loop {
            screen.draw(&self.model, &self.view)?;
            tokio::select! {
                () = signals.recv() => return Ok(Exit::Ok),
                key = keys.recv() => match key {
                    None | Some(Key::Quit) => return Ok(Exit::Ok),
                    Some(Key::Pause) => self.view.frozen = !self.view.frozen,
                    Some(Key::Sort) => self.model.sort = self.model.sort.next(),
                    Some(Key::Help) => self.view.help = !self.view.help,
                    Some(Key::Redraw) => {}
                },
                Some(found) = looks.recv() => match found {
                    _ if self.view.frozen => {}
                    Ok(told) => self.take(told),
                    // What was seen stays on the screen, under the reason why it is old.
                    Err(trouble) => self.view.trouble = Some(format!("{trouble}; {}", trouble.help())),
                },
            }
        }
    }
}

/// The terminal, until it is dropped.
struct Screen(ratatui::DefaultTerminal);

impl Screen {
    fn open() -> anyhow::Result<Self> {
        let opened = ratatui::try_init();
        let opened = opened.inspect_err(|_| ratatui::restore());
        Ok(Self(opened.map_err(|error| {
            let help = "use `outboxd top --once`, or `outboxd status`";
            Trouble::new(Exit::Failed, format!("the terminal cannot be used: {error}"), help)
        })?))
    }

    fn draw(&mut self, model: &Model, view: &View) -> io::Result<()> {
        self.0.draw(|frame| view::draw(model, view, frame.area(), frame.buffer_mut()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What ends it from outside.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> io::Result<Self> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn recv(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
