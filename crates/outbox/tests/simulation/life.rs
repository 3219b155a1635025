//! One life: messages are written while relays come, fail, freeze and go; then all is calm, and must come to an end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::ledger::Violation;
use crate::lie::Lie;
use crate::relay::Relay;
use crate::world::{Mood, World};

/// What became of a life.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) violation: Option<Violation>,
    /// What happened, line by line, if that was asked for.
    pub(crate) story: Vec<String>,
}

/// How long the calm may take, on the life's own clock. The longest wait of any script is some seconds.
const CALM: Duration = Duration::from_secs(600);

/// Lives the life of a seed.
pub(crate) fn live(seed: u64, lie: Lie, tell: bool) -> End {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without network").block_on(async {
        let world = World::new(seed, lie, tell);
        let script = world.script.clone();
        world.lock().ledger.note(|| format!("{script:?}"));
        go(&world).await;
        let mut state = world.lock();
        End { violation: state.ledger.violation(), story: state.ledger.take_story() }
    })
}

async fn go(world: &Arc<World>) {
    let mut relays: Vec<Relay> = (0..world.script.relays).map(|_| Relay::start(world)).collect();
    for _ in 0..world.script.turns {
        turn(world, &mut relays).await;
        replace_ended(world, &mut relays).await;
        if is_violated(world) {
            return;
        }
    }
    {
        let mut state = world.lock();
        (state.calm, state.mood) = (true, Mood::Up);
        state.ledger.note(|| "calm".to_owned());
    }
    let end = Instant::now() + CALM;
    while !is_violated(world) && !world.lock().ledger.unresolved().is_empty() && Instant::now() < end {
        replace_ended(world, &mut relays).await;
        let _ = timeout(Duration::from_secs(1), world.settled.notified()).await;
    }
    for relay in relays {
        relay.stop().await;
    }
    if !is_violated(world) {
        world.lock().ledger.close();
    }
}

fn is_violated(world: &World) -> bool {
    world.lock().ledger.violation().is_some()
}

/// Whoever ended by an error that only a person can mend is started again, as a person would.
async fn replace_ended(world: &Arc<World>, relays: &mut [Relay]) {
    for relay in relays {
        if relay.has_ended() {
            let ended = std::mem::replace(relay, Relay::start(world));
            ended.end(Instant::now()).await;
        }
    }
}

/// Something happens.
async fn turn(world: &Arc<World>, relays: &mut [Relay]) {
    let (pause, event, count, which, time) = {
        let dice = &mut world.lock().dice;
        let time = dice.millis(10, 5_000);
        (
            dice.millis(0, 150),
            dice.between(0, 19),
            dice.between(1, 6),
            dice.between(0, relays.len() - 1),
            time,
        )
    };
    sleep(pause).await;
    let relay = &mut relays[which];
    match event {
        0..=10 => world.write(count),
        11 | 12 => std::mem::replace(relay, Relay::start(world)).kill().await,
        13 => std::mem::replace(relay, Relay::start(world)).stop().await,
        14 | 15 => relay.freeze(time),
        16 => world.expire(),
        _ => {
            let mut state = world.lock();
            state.mood = state.dice.pick(&[Mood::Up, Mood::Up, Mood::Away, Mood::Refusing]);
            let mood = state.mood;
            state.ledger.note(|| format!("the sink is {mood:?}"));
        }
    }
}
