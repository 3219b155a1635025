//! A collector of OpenTelemetry: takes requests down, reads the spans in them, and answers as it is told.
//!
//! It reads the wire format by itself, field by field, so that what is tested is what another program would find.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};

use crate::program::PATIENCE;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Exported {
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A span as another program would read it.
#[derive(Debug, Clone, Default)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub state: String,
    pub parent: String,
    pub name: String,
    /// 4 is a producer, 5 a consumer.
    pub kind: u64,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    /// Trace and span of each.
    pub links: Vec<(String, String)>,
    /// 2 is an error.
    pub status: u64,
    pub words: String,
    pub resource: BTreeMap<String, String>,
}

impl Span {
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// A server of this test alone.
pub struct Collector {
    pub url: String,
    exported: Arc<Mutex<Vec<Exported>>>,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Desk {
    exported: Arc<Mutex<Vec<Exported>>>,
    answer: StatusCode,
}

impl Collector {
    pub async fn start() -> Self {
        Self::answering(200).await
    }

    /// Answers every request so.
    pub async fn answering(answer: u16) -> Self {
        let exported = Arc::new(Mutex::new(Vec::new()));
        let desk = Desk { exported: exported.clone(), answer: StatusCode::from_u16(answer).unwrap() };
        let router = Router::new().fallback(take).with_state(desk);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, exported, server }
    }

    pub fn exported(&self) -> Vec<Exported> {
        self.exported.lock().unwrap().clone()
    }

    /// Every span that has come.
    pub fn spans(&self) -> Vec<Span> {
        self.exported().iter().flat_map(|request| spans(&request.body)).collect()
    }

    /// Waits until so many requests have come.
    pub async fn wait_for(&self, count: usize) -> Vec<Exported> {
        let give_up_at = Instant::now() + PATIENCE;
        loop {
            let exported = self.exported();
            if exported.len() >= count {
                return exported;
            }
            assert!(Instant::now() < give_up_at, "{count} requests never came: {exported:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(desk): State<Desk>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    desk.exported.lock().unwrap().push(Exported { uri: uri.to_string(), headers, body });
    desk.answer
}

/// A field of a message of protocol buffers.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl<'b> Field<'b> {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(bytes) => panic!("not a number: {bytes:?}"),
        }
    }

    fn bytes(&self) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("not bytes: {number}"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn hex(&self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let mut take = |length: usize| {
            let (taken, rest) = bytes.split_at(length);
            bytes = rest;
            taken
        };
        let field = match tag & 7 {
            1 => Field::Number(u64::from_le_bytes(take(8).try_into().unwrap())),
            5 => Field::Number(u32::from_le_bytes(take(4).try_into().unwrap()).into()),
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(taken)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

/// The messages in a field of a message.
fn within(bytes: &[u8], wanted: u64) -> Vec<&[u8]> {
    let fields = fields(bytes).into_iter().filter(|(number, _)| *number == wanted);
    fields.map(|(_, field)| field.bytes()).collect()
}

fn spans(request: &[u8]) -> Vec<Span> {
    let mut all = Vec::new();
    for of_resource in within(request, 1) {
        let resource: BTreeMap<_, _> =
            within(of_resource, 1).into_iter().flat_map(|resource| within(resource, 1)).map(pair).collect();
        for scope in within(of_resource, 2) {
            all.extend(
                within(scope, 2).into_iter().map(|bytes| Span { resource: resource.clone(), ..span(bytes) }),
            );
        }
    }
    all
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span::default();
    for (number, field) in fields(bytes) {
        match number {
            1 => span.trace = field.hex(),
            2 => span.id = field.hex(),
            3 => span.state = field.text(),
            4 => span.parent = field.hex(),
            5 => span.name = field.text(),
            6 => span.kind = field.number(),
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            9 => span.attributes.extend([pair(field.bytes())]),
            13 => {
                let [trace, id] = [1, 2].map(|part| Field::Bytes(within(field.bytes(), part)[0]).hex());
                span.links.push((trace, id));
            }
            15 => {
                for (number, field) in fields(field.bytes()) {
                    match number {
                        2 => span.words = field.text(),
                        3 => span.status = field.number(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    span
}

/// A name and a value, which is a text or a number here.
fn pair(bytes: &[u8]) -> (String, String) {
    let (mut name, mut value) = (String::new(), String::new());
    for (number, field) in fields(bytes) {
        match number {
            1 => name = field.text(),
            2 => {
                value = fields(field.bytes()).first().map_or(String::new(), |(kind, field)| match kind {
                    1 => field.text(),
                    _ => field.number().to_string(),
                });
            }
            _ => {}
        }
    }
    (name, value)
}
