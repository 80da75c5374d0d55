//! A tool's arguments against its JSON Schema.
//!
//! Owns the check of the part of JSON Schema that model servers pass on to a model (type, properties,
//! required, enum, items, additionalProperties, the bounds of numbers and texts), in words that a model can act on: the field and what it
//! should be. Coerces nothing, repeats no value, and leaves what it does not know to whoever runs the tool.

use serde_json::{Map, Value, json};

use crate::invisible;

/// Schemas within schemas that are followed; deeper values are left to whoever runs the tool.
const MAX_DEPTH: usize = 16;
/// Names that an error lists.
const MAX_LISTED: usize = 12;
/// Characters of a name that a model wrote.
const MAX_NAME: usize = 64;

/// The schema of an object with these properties and no others.
pub fn closed(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = Value::Bool(false);
    schema
}

/// Checks arguments against a schema of type `object`.
pub fn check(schema: &Value, arguments: &Value) -> Result<(), String> {
    check_at(schema, arguments, "the arguments", MAX_DEPTH)
}

fn check_at(schema: &Value, value: &Value, place: &str, depth: usize) -> Result<(), String> {
    if depth == 0 {
        return Ok(());
    }
    if let Some(wanted) = schema.get("type") {
        check_type(wanted, value, place)?;
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        let choices: Vec<String> =
            choices.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        return Err(format!("{place} must be one of {}", choices.join(", ")));
    }
    check_bounds(schema, value, place)?;
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return Ok(()) };
            for (index, item) in items.iter().enumerate() {
                check_at(schema, item, &format!("item {index} of {place}"), depth - 1)?;
            }
            Ok(())
        }
        Value::Object(fields) => check_fields(schema, fields, depth),
        _ => Ok(()),
    }
}

fn check_fields(schema: &Value, fields: &Map<String, Value>, depth: usize) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    // Only where the schema says so are other fields wrong.
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.into_iter().flatten().any(|one| one.as_str() == Some(name));
    for (name, value) in fields {
        match properties.get(name) {
            // Some models write out what they leave out.
            Some(_) if value.is_null() && !is_required(name) => {}
            Some(property) => check_at(property, value, &format!("`{name}`"), depth - 1)?,
            None if closed => {
                let known: Vec<&str> =
                    properties.keys().take(MAX_LISTED).map(String::as_str).collect();
                let name = invisible::word(name, MAX_NAME);
                return Err(if known.is_empty() {
                    format!("there is no argument `{name}`; it takes none")
                } else {
                    format!("there is no argument `{name}`; it takes {}", known.join(", "))
                });
            }
            None => {}
        }
    }
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            let wanted = properties.get(name).and_then(|property| property.get("type"));
            let wanted = wanted.map_or("value".to_owned(), words_of);
            return Err(format!("`{name}` ({wanted}) is missing"));
        }
    }
    Ok(())
}

fn check_type(wanted: &Value, value: &Value, place: &str) -> Result<(), String> {
    let fits = match wanted {
        Value::String(one) => is_of_type(value, one),
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).any(|one| is_of_type(value, one))
        }
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(format!("{place} must be of type {}, not {}", words_of(wanted), type_of(value)))
    }
}

/// A number in its range, a text in its length.
fn check_bounds(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let (least, most, size, of) = match value {
        Value::Number(number) => ("minimum", "maximum", number.as_f64(), ""),
        Value::String(text) => {
            let chars = u32::try_from(text.chars().count()).map(f64::from);
            ("minLength", "maxLength", chars.ok(), " characters")
        }
        _ => return Ok(()),
    };
    let (least, most) = (schema.get(least), schema.get(most));
    let bound = |bound: Option<&Value>| bound.and_then(Value::as_f64);
    // What has no size is larger than every bound.
    let size = size.unwrap_or(f64::INFINITY);
    if bound(least).is_none_or(|least| size >= least) && bound(most).is_none_or(|most| size <= most)
    {
        return Ok(());
    }
    let right = match (least, most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, most) => format!("at most {}", most.unwrap_or(&Value::Null)),
    };
    let kind = schema.get("type").map_or("value".to_owned(), words_of);
    Err(format!("{place} must be of type {kind}, {right}{of}"))
}

fn words_of(wanted: &Value) -> String {
    match wanted {
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "value".to_owned(),
    }
}

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        // 3.0 is an integer in JSON Schema.
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        "number" => value.is_number(),
        "null" => value.is_null(),
        // A type that we don't know is not ours to refuse.
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_names_the_field_and_what_it_should_be() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "lines": { "type": ["integer", "null"] },
                "unit": { "enum": ["C", "F"] },
                "tags": { "type": "array", "items": { "type": "string" } },
                "at": { "type": "object", "properties": { "lat": { "type": "number" } }, "required": ["lat"] },
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        for right in [
            json!({ "path": "a" }),
            json!({ "path": "a", "lines": 3, "unit": "C", "tags": ["x"], "at": { "lat": 1.5, "more": 1 } }),
            json!({ "path": "a", "lines": null }),
            json!({ "path": "a", "lines": 3.0 }),
        ] {
            assert_eq!(check(&schema, &right), Ok(()), "{right}");
        }
        for (wrong, words) in [
            (json!([]), "the arguments must be of type object, not array"),
            (json!({}), "`path` (string) is missing"),
            (json!({ "path": 3 }), "`path` must be of type string, not number"),
            (
                json!({ "path": "a", "lines": "3" }),
                "`lines` must be of type integer or null, not string",
            ),
            (
                json!({ "path": "a", "lines": 3.5 }),
                "`lines` must be of type integer or null, not number",
            ),
            (json!({ "path": "a", "unit": "K" }), "`unit` must be one of \"C\", \"F\""),
            (
                json!({ "path": "a", "tags": ["x", 1] }),
                "item 1 of `tags` must be of type string, not number",
            ),
            (json!({ "path": "a", "at": {} }), "`lat` (number) is missing"),
            (
                json!({ "path": "a", "pth\u{7}": 1 }),
                "there is no argument `pth`; it takes path, lines, unit, tags, at",
            ),
        ] {
            assert_eq!(check(&schema, &wrong), Err(words.to_owned()), "{wrong}");
        }
        assert_eq!(check(&json!({ "type": "object" }), &json!({ "any": [1] })), Ok(()));
    }

    #[test]
    fn bounds_come_in_pairs_and_what_is_left_out_may_be_null() {
        let schema = json!({
            "type": "object",
            "properties": {
                "limit": { "type": "integer", "minimum": 1, "maximum": 50 },
                "text": { "type": "string", "maxLength": 3 },
                "line": { "type": "integer", "minimum": 1 },
                "name": { "type": "string" },
            },
            "required": ["name"],
        });
        for right in [
            json!({ "name": "a", "limit": 1, "text": "äöü" }),
            json!({ "name": "a", "limit": 50, "line": 1 }),
            json!({ "name": "a", "limit": null }),
        ] {
            assert_eq!(check(&schema, &right), Ok(()), "{right}");
        }
        for (wrong, words) in [
            (json!({ "name": "a", "limit": 0 }), "`limit` must be of type integer, 1 to 50"),
            (json!({ "name": "a", "limit": 51 }), "`limit` must be of type integer, 1 to 50"),
            (
                json!({ "name": "a", "text": "four" }),
                "`text` must be of type string, at most 3 characters",
            ),
            (json!({ "name": "a", "line": 0 }), "`line` must be of type integer, at least 1"),
            (json!({ "name": null }), "`name` must be of type string, not null"),
        ] {
            assert_eq!(check(&schema, &wrong), Err(words.to_owned()), "{wrong}");
        }
    }

    #[test]
    fn a_bottomless_value_is_followed_only_so_far() {
        let mut schema = json!({ "type": "string" });
        let mut value = json!(1);
        for _ in 0..MAX_DEPTH - 1 {
            schema = json!({ "type": "array", "items": schema });
            value = json!([value]);
        }
        assert!(check(&schema, &value).is_err());
        assert_eq!(check(&json!({ "items": schema }), &json!([value])), Ok(()));
    }
}
