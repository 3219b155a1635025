//! Which sources are meant. Pure.

use crate::mistake::did_you_mean;
use crate::options::SourceOptions;
use crate::plan::{Layout, Plan, SourcePlan};
use crate::trouble::{Exit, Trouble};

/// What is said of a source that is no outbox.
fn not_an_outbox(source: &SourcePlan) -> Trouble {
    let what = format!("source '{}' is on a broker, and this is about outboxes in databases", source.name);
    Trouble::usage(what, "the broker's own tools tell what is in it; choose another source")
}

/// The sources that are meant: the named one, or all.
pub fn choose<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<&'p SourcePlan>, Trouble> {
    if plan.sources.is_empty() {
        let help = "add one: [sources.NAME] with on = \"connection\"";
        return Err(Trouble::new(Exit::Config, "there is no source in the configuration", help));
    }
    let Some(name) = name else { return Ok(plan.sources.values().collect()) };
    match plan.sources.get(name) {
        Some(source) => Ok(vec![source]),
        None => {
            let help = did_you_mean(name, plan.sources.keys().map(String::as_str));
            let what = format!("there is no source '{name}' in the configuration");
            Err(Trouble::usage(what, help).unknown())
        }
    }
}

/// The outboxes that are meant: the named one, or all. What is on a broker is none.
pub fn choose_outboxes<'p>(plan: &'p Plan, name: Option<&str>) -> Result<Vec<&'p SourcePlan>, Trouble> {
    let (on_brokers, outboxes): (Vec<_>, Vec<_>) =
        choose(plan, name)?.into_iter().partition(|source| source.is_on_broker());
    match on_brokers.first() {
        Some(source) if outboxes.is_empty() => Err(not_an_outbox(source)),
        _ => Ok(outboxes),
    }
}

/// The one outbox that is meant.
pub fn choose_one<'p>(plan: &'p Plan, name: Option<&str>) -> Result<&'p SourcePlan, Trouble> {
    match choose_outboxes(plan, name)?[..] {
        [source] => Ok(source),
        ref several => {
            let names = several.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
            Err(Trouble::usage("there are several sources", format!("name one of them: {names}")))
        }
    }
}

/// The options of a log; `why` says what a mapped table lacks for what is asked.
pub fn log_options<'p>(source: &'p SourcePlan, why: &str, help: &str) -> Result<&'p SourceOptions, Trouble> {
    match &source.layout {
        Layout::Log(options) => Ok(options),
        Layout::Table(_) => {
            let what = format!("source '{}' is a mapped table: {why}", source.name);
            Err(Trouble::usage(what, help))
        }
        Layout::Queue(_) | Layout::Topic(_) => Err(not_an_outbox(source)),
    }
}
