//! The contract as one document: `docs/rpc.schema.json`.
//!
//! Owns its form, and the small words from which the schemas of methods are put together by hand. Each
//! schema stands beside the struct or view that it describes; tests keep the two together.

use serde_json::{Map, Value, json};

use super::auth::Role;
use super::error::ErrorCode;
use super::events;
use super::methods::{Access, METHODS, Method};

/// An object with exactly these members; a name that ends in `?` may be missing.
pub fn object(members: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in members {
        let plain = name.trim_end_matches('?');
        if plain.len() == name.len() {
            required.push(Value::from(plain));
        }
        properties.insert(plain.to_owned(), schema.clone());
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// A list of one kind.
pub fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// A text, said what of.
pub fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// One of these texts.
pub fn one_of(texts: &[&str]) -> Value {
    json!({ "type": "string", "enum": texts })
}

/// A whole number from 0, said what of.
pub fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

/// A number, said what of.
pub fn number(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

/// True or false, said of what.
pub fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// That, or null.
pub fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// A node id.
pub fn node_id() -> Value {
    json!({ "type": "string", "pattern": "^![0-9a-f]{8}$" })
}

/// The whole contract.
pub fn document() -> Value {
    let methods: Map<String, Value> =
        METHODS.iter().map(|method| (method.name.to_owned(), of_method(method))).collect();
    let errors: Map<String, Value> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let row = json!({
                "code": code.number(),
                "http_status": code.status(),
                "meaning": code.meaning(),
            });
            (code.name().to_owned(), row)
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tombolo RPC",
        "description": "JSON-RPC 2.0 over POST /rpc, one request a body, Content-Type application/json. \
                        An HTTP status of 4xx means that nothing was run. Any call may get the errors in \
                        `any_call`; each method names those of its own.",
        "any_call": [
            "parse_error", "invalid_request", "method_not_found", "invalid_params", "internal",
            "not_logged_in", "csrf_token", "forbidden",
        ],
        "errors": errors,
        "methods": methods,
        "events": {
            "description": "GET /events: server-sent events for a session, by its cookie alone. Each event has an \
                            id; a stream that is opened with Last-Event-ID goes on after that event, or begins \
                            with reset when that is not known any more. Unknown events are to be passed over.",
            "names": events::schema::events(),
        },
    })
}

/// The document as it is committed.
pub fn document_text() -> String {
    format!("{:#}\n", document())
}

fn of_method(method: &Method) -> Value {
    let roles: Value = match method.access {
        Access::Open => Value::Null,
        Access::Session(roles) => roles.iter().map(|role| Role::as_str(*role)).collect(),
    };
    let errors: Vec<&str> = method.errors.iter().map(|code| code.name()).collect();
    json!({
        "summary": method.summary,
        "roles": roles,
        "csrf_token": method.csrf,
        "params": (method.params)(),
        "result": (method.result)(),
        "errors": errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TOMBOLO_BLESS=1` writes the file anew.
    #[test]
    #[allow(clippy::disallowed_methods)] // a file of the sources, not of the data folder
    fn the_committed_contract_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rpc.schema.json");
        if std::env::var_os("TOMBOLO_BLESS").is_some() {
            std::fs::write(path, document_text()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(
            committed == document_text(),
            "docs/rpc.schema.json is out of date: run TOMBOLO_BLESS=1 cargo test --lib rpc::schema"
        );
    }

    #[test]
    fn a_question_mark_makes_a_member_optional() {
        let schema = object(&[("a", text("x")), ("b?", count("y"))]);
        assert_eq!(schema["required"], json!(["a"]));
        assert!(schema["properties"]["b"].is_object());
    }
}
