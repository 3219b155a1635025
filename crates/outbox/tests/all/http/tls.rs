//! Whom an endpoint trusts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbox::http::{Endpoint, EndpointConfig};
use outbox::{ErrorKind, Outcome, Sink};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testbed::Certificates;

use super::{detail, order, word};

/// A server behind TLS on a thread of its own; it tells how many requests it has read.
fn serve(certificates: &Certificates) -> (u16, Arc<AtomicUsize>) {
    let chain =
        CertificateDer::pem_file_iter(certificates.certificate()).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certificates.key()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let read = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let (mut request, mut some) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"\"n\":1}") {
                // A client that does not trust us breaks off.
                let Ok(bytes @ 1..) = stream.read(&mut some) else { break };
                request.extend_from_slice(&some[..bytes]);
            }
            if request.starts_with(b"POST ") {
                read.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (port, count)
}

async fn deliver(host: &str, port: u16, ca_file: Option<PathBuf>) -> Outcome {
    let mut config = EndpointConfig::new(format!("https://{host}:{port}/"));
    config.ca_file = ca_file;
    Endpoint::new(config).unwrap().deliver(&[order(1)]).await.remove(0)
}

#[tokio::test]
async fn d9_a_server_that_is_not_trusted_gets_nothing() {
    let Some(certificates) = testbed::available(Certificates::create()) else { return };
    let (port, count) = serve(&certificates);
    assert_eq!(deliver("localhost", port, Some(certificates.ca_file())).await, Outcome::Delivered);
    assert_eq!(deliver("127.0.0.1", port, Some(certificates.ca_file())).await, Outcome::Delivered);
    // Another authority, and another name than the certificate has.
    let Some(others) = testbed::available(Certificates::create()) else { return };
    for (host, ca_file) in
        [("localhost", Some(others.ca_file())), ("127.0.0.2", Some(certificates.ca_file()))]
    {
        let outcome = deliver(host, port, ca_file).await;
        assert_eq!(word(&outcome), "~UNREACHABLE");
        assert!(detail(&outcome).contains("certificate"), "{outcome:?}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_ca_file_that_cannot_be_used_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for (path, told) in
        [(empty, "holds no certificate"), (folder.path().join("missing.pem"), "cannot be read")]
    {
        let mut config = EndpointConfig::new("https://shop.example/");
        config.ca_file = Some(path);
        let error = Endpoint::new(config).map(drop).unwrap_err();
        assert!(error.kind() == ErrorKind::Config && error.to_string().contains(told), "{error}");
    }
}
