//! Requests by the thousand, made from the API's own document. Whatever comes: no fault of ours, JSON, a reason and the way
//! out with every refusal, and what is answered is what the document promises.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jsonschema::Validator;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::generate::{Asked, Generator};
use super::scene::{Answer, Api, TOKEN};

/// So many of each operation: some get through only now and then.
const EACH: usize = 300;

/// The choices of every run, unless `OUTBOX_SEED` says otherwise.
const SEED: u64 = 20_261_115;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_asked_is_answered_as_the_document_says() {
    let (api, ids) = Api::with_failures().await;
    api.program.make_folder("out");
    let document = api.get("/v1/openapi.json").await;
    let seed = std::env::var("OUTBOX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let mut made = Generator { document: &document, dice: StdRng::seed_from_u64(seed), ids };
    let operations: Vec<(&String, &String, &Value)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(move |(method, operation)| (path, method, operation))
        })
        .collect();
    let (mut promises, mut seen) = (BTreeMap::new(), BTreeMap::<String, [usize; 2]>::new());
    for number in 0..EACH * operations.len() {
        // One more that fails, in every round: what is there may all be discarded in one.
        if number % operations.len() == 0 {
            let fresh = json!({ "type": "order.created", "payload": "{}" });
            let sent = api.post("/v1/outboxes/orders/messages", &fresh).await;
            made.ids.push(sent["id"].as_str().unwrap().to_owned());
        }
        let (path, method, operation) = operations[number % operations.len()];
        let mut asked = made.request(path, method, operation);
        let is_right_method = !made.one_in(50);
        if !is_right_method {
            asked.method = ["PUT", "DELETE", "PATCH", "OPTIONS"][made.below(4)].to_owned();
        }
        let answer = ask(&api, &asked).await;
        let about = format!("request {number} with OUTBOX_SEED={seed}: {asked:?}\n{answer:#?}");
        let body: Value =
            serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error} {about}"));
        assert!(answer.status < 500, "{about}");
        let counts = seen.entry(format!("{method} {path}")).or_default();
        if answer.status >= 300 {
            let is_told = |name: &str| body[name].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_told("error") && is_told("help"), "{about}");
            counts[1] += 1;
            continue;
        }
        assert!(is_right_method, "{about}");
        let promise = match promises.entry((path, method)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(promise(&document, operation)),
        };
        let broken: Vec<String> = promise
            .iter_errors(&body)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(broken.is_empty(), "{broken:?} {about}");
        counts[0] += 1;
        if let Some(id) = body["id"].as_str().filter(|_| path.ends_with("/messages")) {
            made.ids.push(id.to_owned());
        }
    }
    // A fuzz that never gets through, or always, has tested little.
    for (operation, [right, wrong]) in &seen {
        // There is no broker to publish to; tests of publishers have one.
        let is_excused = operation == "post /v1/messages";
        assert!(*right >= 5 || is_excused, "{operation} was answered {right} times: {seen:?}");
        assert!(*wrong > 2, "{operation}: {right} answered, {wrong} refused of {seen:?}");
    }
}

async fn ask(api: &Api, asked: &Asked) -> Answer {
    let mut head = format!("{} {} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}", asked.method, asked.path);
    if asked.body.is_some() && !asked.content_type.is_empty() {
        head = format!("{head}\r\nContent-Type: {}", asked.content_type);
    }
    api.ask(&head, asked.body.as_deref().unwrap_or_default()).await
}

/// What the document promises for an answer with 200.
fn promise(document: &Value, operation: &Value) -> Validator {
    let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(!schema.is_null(), "{operation:#}");
    let whole = json!({ "allOf": [schema], "components": document["components"] });
    jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{error}: {whole:#}"))
}
