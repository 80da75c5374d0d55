//! How much a foreign tool may say to a model, and which of its words a model is shown.
//!
//! Owns the bounds of a schema and the cleaning of its texts. What is pinned is what the server said; this is what is
//! offered of it. Cuts no schema: one that is too large, or whose names could not be sent back as they are, is refused.

use serde_json::{Map, Value};

use super::pins::Definition;
use crate::invisible::{hidden, legible, visible};

/// Bytes of a schema as it is sent to a model.
pub const MAX_SCHEMA_BYTES: usize = 8 * 1024;
/// Values within values.
pub const MAX_DEPTH: usize = 16;
/// Properties, those of objects within it included.
pub const MAX_PROPERTIES: usize = 64;
/// Bytes of all foreign tools together: names, descriptions and schemas. A model is given them with each question.
pub const MAX_ALL_BYTES: usize = 24 * 1024;

/// What a model is shown of that definition.
///
/// # Errors
/// Why it is not offered, in words for the operator.
pub fn shown(definition: &Definition) -> Result<Definition, String> {
    let bytes = definition.parameters.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!(
            "the schema of its arguments has {bytes} bytes; at most {MAX_SCHEMA_BYTES} are offered"
        ));
    }
    let mut properties = 0;
    let parameters = clean(&definition.parameters, MAX_DEPTH, &mut properties)?;
    if properties > MAX_PROPERTIES {
        return Err(format!(
            "the schema of its arguments has {properties} properties; at most {MAX_PROPERTIES} are offered"
        ));
    }
    Ok(Definition { description: visible(&definition.description), parameters })
}

/// Bytes that an offered tool takes of a prompt.
pub fn bytes(name: &str, shown: &Definition) -> usize {
    name.len() + shown.description.len() + shown.parameters.to_string().len()
}

/// `depth`: so many values may still be within each other.
fn clean(value: &Value, depth: usize, properties: &mut usize) -> Result<Value, String> {
    let too_deep =
        || format!("the schema of its arguments is nested more than {MAX_DEPTH} levels deep");
    let inner = depth.checked_sub(1);
    match value {
        Value::Object(fields) => {
            let inner = inner.ok_or_else(too_deep)?;
            let mut cleaned = Map::new();
            for (name, value) in fields {
                if name.chars().any(hidden) {
                    return Err(format!(
                        "the schema of its arguments has a name with characters that are not seen: {}",
                        written_out(name)
                    ));
                }
                if name == "properties"
                    && let Value::Object(named) = value
                {
                    *properties += named.len();
                }
                let value = match name.as_str() {
                    "enum" | "const" => exact(value, inner)?,
                    _ => clean(value, inner, properties)?,
                };
                cleaned.insert(name.clone(), value);
            }
            Ok(Value::Object(cleaned))
        }
        Value::Array(items) => {
            let inner = inner.ok_or_else(too_deep)?;
            let items = items.iter().map(|item| clean(item, inner, properties));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::String(text) => Ok(Value::String(visible(text))),
        other => Ok(other.clone()),
    }
}

/// A value that a model sends back as it stands: it can't be cleaned, so it must be clean.
fn exact(value: &Value, depth: usize) -> Result<Value, String> {
    let breaks = |c: char| matches!(c, '\t' | '\n');
    let unclean =
        |text: &str| text.chars().any(|c| hidden(c) && !breaks(c)) && legible(text) != text;
    let too_deep =
        || format!("the schema of its arguments is nested more than {MAX_DEPTH} levels deep");
    match value {
        Value::String(text) if unclean(text) => Err(format!(
            "the schema of its arguments has a choice with characters that are not seen: {}",
            written_out(text)
        )),
        Value::Array(items) => {
            let inner = depth.checked_sub(1).ok_or_else(too_deep)?;
            items.iter().try_for_each(|item| exact(item, inner).map(drop))?;
            Ok(value.clone())
        }
        Value::Object(fields) => {
            let inner = depth.checked_sub(1).ok_or_else(too_deep)?;
            for (name, item) in fields {
                exact(&Value::String(name.clone()), inner)?;
                exact(item, inner)?;
            }
            Ok(value.clone())
        }
        other => Ok(other.clone()),
    }
}

fn written_out(text: &str) -> String {
    let mut words = String::new();
    for c in text.chars().take(40) {
        if hidden(c) { words.extend(c.escape_unicode()) } else { words.push(c) }
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(parameters: Value) -> Result<Value, String> {
        shown(&Definition::new("x", parameters)).map(|shown| shown.parameters)
    }

    /// Of so many bytes.
    fn long(bytes: usize) -> Value {
        let empty = json!({ "type": "object", "description": "" }).to_string().len();
        json!({ "type": "object", "description": "x".repeat(bytes - empty) })
    }

    fn deep(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "items": inner }))
    }

    fn wide(one: usize, other: usize) -> Value {
        let many = |count: usize| -> Map<String, Value> {
            (0..count).map(|n| (format!("p{n}"), json!({}))).collect()
        };
        json!({ "properties": { "in": { "properties": many(one) } }, "$defs": { "d": { "properties": many(other) } } })
    }

    #[test]
    fn the_largest_schema_is_offered_as_it_is_and_a_larger_one_is_refused_with_the_reason() {
        for (fits, too_much, words) in [
            (long(MAX_SCHEMA_BYTES), long(MAX_SCHEMA_BYTES + 1), "has 8193 bytes; at most 8192"),
            (deep(MAX_DEPTH), deep(MAX_DEPTH + 1), "more than 16 levels"),
            (wide(60, 3), wide(60, 4), "has 65 properties; at most 64"),
            (
                json!({ "enum": deep(MAX_DEPTH - 1) }),
                json!({ "enum": deep(MAX_DEPTH) }),
                "more than 16 levels",
            ),
            (
                json!({ "const": [[1]] }),
                json!({ "x": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]] }),
                "more than 16 levels",
            ),
        ] {
            assert_eq!(of(fits.clone()), Ok(fits));
            let why = of(too_much).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn every_text_is_cleaned_and_what_must_go_back_as_it_is_is_not_changed() {
        assert_eq!(
            of(json!({
                "title": "a\u{202e}b",
                "properties": { "p": { "description": "c\u{e0041}\u{200b}d", "examples": ["\u{7}e"], "enum": ["❤\u{fe0f}", "\t", 3] } },
                "required": ["p"],
            })),
            Ok(json!({
                "title": "ab",
                "properties": { "p": { "description": "cd", "examples": ["e"], "enum": ["❤\u{fe0f}", "\t", 3] } },
                "required": ["p"],
            }))
        );
        for (wrong, words) in [
            (
                json!({ "properties": { "pl\u{200b}ace": {} } }),
                "a name with characters that are not seen: pl\\u{200b}ace",
            ),
            (json!({ "\u{e0041}": 1 }), "a name with"),
            (
                json!({ "properties": { "p": { "enum": ["a\u{202e}"] } } }),
                "a choice with characters that are not seen: a\\u{202e}",
            ),
            (json!({ "const": { "a\u{ad}": 1 } }), "a choice with"),
        ] {
            let why = of(wrong).unwrap_err();
            assert!(why.contains(words) && !why.chars().any(hidden), "{why}");
        }
        let description =
            Definition { description: "a\u{202e}b".to_owned(), parameters: json!({}) };
        assert_eq!(shown(&description).unwrap().description, "ab");
    }

    /// Any JSON, with hidden characters anywhere.
    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            Just("enum".to_owned()),
            Just("properties".to_owned()),
            Just("a\u{200b}".to_owned())
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(20, 60, 4, move |inner| {
            let object = prop::collection::vec((text.clone(), inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                object.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_is_small_and_clean_or_refused(parameters in any_json()) {
            if let Ok(shown) = of(parameters) {
                prop_assert!(shown.to_string().len() <= MAX_SCHEMA_BYTES);
                prop_assert_eq!(of(shown.clone()), Ok(shown));
            }
        }
    }
}
