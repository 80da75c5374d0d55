//! Arguments against the JSON Schema that the model was shown.
//!
//! Owns the words in which a model is told what is wrong: the field, what it should be, what it is. Knows
//! the words of schemas that tools use; a word that it doesn't know forbids nothing here. A tool of this
//! program deserializes afterwards as well, so this is never the only check of one.

use serde_json::{Map, Value};

/// Levels of a schema that are looked at; what lies deeper is the tool's own matter.
const MAX_DEPTH: usize = 6;
/// Characters of a foreign name or value in a message.
const MAX_SHOWN: usize = 40;
/// Names in a message.
const MAX_NAMES: usize = 12;

/// What is wrong, in one line without its full stop; `None` when they fit.
pub(super) fn fault(schema: &Value, arguments: &Value) -> Option<String> {
    if !arguments.is_object() {
        return Some(format!("expected one JSON object, got {}", kind(arguments)));
    }
    check(schema, arguments, "", 0)
}

fn check(schema: &Value, value: &Value, at: &str, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    if !is_of_type(schema, value) || !is_in_range(schema, value) || !is_listed(schema, value) {
        let place = if at.is_empty() { "the arguments" } else { at };
        return Some(format!("{place}: expected {}, got {}", expected(schema), shown(value)));
    }
    match value {
        Value::Object(members) => object(schema, members, at, depth),
        Value::Array(items) => {
            let of = schema.get("items")?;
            items
                .iter()
                .enumerate()
                .find_map(|(index, item)| check(of, item, &format!("{at}[{index}]"), depth + 1))
        }
        _ => None,
    }
}

fn object(schema: &Value, members: &Map<String, Value>, at: &str, depth: usize) -> Option<String> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        if !members.contains_key(name) {
            let is = properties.get(name).map_or_else(|| "a value".to_owned(), expected);
            return Some(format!("{} is missing: expected {is}", join(at, name)));
        }
    }
    for (name, member) in members {
        match properties.get(name) {
            // Some models write out what they leave out.
            Some(_) if member.is_null() && !is_required(required, name) => {}
            Some(property) => {
                let fault = check(property, member, &join(at, &cut(name)), depth + 1);
                if fault.is_some() {
                    return fault;
                }
            }
            None if schema["additionalProperties"] == Value::Bool(false) => {
                let names: Vec<String> =
                    properties.keys().take(MAX_NAMES).map(|n| cut(n)).collect();
                let there =
                    if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
                return Some(format!(
                    "{}: there is no such argument; expected only: {there}",
                    join(at, &cut(name))
                ));
            }
            None => {}
        }
    }
    None
}

fn is_required(required: &[Value], name: &str) -> bool {
    required.iter().any(|one| one == name)
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

/// Types that a schema allows: one, several, or any.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    types.is_empty()
        || types.iter().any(|name| match *name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            _ => true,
        })
}

fn is_in_range(schema: &Value, value: &Value) -> bool {
    let within = |least: &str, most: &str, size: f64| {
        schema[least].as_f64().is_none_or(|least| size >= least)
            && schema[most].as_f64().is_none_or(|most| size <= most)
    };
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|n| within("minimum", "maximum", n)),
        Value::String(text) => within("minLength", "maxLength", count(text.chars().count())),
        Value::Array(items) => within("minItems", "maxItems", count(items.len())),
        _ => true,
    }
}

/// Sizes of arguments are far below what a float holds exactly.
fn count(size: usize) -> f64 {
    u32::try_from(size).map_or(f64::INFINITY, f64::from)
}

fn is_listed(schema: &Value, value: &Value) -> bool {
    schema["enum"].as_array().is_none_or(|listed| listed.contains(value))
}

/// What would be right.
fn expected(schema: &Value) -> String {
    if let Some(listed) = schema["enum"].as_array() {
        let listed: Vec<String> = listed.iter().take(MAX_NAMES).map(shown_plain).collect();
        return format!("one of {}", listed.join(", "));
    }
    let types: Vec<&str> = types(schema)
        .into_iter()
        .map(|name| match name {
            "object" => "an object",
            "array" => "a list",
            "string" => "a text",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "true or false",
            "null" => "null",
            _ => "a value",
        })
        .collect();
    let what = if types.is_empty() { "a value".to_owned() } else { types.join(" or ") };
    let bounds = |least: &str, most: &str, unit: &str| match (&schema[least], &schema[most]) {
        (Value::Null, Value::Null) => String::new(),
        (least, Value::Null) => format!(" of at least {least}{unit}"),
        (Value::Null, most) => format!(" of at most {most}{unit}"),
        (least, most) => format!(" of {least} to {most}{unit}"),
    };
    format!(
        "{what}{}{}{}",
        bounds("minimum", "maximum", ""),
        bounds("minLength", "maxLength", " characters"),
        bounds("minItems", "maxItems", " items")
    )
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value in a message: a number and a word as they are, of a text only that it is one. The message goes
/// to whoever wrote the value, but it may be long.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => shown_plain(value),
        other => kind(other).to_owned(),
    }
}

fn shown_plain(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_names_the_field_what_is_right_and_what_is_there() {
        let schema = json!({
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 1, "maximum": 5},
                "name": {"type": "string", "maxLength": 3},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "of": {"type": "array", "items": {"type": "string"}},
                "deep": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
                "any": {},
                "maybe": {"type": ["string", "null"]}
            },
            "required": ["count"],
            "additionalProperties": false
        });
        for (arguments, fault) in [
            (json!({"count": 1}), None),
            (json!({"count": 5, "name": "äöü", "mode": "b", "of": [], "any": [1]}), None),
            (json!({"count": 1, "maybe": null, "deep": {"x": 0.5, "more": 1}}), None),
            (json!({"count": 1, "name": null}), None),
            (json!({"count": 0}), Some("count: expected a whole number of 1 to 5, got 0")),
            (json!({"count": 6}), Some("count: expected a whole number of 1 to 5, got 6")),
            (json!({"count": "1"}), Some("count: expected a whole number of 1 to 5, got a text")),
            (json!({"count": 1.5}), Some("count: expected a whole number of 1 to 5, got 1.5")),
            (json!({"count": null}), Some("count: expected a whole number of 1 to 5, got null")),
            (json!({}), Some("count is missing: expected a whole number of 1 to 5")),
            (
                json!({"count": 1, "name": "four"}),
                Some("name: expected a text of at most 3 characters, got a text"),
            ),
            (
                json!({"count": 1, "mode": "c"}),
                Some("mode: expected one of \"a\", \"b\", got a text"),
            ),
            (json!({"count": 1, "of": ["x", 7]}), Some("of[1]: expected a text, got 7")),
            (json!({"count": 1, "deep": {}}), Some("deep.x is missing: expected a number")),
            (json!({"count": 1, "deep": {"x": true}}), Some("deep.x: expected a number, got true")),
            (json!({"count": 1, "maybe": 1}), Some("maybe: expected a text or null, got 1")),
            (
                json!({"count": 1, "\u{1b}more": 2}),
                Some(
                    "more: there is no such argument; expected only: count, name, mode, of, deep, \
                     any, maybe",
                ),
            ),
            (json!([1]), Some("expected one JSON object, got a list")),
            (json!("{\"count\":1}"), Some("expected one JSON object, got a text")),
        ] {
            assert_eq!(super::fault(&schema, &arguments).as_deref(), fault, "{arguments}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z]{0,8}".prop_map(Value::from),
            Just(json!("object")),
            Just(json!(["integer"])),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(
                    (
                        prop_oneof![
                            Just("type".to_owned()),
                            Just("properties".to_owned()),
                            Just("items".to_owned()),
                            Just("required".to_owned()),
                            Just("enum".to_owned()),
                            "[a-z]{0,3}"
                        ],
                        inner
                    ),
                    0..5
                )
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_schema_and_no_arguments_break_the_check(schema in json_value(), value in json_value()) {
            let _ = fault(&schema, &value);
        }
    }
}
