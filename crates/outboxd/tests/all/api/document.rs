//! The document of the API, held against the reference.

use std::collections::BTreeSet;

use super::scene::Api;

const REFERENCE: &str = include_str!("../../../../../docs/reference/api.md");

#[tokio::test(flavor = "multi_thread")]
async fn the_document_and_the_reference_list_every_route() {
    let (api, _) = Api::with_dead().await;
    let document = api.get("/v1/openapi.json").await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3."), "{document:#}");
    let mut listed = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let what = operation["summary"].as_str().or(operation["description"].as_str());
            assert!(what.is_some_and(|what| !what.is_empty()), "{method} {path} is not explained");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let about = parameter["description"].as_str().unwrap_or_default();
                assert!(!about.is_empty(), "{method} {path}: {parameter} is not explained");
            }
            listed.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let rows = REFERENCE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let routes = rows.map(|(route, _)| route.split('?').next().unwrap().to_owned());
    let routes: BTreeSet<String> = routes.filter(|route| route.contains(" /v1/")).collect();
    assert_eq!(routes, listed);
}
