//! `dlq retry` and `dlq discard`: what is meant is told first, then asked, then done.

use outbox::MessageId;

use super::args::DlqActArgs;
use super::list::tell_more;
use crate::cli::consent::{Answer, ask, messages};
use crate::cli::output::{Output, printable};
use crate::cli::progress::bar;
use crate::ops::Office;
use crate::ops::dead::{Act, Acted, Sight, Wanted};
use crate::ops::told::Preview;
use crate::trouble::{Exit, Trouble};

/// So many ids are named before somebody says yes.
const SAMPLE: usize = 5;

/// Returns or discards.
pub async fn act(args: &DlqActArgs, act: Act, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let wanted = Wanted::new(&args.ids, args.picked.request());
    let sight = Sight::look(office, wanted).await?.whole_or_nothing()?;
    let meant = sight.only_looked(act);
    preview(&meant.causes, &meant.ids, output);
    tell_more(&meant.more, output);
    let verb = if act == Act::Return { "retry" } else { "discard" };
    let deed = format!("{verb} {}", messages(meant.matched));
    let answer = ask(&deed, meant.matched, args.consent, output)?;
    let acted = match answer {
        Answer::Yes => {
            let progress = bar(meant.matched);
            let tell = |done| progress.set_position(done);
            let acted = sight.act(office, act, &args.by.name(), args.rate, &tell).await;
            progress.finish_and_clear();
            acted?
        }
        Answer::No => meant,
    };
    for id in &acted.gone {
        output.note(printable(&format!("'{id}' is not there any more")));
    }
    if output.is_json() {
        output.json(&acted)?;
    } else if answer == Answer::Yes {
        let past = if act == Act::Return { "sent back" } else { "removed" };
        output.line(format_args!("{} {past}", messages(acted.changed)))?;
    } else {
        output.line(format_args!("{} matched", messages(acted.matched)))?;
    }
    told_missing(&acted)
}

/// What was asked for by name and is not there, as the end of the verb.
fn told_missing(acted: &Acted) -> anyhow::Result<Exit> {
    let Some(first) = acted.missing.first() else { return Ok(Exit::Ok) };
    let others = acted.missing.len() - 1;
    let others = if others > 0 { format!(", nor {others} others") } else { String::new() };
    let what = format!("there is no dead letter '{first}'{others}");
    Err(Trouble::new(Exit::Failed, what, "check the id; somebody else may have dealt with it").into())
}

/// What is meant, by type and cause, and the first of them.
fn preview(causes: &[Preview], ids: &[MessageId], output: &Output) {
    for cause in causes {
        output.note(printable(&cause.to_string()));
    }
    for id in ids.iter().take(SAMPLE) {
        output.note(printable(&format!("  {id}")));
    }
    if ids.len() > SAMPLE {
        output.note(format_args!("  and {} more", ids.len() - SAMPLE));
    }
}
