//! A look at a handler and at its inbox. Nothing is handled: no request, no letter, no statement.

use outbox::Finding;
use outbox::errors::ErrorFilter;
use outbox::http::Endpoint;
use outbox::smtp::Mailer;

use crate::backends::{self, Database, Databases};
use crate::connection::Connection;
use crate::options::{EndpointOptions, ErrorLogOptions, MailOptions, StatementOptions};
use crate::plan::InboxPlan;

/// Whether somebody listens at an endpoint.
pub async fn endpoint(options: &EndpointOptions) -> Finding {
    let checked = async { Endpoint::new(backends::endpoint_config(options)?)?.check().await };
    match checked.await {
        Ok(()) => Finding::ok("endpoint", "somebody listens; nothing was posted"),
        Err(error) => Finding::error("endpoint", &error),
    }
}

/// Whether a mail server lets us in.
pub async fn mail(connection: &Connection, options: &MailOptions) -> Finding {
    let checked = async {
        let config = backends::mail_config(options, connection.plaintext)?;
        Mailer::new(connection.url.reveal(), config)?.check().await
    };
    match checked.await {
        Ok(()) => Finding::ok("mail server", format!("{} lets us in; nothing was sent", connection.url)),
        Err(error) => Finding::error("mail server", &error),
    }
}

/// Whether a database can be reached, and can make sense of the statements.
pub async fn sql(connection: &Connection, options: &StatementOptions) -> Vec<Finding> {
    let database = match Database::open(connection).await {
        Ok(database) => database,
        Err(error) => return vec![Finding::error("connection", &error)],
    };
    let mut findings = vec![Finding::ok("connection", format!("connected to {}", connection.url))];
    match backends::statements(connection.kind, options) {
        Ok(statements) => findings.extend(database.examine(&statements).await),
        Err(error) => findings.push(Finding::error("statement", &error)),
    }
    findings
}

/// Whether a table of errors is there and can be read.
pub async fn error_log(connection: &Connection, options: &ErrorLogOptions) -> Finding {
    let checked = async {
        let log = Databases::default().error_log(connection, options).await?;
        log.list(&ErrorFilter { limit: 1, ..ErrorFilter::default() }).await
    };
    match checked.await {
        Ok(_) => Finding::ok("error log", format!("in {connection}: there, and can be read")),
        Err(error) => Finding::error("error log", &error),
    }
}

/// Whether the clock of a database is that of this machine. One that cannot be reached was told.
pub async fn clock(connection: &Connection) -> Option<Finding> {
    Database::open(connection).await.ok()?.clock().await
}

/// Whether an inbox is there and can be asked.
pub async fn inbox(plan: &InboxPlan) -> Finding {
    let place = match &plan.table {
        None => format!("in {}", plan.connection),
        Some(table) => format!("table '{}' in {}", table.table, plan.connection),
    };
    let checked = async { Databases::default().inbox(plan).await?.check().await };
    match checked.await {
        Ok(()) => Finding::ok("inbox", format!("{place}: there, and can be asked")),
        Err(error) => Finding::error("inbox", &error),
    }
}
