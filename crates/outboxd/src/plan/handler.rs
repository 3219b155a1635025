//! The rules of sinks that handle messages, as far as they can be told without asking anybody.

use std::collections::BTreeMap;

use super::{Checker, Known, Places, SinkPlan, Target};
use crate::backends;
use crate::config::TemplateConfig;
use crate::connection::Kind;
use crate::mistake::{At, Place};
use crate::options::{EndpointOptions, ErrorLogOptions, MailOptions, MeterOptions, StatementOptions};

/// What an error table must have a column for, lest something is lost when a person edits or sends back; and what.
const NEEDED_TO_RETURN: [(&str, &str); 7] = [
    ("type", "a message goes back without its type"),
    ("key", "it goes back without its key, and so without its order"),
    ("origin", "nobody knows where to send it back to"),
    ("original_payload", "an edit overwrites the first payload for good"),
    ("content_type", "it goes back as application/octet-stream"),
    ("headers", "it goes back without its headers, also that of its correlation"),
    ("first_seen", "many go back in no certain order"),
];

/// Whether all else can be looked at: what is wrong with a template is told by itself.
pub(super) fn are_templates(templates: &[TemplateConfig]) -> bool {
    templates.iter().all(|template| backends::check_template(&template.text).is_ok())
}

impl Checker<'_> {
    pub(super) fn endpoint(
        &self,
        whose: &str,
        options: &EndpointOptions,
        templates: &[TemplateConfig],
        place: Place,
        secret_place: Place,
    ) {
        let secrets = options.secrets.iter().map(|secret| backends::check_secret(secret.reveal()));
        if let Some(Err(rule)) = secrets.into_iter().find(Result::is_err) {
            let help = "write whsec_ and 24 to 64 bytes in base64, as `openssl rand -base64 32` makes them";
            self.mistakes.note(secret_place, format!("{whose}.secret: {rule}"), help);
        } else if are_templates(templates)
            && let Err(rule) = backends::check_endpoint(options)
        {
            // The URL is not repeated: it may hold a secret in any part.
            self.mistakes.note(place, format!("{whose}.http: {rule}"), "see the reference of [sinks.NAME]");
        }
    }

    pub(super) fn statements(&self, whose: &str, kind: Kind, options: &StatementOptions, place: Place) {
        let is_whole = !options.statements.iter().any(|statement| statement.trim().is_empty());
        if is_whole
            && !options.statements.is_empty()
            && let Err(rule) = backends::check_statements(kind, options)
        {
            let help = "values are :id, :type, :key, :time, :header.NAME, :payload and :payload.PATH; a ? behind one makes it NULL where it is missing";
            self.mistakes.note(place, format!("{whose}.sql: {rule}"), help);
        }
    }

    pub(super) fn mail(
        &self,
        whose: &str,
        options: &MailOptions,
        templates: &[TemplateConfig],
        place: Place,
    ) {
        let is_whole = !options.to.is_empty() && !options.from.is_empty();
        let has_text = options.text.is_some() || options.html.is_some();
        if is_whole
            && has_text
            && are_templates(templates)
            && let Err(rule) = backends::check_mail(options)
        {
            let help = "write an address as in shop@example.com or Shop <shop@example.com>";
            self.mistakes.note(place, format!("{whose}: {rule}"), help);
        }
    }

    pub(super) fn error_log(&self, whose: &str, options: &ErrorLogOptions, place: Place) {
        if let ErrorLogOptions::Mapped(mapped) = options
            && let Err(rule) = backends::check_error_table(mapped)
        {
            let help = "name the columns as the database has them, at least 'id', 'error' and 'payload'";
            self.mistakes.note(place, format!("{whose}.error_log: {rule}"), help);
            return;
        }
        self.lost_on_return(whose, options, place);
    }

    /// What an error table does not keep, `errors retry` cannot send back.
    fn lost_on_return(&self, whose: &str, options: &ErrorLogOptions, place: Place) {
        let ErrorLogOptions::Mapped(mapped) = options else { return };
        let lacks = |(field, _): &&(&str, &str)| mapped.columns.iter().all(|(known, _)| known != field);
        let lost: Vec<_> = NEEDED_TO_RETURN.iter().filter(lacks).collect();
        if lost.is_empty() {
            return;
        }
        let told: Vec<String> = lost.iter().map(|(field, lost)| format!("'{field}' ({lost})")).collect();
        let what = format!(
            "{whose}.error_log: table '{}' keeps less than `outboxd errors` needs; there is no column for {}",
            mapped.table,
            told.join(", ")
        );
        let names: Vec<String> = lost.iter().map(|(field, _)| format!("{field} = \"…\"")).collect();
        let help = format!(
            "map a column for each, adding it to the table where there is none: {}; or use our own table: error_log = true",
            names.join(", ")
        );
        self.mistakes.warn(place, what, help);
    }

    /// Figures of one name must be of one kind, whichever sink they are in: there is one endpoint.
    pub(super) fn figures(
        &self,
        whose: &str,
        meters: &[At<MeterOptions>],
        templates: &[TemplateConfig],
        sinks: &Known<SinkPlan>,
    ) {
        let elsewhere = sinks.values().flatten().filter_map(|sink| match &sink.target {
            Target::Metrics(meters) => Some(meters),
            _ => None,
        });
        let mut kinds: BTreeMap<&str, _> =
            elsewhere.flatten().map(|meter| (meter.name.as_str(), meter.kind)).collect();
        for At { value: meter, place } in meters {
            if are_templates(templates)
                && let Err(rule) = backends::check_meter(meter)
            {
                let help = "see the reference of [sinks.NAME.metrics[]]";
                self.mistakes.note(*place, format!("{whose}.metrics: {rule}"), help);
            }
            let kind = *kinds.entry(&meter.name).or_insert(meter.kind);
            if kind != meter.kind {
                let what = format!(
                    "{whose}.metrics: '{}' is a {} and a {}",
                    meter.name,
                    kind.as_str(),
                    meter.kind.as_str()
                );
                self.mistakes.note(*place, what, "give one of them another name");
            }
        }
    }

    /// What is counted and never shown helps nobody.
    pub(super) fn unread_figures(&self, sinks: &Known<SinkPlan>, listens: bool, places: &Places) {
        let counts = |sink: &&SinkPlan| matches!(sink.target, Target::Metrics(_));
        for sink in sinks.values().flatten().filter(counts).filter(|_| !listens) {
            let what = format!("sinks.{}: nobody can read its figures, because nothing listens", sink.name);
            let place = places.sinks.get(&sink.name).copied().unwrap_or_default();
            self.mistakes.warn(place, what, "add [http] with listen = \"127.0.0.1:8480\"");
        }
    }
}
