//! Requests made from the schemas of the document: right ones, and such as somebody might send by mistake or by malice.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Map, Value, json};

use super::scene::encoded;

/// Makes values and requests.
pub struct Generator<'d> {
    pub document: &'d Value,
    pub dice: StdRng,
    /// Ids of messages that are there.
    pub ids: Vec<String>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    pub content_type: &'static str,
    pub body: Option<Vec<u8>>,
}

impl Generator<'_> {
    /// One request to an operation of the document.
    pub fn request(&mut self, path: &str, method: &str, operation: &Value) -> Asked {
        let (mut address, mut query) = (path.to_owned(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            if parameter["in"] == "path" {
                let segment = self.segment(name);
                address = address.replace(&format!("{{{name}}}"), &segment);
            } else if self.one_in(2) {
                let value = self.value(name, &parameter["schema"]);
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                query.push(format!("{name}={}", encoded(&text)));
            }
        }
        if self.one_in(20) {
            let extra = self.odd_text();
            query.push(format!("{}={}", encoded(&extra), encoded(&extra)));
        }
        if !query.is_empty() {
            address = format!("{address}?{}", query.join("&"));
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = (!schema.is_null()).then(|| self.body(schema));
        let content_type = if self.one_in(40) {
            ["text/plain", "", "application/xml"][self.below(3)]
        } else {
            "application/json"
        };
        Asked { method: method.to_uppercase(), path: address, content_type, body }
    }

    fn body(&mut self, schema: &Value) -> Vec<u8> {
        let mut value = self.value("", schema);
        if self.one_in(3) {
            self.spoil(&mut value);
        }
        let mut bytes = value.to_string().into_bytes();
        if self.one_in(30) {
            let end = self.below(bytes.len() + 1);
            bytes.truncate(end);
        }
        bytes
    }

    /// Makes something wrong with a value: a type, a field too many or too few, a number at the edge.
    fn spoil(&mut self, value: &mut Value) {
        let odd = self.any();
        let name = self.odd_text();
        match value {
            Value::Object(members) if !members.is_empty() && !self.one_in(10) => {
                let names: Vec<String> = members.keys().cloned().collect();
                let chosen = names.choose(&mut self.dice).unwrap().clone();
                match self.below(4) {
                    0 => drop(members.insert(name, odd)),
                    1 => drop(members.remove(&chosen)),
                    2 => drop(members.insert(chosen, odd)),
                    _ => self.spoil(&mut members[&chosen]),
                }
            }
            Value::Array(items) if !items.is_empty() => {
                let place = self.below(items.len());
                self.spoil(&mut items[place]);
            }
            other => *other = odd,
        }
    }

    /// A value that the schema allows, or nearly so.
    pub fn value(&mut self, name: &str, schema: &Value) -> Value {
        let schema = &resolved(self.document, schema);
        for word in ["oneOf", "anyOf"] {
            if let Some(ways) = schema[word].as_array() {
                let way = ways[self.below(ways.len())].clone();
                return self.value(name, &way);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in parts {
                if let Value::Object(members) = self.value(name, part) {
                    whole.extend(members);
                }
            }
            return Value::Object(whole);
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => return self.any(),
        };
        match kinds[self.below(kinds.len())] {
            "object" => self.object(schema),
            "array" => {
                let count = self.below(4);
                (0..count).map(|_| self.value(name, &schema["items"])).collect()
            }
            "string" => json!(self.text(name, schema)),
            "boolean" => json!(self.one_in(2)),
            "null" => Value::Null,
            _ => self.number(),
        }
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut made = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&name.as_str()) || self.one_in(2) {
                made.insert(name.clone(), self.value(name, member));
            }
        }
        if schema["additionalProperties"].is_object() {
            for _ in 0..self.below(3) {
                made.insert(self.odd_text(), self.value("", &schema["additionalProperties"]));
            }
        }
        Value::Object(made)
    }

    /// Text that leads somewhere, by the name of its field; now and then something odd.
    fn text(&mut self, name: &str, schema: &Value) -> String {
        if self.one_in(3) {
            return self.odd_text();
        }
        if schema["format"] == "date-time" {
            return ["2026-01-31T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"][self.below(3)]
                .into();
        }
        let known: &[&str] = match name {
            "source" => &["orders", "orders", "nowhere"],
            "pipe" => &["relay", "relay", "nothing"],
            "filter" => &[
                "",
                "state:dead",
                "type:order.* key:a",
                "header.h:v code:NO_ROUTE",
                "pipe:relay state:done",
                "id:x key:\"a b\"",
                "pipe:nothing",
            ],
            "older_than" | "newer_than" => {
                &["1d", "0s", "500ms", "9223372036854775807ms", "18446744073709551615ms"]
            }
            "type" => &["order.created", "a"],
            "sink" | "table" => &["errors", "errors", "nowhere"],
            "state" => &["open", "any", "resolved"],
            "rate" => &["1000/s", "0/s"],
            "most" => &["1", "10000"],
            "by" => &["ci"],
            "action" => &["retry", "skip", "replay", "purge"],
            "payload" => &["{\"n\":2}", "[]", "a"],
            "payload_base64" => &["AP8=", ""],
            "id" | "ids" | "from_id" => {
                // Of the last ones nothing has disposed yet, most likely.
                let from = if self.one_in(2) { self.ids.len().saturating_sub(2) } else { 0 };
                return self.ids[from..].choose(&mut self.dice).cloned().unwrap_or_default();
            }
            _ => &["a", "b"],
        };
        (*known.choose(&mut self.dice).unwrap()).to_owned()
    }

    fn segment(&mut self, name: &str) -> String {
        const ODD: [&str; 8] = ["..", ".", "%2e%2e", "a%2Fb", "%00", "%ff", "%", "a;b=c"];
        match self.below(10) {
            0 => ODD[self.below(ODD.len())].to_owned(),
            1 => encoded(&self.odd_text()),
            _ => encoded(&self.text(name, &Value::Null)),
        }
    }

    fn number(&mut self) -> Value {
        let edges = [
            json!(0),
            json!(1),
            json!(-1),
            json!(2),
            json!(100),
            json!(10_000),
            json!(10_001),
            json!(i32::MAX),
            json!(u32::MAX),
            json!(u64::from(u32::MAX) + 1),
            json!(i64::MAX),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1.5),
            json!(1e300),
        ];
        edges[self.below(edges.len())].clone()
    }

    fn any(&mut self) -> Value {
        match self.below(6) {
            0 => Value::Null,
            1 => json!(self.one_in(2)),
            2 => self.number(),
            3 => json!([self.odd_text(), null]),
            4 => json!({ self.odd_text(): self.odd_text() }),
            _ => json!(self.odd_text()),
        }
    }

    fn odd_text(&mut self) -> String {
        let odd = [
            String::new(),
            " ".to_owned(),
            "\0".to_owned(),
            "a\0b".to_owned(),
            "🦀🦀".to_owned(),
            "\"'`;--".to_owned(),
            "' OR 1=1 --".to_owned(),
            "a:b:c \"".to_owned(),
            "\\".to_owned(),
            "%".to_owned(),
            "_*?".to_owned(),
            "\u{202e}\u{feff}".to_owned(),
            "line\nbreak\r\n\t".to_owned(),
            "x".repeat(10_000),
            "-1".to_owned(),
            "null".to_owned(),
            "state:dead".to_owned(),
        ];
        odd[self.below(odd.len())].clone()
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.dice.random_range(0..end)
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// The schema that a reference leads to.
pub fn resolved(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => document.pointer(pointer).unwrap_or_else(|| panic!("{schema}")).clone(),
        None => schema.clone(),
    }
}
