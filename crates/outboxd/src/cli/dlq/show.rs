//! `dlq show`: one dead letter with all that is known of its death.

use super::args::{DlqShowArgs, Picked};
use super::list::finish;
use super::{Dead, Wanted, look, places};
use crate::cli::output::{Output, printable};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Looks at so many for one id; whoever has more knows what to do about it.
const MOST: u32 = 100_000;

/// Shows a letter; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &DlqShowArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let picked = Picked {
        source: args.source.clone(),
        kind: None,
        key: None,
        code: None,
        older_than: None,
        newer_than: None,
        most: MOST,
    };
    let wanted = Wanted::new(std::slice::from_ref(&args.id), &picked);
    let (places, mut troubles) = places(plan, args.source.as_deref()).await?;
    let (seen, unseen) = look(&places, &wanted).await;
    troubles.extend(unseen);
    let mut found = Vec::new();
    for (place, seen) in seen {
        for mut dead in seen.dead {
            place.complete(&mut dead).await?;
            found.push((place.name(), dead));
        }
    }
    if found.is_empty() && troubles.is_empty() {
        let help = "check the id; `outboxd show` looks everywhere else too";
        return Err(Trouble::new(Exit::Failed, format!("there is no dead letter '{}'", args.id), help).into());
    }
    if output.is_json() {
        let letters: Vec<_> = found.iter().map(|(_, dead)| dead.to_whole_json(args.payload)).collect();
        output.json(&serde_json::json!({ "letters": letters }))?;
    } else {
        for (place, dead) in &found {
            print(place, dead, args.payload, output)?;
        }
    }
    finish(troubles, output)
}

fn print(place: &str, dead: &Dead, with_payload: bool, output: &mut Output) -> std::io::Result<()> {
    let message = &dead.message;
    let mut field = |name: &str, value: &str| output.line(format_args!("{name:<14}{}", printable(value)));
    field("id", message.id.as_str())?;
    field("type", &message.kind)?;
    field("key", message.key.as_deref().unwrap_or("-"))?;
    field("source", &dead.source)?;
    field("lies in", place)?;
    field("origin", &dead.origin)?;
    field("cause", &dead.cause.as_ref().map_or("-".to_owned(), ToString::to_string))?;
    field("attempts", &dead.attempts.to_string())?;
    let times = [("first failed", dead.first_failed_at), ("given up", dead.failed_at)];
    for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
        field(name, &time.to_string())?;
    }
    field("occurred", &message.occurred_at.to_string())?;
    field("content type", &message.content_type)?;
    for (name, value) in &message.headers {
        field("header", &format!("{name}: {value}"))?;
    }
    let hint = if with_payload { "below" } else { "shown with --payload" };
    field("payload", &format!("{} bytes, {hint}", message.payload.len()))?;
    if with_payload {
        output.line("")?;
        output.payload(&message.payload)?;
        output.line("")?;
    }
    Ok(())
}
