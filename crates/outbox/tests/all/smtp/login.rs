//! TLS and the login.

use outbox::smtp::Mailer;
use outbox::{ErrorKind, Outcome, Sink};
use testbed::{Certificates, Smtp};

use super::{config, only, order, somebody, word};

/// What stands for user and password in a URL.
fn login(password: &str) -> String {
    let encode = |text: &str| text.replace('@', "%40").replace(':', "%3A").replace('/', "%2F");
    format!("{}:{}", encode(Smtp::USER), encode(password))
}

#[tokio::test]
async fn d9_letters_go_over_tls_with_a_login() {
    let Some(smtp) = testbed::smtp().await else { return };
    for (scheme, port) in [("smtps", smtp.implicit_port()), ("smtp", smtp.starttls_port())] {
        let to = somebody();
        let mut config = config();
        config.ca_file = Some(smtp.ca_file());
        let sink =
            Mailer::new(&format!("{scheme}://{}@localhost:{port}", login(Smtp::PASSWORD)), config).unwrap();
        sink.check().await.unwrap();
        assert_eq!(sink.deliver(&[order(1, &to)]).await, [Outcome::Delivered], "{scheme}");
        assert_eq!(only(smtp, &to).user.as_deref(), Some(Smtp::USER));
        assert!(scheme == "smtps" || only(smtp, &to).is_tls);
    }
}

#[tokio::test]
async fn d9_a_login_that_is_refused_or_missing_is_no_letters_fault() {
    let Some(smtp) = testbed::smtp().await else { return };
    let to = somebody();
    for user in [format!("{}@", login("canary")), String::new()] {
        let mut config = config();
        config.ca_file = Some(smtp.ca_file());
        let url = format!("smtp://{user}localhost:{}", smtp.starttls_port());
        let sink = Mailer::new(&url, config).unwrap();
        let outcome = &sink.deliver(&[order(1, &to)]).await[0];
        assert_eq!(word(outcome), "~FORBIDDEN");
        let shown = format!("{outcome:?} {sink:?}");
        assert!(!shown.contains("canary") && !shown.contains(Smtp::USER), "{shown}");
        if !user.is_empty() {
            assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Denied);
        }
    }
    assert!(smtp.mails(&to).unwrap().is_empty());
}

#[tokio::test]
async fn d9_a_server_that_is_not_trusted_or_has_no_tls_gets_no_letter() {
    let Some(smtp) = testbed::smtp().await else { return };
    let others = Certificates::create().unwrap();
    let to = somebody();
    for (scheme, port, ca_file) in [
        ("smtps", smtp.implicit_port(), others.ca_file()),
        ("smtp", smtp.starttls_port(), others.ca_file()),
        // It offers no STARTTLS.
        ("smtp", smtp.open_port(), smtp.ca_file()),
    ] {
        let mut config = config();
        config.ca_file = Some(ca_file);
        let sink = Mailer::new(&format!("{scheme}://{}@localhost:{port}", login("canary")), config).unwrap();
        let outcome = &sink.deliver(&[order(1, &to)]).await[0];
        assert_eq!(word(outcome), "~UNREACHABLE", "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("canary"));
    }
    assert!(smtp.mails(&to).unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_work_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for (path, told) in
        [(empty, "holds no certificate"), (folder.path().join("missing.pem"), "cannot be read")]
    {
        let mut config = config();
        config.ca_file = Some(path);
        let error = Mailer::new("smtps://mail.example", config).map(drop).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(told), "{error}");
    }
    assert!(Mailer::new("smtp://", config()).is_err());
}
