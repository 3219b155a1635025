//! What is dead at any source, whether a queue keeps it, a topic, a log or a mapped table.

mod letter;
mod place;
mod sight;
mod wanted;

use serde::Serialize;
use utoipa::ToSchema;

pub use letter::{Dead, Letter, WholeLetter};
pub use outbox::letters::Act;
pub use place::{GLANCE, Place, Seen};
pub use sight::{Acted, Sight};
pub use wanted::{ActRequest, Picked, Wanted};

use super::told::Unseen;
use super::{Office, Tell};
use crate::trouble::{Exit, Trouble};

/// Looks at so many for one id; whoever has more knows what to do about it.
const MOST: u32 = 100_000;

/// Dead letters that match, oldest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetters)]
pub struct Letters {
    /// The letters.
    pub letters: Vec<Letter>,
    /// The sources that have more, which was not looked at.
    pub more: Vec<String>,
    /// What could not be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
}

/// One message, wherever it is dead.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ShownDeadLetters)]
pub struct Shown {
    /// Once for every place where it lies.
    pub letters: Vec<WholeLetter>,
    /// What could not be looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
}

/// Lists dead letters. A place that does not answer does not hide the others.
pub async fn list(office: &Office, wanted: Wanted) -> Result<Letters, Trouble> {
    let sight = Sight::look(office, wanted).await?;
    Ok(Letters {
        letters: sight.found().map(Dead::told).collect(),
        more: sight.more(),
        unseen: sight.unseen.iter().map(Unseen::from).collect(),
    })
}

/// Shows a message that is dead, at a source or at any.
pub async fn show(
    office: &Office,
    source: Option<&str>,
    id: &str,
    with_payload: bool,
) -> Result<Shown, Trouble> {
    let picked = Picked {
        source: source.map(str::to_owned),
        most: std::num::NonZeroU32::new(MOST),
        ..Picked::default()
    };
    let mut sight = Sight::look(office, Wanted::new(&[id.to_owned()], picked)).await?;
    sight.complete().await?;
    let unseen: Vec<Unseen> = sight.unseen.iter().map(Unseen::from).collect();
    if sight.matched() == 0 && unseen.is_empty() {
        let help = "check the id; `outboxd show` looks everywhere else too";
        return Err(Trouble::new(Exit::Failed, format!("there is no dead letter '{id}'"), help).unknown());
    }
    Ok(Shown { letters: sight.whole(with_payload), unseen })
}

/// Returns or discards dead letters; with `dry_run` only tells which, as far as somebody waits for it.
pub async fn act(
    office: &Office,
    act: Act,
    request: ActRequest,
    by: &str,
    tell: Tell<'_>,
) -> Result<Acted, Trouble> {
    let ActRequest { ids, picked, rate, dry_run, .. } = request;
    let wanted = Wanted::new(&ids, picked);
    // Whoever only looks sits before a page; the deed itself takes the time that it needs.
    let sight =
        if dry_run { Sight::look(office, wanted).await? } else { Sight::look_long(office, wanted).await? };
    let sight = sight.whole_or_nothing()?;
    if dry_run || sight.matched() == 0 {
        return Ok(sight.only_looked(act));
    }
    sight.act(office, act, by, rate, tell).await
}
