//! D9: e-mail, metrics, and an endpoint of an application.

use serde_json::{Value, json};

use super::producer::Ticket;
use super::{Scene, changed, somebody, stop};
use crate::endpoint::Endpoint;
use crate::program::Program;
use crate::web;

#[tokio::test(flavor = "multi_thread")]
async fn d9_an_event_is_a_letter_and_a_count() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let mut running = scene.program.start(&["run"]);
    let server = web::server(&mut running);
    let (ana, mut session) = (somebody("ana"), scene.session().await);
    let ticket = Ticket::new("Drucker brennt", &ana);
    ticket.create(&mut session).await.unwrap();
    ticket.change_status(&mut session, "closed").await.unwrap();
    Ticket::new("Printer", &somebody("ben")).create(&mut session).await.unwrap();
    let mails = scene.until_mails(&ana, 2).await;
    let letter = mails.iter().find(|mail| mail.content.contains("Subject: Drucker brennt: closed")).unwrap();
    assert_eq!(letter.from, "tickets@ticketflow.example");
    assert!(letter.content.contains("Drucker brennt is now closed."), "{}", letter.content);
    assert!(letter.content.contains(&ticket.id.to_string()), "{}", letter.content);
    scene.until_processed("count", 3).await;
    let (status, figures) = web::get(server, "/metrics").await;
    assert_eq!(status, 200);
    for line in
        [r#"tickets_total{type="ticket.created"} 2"#, r#"tickets_total{type="ticket.status.changed"} 1"#]
    {
        assert!(figures.lines().any(|figure| figure == line), "{line}: {figures}");
    }
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_an_application_of_any_language_gets_every_event_once() {
    let Some(scene) = Scene::of("application.toml", &[]).await else { return };
    let application = Endpoint::start().await;
    let mut command = scene.program.command(&["run"]);
    let mut consumers = Program::begin(command.env("APPLICATION_URL", &application.url));
    (0..2).for_each(|_| drop(consumers.wait_for("started pipe")));
    scene.until_queue("notifications", 0).await;
    scene.until_queue("metrics", 0).await;
    // The dispatcher may well be another process, with the other file.
    scene.program.write("dispatch.toml", &changed("outboxd.toml", &[]));
    let dispatcher = scene.program.start(&["run", "--config", "dispatch.toml", "--pipe", "dispatch"]);
    let mut session = scene.session().await;
    let ticket = Ticket::new("Printer", "nobody@ticketflow.example");
    let id = ticket.create(&mut session).await.unwrap().to_string();
    scene.until_processed("notify", 1).await;
    scene.until_processed("count", 1).await;
    // As a dispatcher would that died before it could mark the row.
    scene.execute(r#"update "Outbox" set "DispatchedAt" = null"#).await;
    scene.until_dispatched().await;
    ticket.assign(&mut session, "ana").await.unwrap();
    scene.until_processed("notify", 2).await;
    stop(dispatcher);
    stop(consumers);
    scene.until_queue("notifications", 0).await;
    let posted = application.posted();
    let bodies: Vec<Value> = posted.iter().map(|one| serde_json::from_str(&one.body).unwrap()).collect();
    assert_eq!(bodies.len(), 2, "{posted:?}");
    assert_eq!((&bodies[0]["status"], &bodies[1]["status"]), (&json!("open"), &json!("assigned")));
    let header = |name: &str| posted[0].headers[name].to_str().unwrap();
    assert_eq!((header("ce-id"), header("idempotency-key")), (&*id, &*id));
    assert_eq!((header("ce-type"), header("x-correlation-id")), ("ticket.created", &*ticket.correlation));
}
