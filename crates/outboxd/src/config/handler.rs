//! Sinks that handle messages: an endpoint, statements, e-mail, figures, a table of errors.

use std::time::Duration;

use outbox::errors::FIELDS;
use outbox::meter::MeterKind;

use super::inbox::{self, InboxConfig, Own};
use super::sink::{TargetConfig, TemplateConfig, read_templates};
use super::{millis, minutes};
use crate::mistake::At;
use crate::options::{
    EndpointOptions, ErrorLogOptions, ErrorTableOptions, MailOptions, MeterOptions, StatementOptions,
};
use crate::reader::Section;
use crate::secret::Secret;

pub(super) const ENDPOINT_KEYS: [&str; 8] =
    ["http", "secret", "secret_file", "timeout", "private", "plaintext", "ca_file", "headers"];
pub(super) const SQL_KEYS: [&str; 2] = ["sql", "timeout"];
/// Keys that tell that a sink is for e-mail.
pub(super) const MAIL_KEYS: [&str; 7] = ["from", "to", "subject", "text", "text_file", "html", "html_file"];
pub(super) const MAIL_FURTHER_KEYS: [&str; 4] = ["cc", "reply_to", "timeout", "ca_file"];
pub(super) const METRICS_KEYS: [&str; 1] = ["metrics"];
pub(super) const ERROR_LOG_KEYS: [&str; 1] = ["error_log"];

type Read = (Option<TargetConfig>, Option<InboxConfig>);

fn read_timeout(section: &Section<'_>, into: &mut Duration) {
    section.duration("timeout", millis(100)..=minutes(10), into);
}

pub(super) fn read_endpoint(section: &Section<'_>, templates: &mut Vec<TemplateConfig>) -> Read {
    let url = section.text("http");
    let mut options = EndpointOptions::new(url.as_ref().map_or("", |url| url.value.as_str()));
    let mut secrets = section.one_or_more("secret");
    let mut secret_key = "secret";
    if section.has("secret_file") {
        if section.has("secret") {
            section.note("secret_file", "stands beside 'secret'", "keep one of the two");
        }
        secrets = section.secret_files("secret_file");
        secret_key = "secret_file";
    }
    options.secrets = secrets.into_iter().map(|secret| Secret::new(secret.value)).collect();
    read_timeout(section, &mut options.timeout);
    section.flag("private", &mut options.private);
    section.flag("plaintext", &mut options.plaintext);
    options.ca_file = section.path("ca_file").map(|path| path.value);
    options.headers = read_templates(section, "headers", templates);
    let inbox = inbox::read(section, Own::No);
    let secret_place = section.place_of(secret_key);
    let target =
        url.map(|url| TargetConfig::Http { options: Box::new(options), place: url.place, secret_place });
    (target, inbox)
}

pub(super) fn read_sql(section: &Section<'_>) -> Read {
    let mut options = StatementOptions::default();
    let on = section.required("on", "name the connection to a database: on = \"…\"");
    options.statements = section.one_or_more("sql").into_iter().map(|text| text.value).collect();
    if options.statements.iter().any(|statement| statement.trim().is_empty()) {
        section.note("sql", "has an empty statement", "remove it");
    }
    read_timeout(section, &mut options.timeout);
    let inbox = inbox::read(section, Own::Yes);
    let place = section.place_of("sql");
    (on.map(|on| TargetConfig::Sql { on, options, place }), inbox)
}

pub(super) fn read_mail(section: &Section<'_>, templates: &mut Vec<TemplateConfig>) -> Read {
    let mut options = MailOptions::default();
    let on = section.required("on", "name the connection to a mail server: on = \"…\"");
    let mut take = |key: &'static str, text: Option<At<String>>| {
        text.map(|text| {
            templates.push(TemplateConfig::new(key, &text));
            text.value
        })
    };
    let from = section.required("from", "say who sends it: from = \"Shop <shop@example.com>\"");
    let subject = section.required("subject", "say what it is about: subject = \"Order {key}\"");
    options.from = take("from", from).unwrap_or_default();
    options.subject = take("subject", subject).unwrap_or_default();
    if !section.is_set("to") {
        section.note_missing(&["to"], "say who gets it: to = \"{payload.email}\"");
    }
    for (key, into) in [("to", &mut options.to), ("cc", &mut options.cc)] {
        into.extend(section.one_or_more(key).into_iter().filter_map(|text| take(key, Some(text))));
    }
    options.reply_to = take("reply_to", section.text("reply_to"));
    options.text = take("text", read_body(section, "text", "text_file"));
    options.html = take("html", read_body(section, "html", "html_file"));
    if !["text", "text_file", "html", "html_file"].into_iter().any(|key| section.is_set(key)) {
        section.note_missing(&["text", "html"], "write the text: text = \"…\", or text_file = \"path\"");
    }
    read_timeout(section, &mut options.timeout);
    options.ca_file = section.path("ca_file").map(|path| path.value);
    let inbox = inbox::read(section, Own::No);
    (on.map(|on| TargetConfig::Mail { on, options: Box::new(options) }), inbox)
}

fn read_body(section: &Section<'_>, key: &'static str, file: &'static str) -> Option<At<String>> {
    let text = section.text(key);
    if !section.has(file) {
        return text;
    }
    if section.has(key) {
        section.note(file, format!("stands beside '{key}'"), "keep one of the two");
        return text;
    }
    section.file(file)
}

pub(super) fn read_metrics(section: &Section<'_>, templates: &mut Vec<TemplateConfig>) -> Read {
    let mut meters: Vec<At<MeterOptions>> = Vec::new();
    for table in section.tables("metrics") {
        let place = table.place();
        meters.extend(read_meter(table, meters.len(), templates).map(|meter| At::new(meter, place)));
    }
    (Some(TargetConfig::Metrics { meters }), inbox::read(section, Own::No))
}

fn read_meter(
    section: Section<'_>,
    index: usize,
    templates: &mut Vec<TemplateConfig>,
) -> Option<MeterOptions> {
    let mut found = Vec::new();
    let key = |name: &str| format!("metrics[{index}].{name}");
    let kinds: Vec<_> = MeterKind::WORDS.into_iter().filter(|(word, _)| section.has(word)).collect();
    if let [(first, _), (second, _), ..] = kinds[..] {
        section.note(second, format!("stands beside '{first}'"), "make two entries of it");
    }
    let (word, kind) = kinds.first().copied().unwrap_or(("counter", MeterKind::Counter));
    let name = section.text(word);
    if kinds.is_empty() {
        let help = "name it: { counter = \"orders_total\" }";
        section.note_missing(&MeterKind::WORDS.map(|(word, _)| word), help);
    }
    let value = section.text("value");
    if let Some(value) = &value {
        found.push(TemplateConfig::new(key("value"), value));
    }
    let buckets = section.numbers("buckets");
    if section.has("buckets") && kind != MeterKind::Histogram {
        section.note("buckets", format!("a {} has none", kind.as_str()), "remove it, or make it a histogram");
    } else if !buckets.is_sorted_by(|one, next| one < next) {
        section.note("buckets", "must rise", "write the upper bounds, the smallest first");
    }
    let help = section.text("help").map(|help| help.value).unwrap_or_default();
    let labels = read_templates(&section, "labels", &mut found);
    for template in found.iter_mut().filter(|template| template.key.starts_with("labels.")) {
        template.key = key(&template.key);
    }
    templates.extend(found);
    let types: Vec<String> = section.one_or_more("types").into_iter().map(|name| name.value).collect();
    check_types(&section, &types);
    section.finish(&[]);
    let value = value.map(|value| value.value);
    Some(MeterOptions { kind, name: name?.value, help, value, buckets, labels, types })
}

/// A type that two patterns take would count twice.
fn check_types(section: &Section<'_>, types: &[String]) {
    for (at, one) in types.iter().enumerate() {
        let begins = |pattern: &str| pattern.strip_suffix('*').is_some_and(|start| one.starts_with(start));
        let mut others = types.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
        let again = |other: &&String| begins(other) || (*other == one && types[..at].contains(one));
        if let Some(other) = others.find(again) {
            section.note("types", format!("'{one}' is in '{other}' already"), "remove one of the two");
            return;
        }
    }
}

pub(super) fn read_error_log(section: &Section<'_>) -> Option<TargetConfig> {
    let on = section.required("on", "name the connection to a database: on = \"…\"");
    let place = section.place_of("error_log");
    let options = if section.is_table("error_log") {
        let mapped = section.section("error_log")?;
        let table = mapped.required("table", "name the table: { table = \"…\", … }");
        let schema = mapped.text("schema").map(|schema| schema.value);
        let column = |key: &'static str| Some((key, mapped.text(key)?.value));
        let columns = FIELDS.into_iter().filter_map(column).collect();
        mapped.finish(&[]);
        ErrorLogOptions::Mapped(Box::new(ErrorTableOptions { schema, table: table?.value, columns }))
    } else {
        let mut ours = true;
        section.flag("error_log", &mut ours);
        if !ours {
            section.note("error_log", "says that this is no sink", "write error_log = true, or map a table");
        }
        ErrorLogOptions::Ours
    };
    on.map(|on| TargetConfig::ErrorLog { on, options, place })
}
