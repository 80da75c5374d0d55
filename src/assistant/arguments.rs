//! Why arguments don't fit a tool: one line that names the field and what it should be.
//!
//! Owns the words for a model that has to do better. Decides nothing: the tool's own reader has refused already.
//! Quotes no value, for a value may be anything.

use serde_json::Value;

/// Longest line, in characters.
const MAX_LINE: usize = 300;

/// What is wrong with them, by the schema of the tool; where that shows nothing, in the words of its reader.
pub fn misfit(schema: &Value, arguments: &Value, reader: &str) -> String {
    let words = by_schema(schema, arguments).unwrap_or_else(|| reader.to_owned());
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(MAX_LINE).collect()
}

fn by_schema(schema: &Value, arguments: &Value) -> Option<String> {
    let Some(given) = arguments.as_object() else {
        return Some(format!(
            "the arguments must be one JSON object, not {}",
            kind_of(arguments)
        ));
    };
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !given.contains_key(name) {
            let wanted = properties.get(name).map_or_else(|| "a value".to_owned(), wanted);
            return Some(format!("the field `{name}` is missing; it must be {wanted}"));
        }
    }
    for (name, value) in given {
        let Some(property) = properties.get(name) else {
            let known: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name: String = name.chars().take(64).collect();
            return Some(format!("there is no field `{name}`; the fields are: {known}"));
        };
        if !fits(property, value) {
            return Some(format!(
                "the field `{name}` must be {}, not {}",
                wanted(property),
                kind_of(value)
            ));
        }
    }
    None
}

fn types(property: &Value) -> Vec<&str> {
    match property.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits(property: &Value, value: &Value) -> bool {
    let types = types(property);
    let type_fits = types.is_empty()
        || types.iter().any(|wanted| match *wanted {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        });
    let one_of = property.get("enum").and_then(Value::as_array);
    let bound = |name| property.get(name).and_then(Value::as_f64);
    let number = value.as_f64();
    let items = property.get("items").filter(|items| items.is_object());
    type_fits
        && one_of.is_none_or(|all| all.contains(value))
        && bound("minimum").is_none_or(|least| number.is_none_or(|number| number >= least))
        && bound("maximum").is_none_or(|most| number.is_none_or(|number| number <= most))
        && items.is_none_or(|item| value.as_array().is_none_or(|all| all.iter().all(|v| fits(item, v))))
}

fn wanted(property: &Value) -> String {
    if let Some(all) = property.get("enum").and_then(Value::as_array) {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        return format!("one of {}", all.join(", "));
    }
    let types: Vec<String> = types(property)
        .into_iter()
        .map(|name| match name {
            "string" => "a string".to_owned(),
            "integer" => "an integer".to_owned(),
            "number" => "a number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "array" => match property.get("items").map(wanted) {
                Some(item) => format!("an array, each of it {item}"),
                None => "an array".to_owned(),
            },
            "object" => "an object".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    let mut words = if types.is_empty() { "a value".to_owned() } else { types.join(" or ") };
    let bound = |name| property.get(name).filter(|bound| bound.is_number());
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => words.push_str(&format!(" from {least} to {most}")),
        (Some(least), None) => words.push_str(&format!(" of at least {least}")),
        (None, Some(most)) => words.push_str(&format!(" of at most {most}")),
        (None, None) => {}
    }
    words
}

/// What a value is, without what is in it. A number says what it is: that is all that there is to say.
fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "that string".to_owned(),
        Value::Array(_) => "that array".to_owned(),
        Value::Object(_) => "that object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_line_names_the_field_and_what_it_should_be() {
        let schema = json!({
            "type": "object",
            "properties": {
                "count": {"type": "integer", "minimum": 1, "maximum": 9},
                "least": {"type": "number", "minimum": 0},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "names": {"type": "array", "items": {"type": "string"}},
                "on": {"type": ["boolean", "null"]},
                "deep": {"type": "object"},
                "any": {},
            },
            "required": ["count"],
            "additionalProperties": false,
        });
        for (arguments, line) in [
            (json!({}), "the field `count` is missing; it must be an integer from 1 to 9"),
            (json!({"count": "1"}), "the field `count` must be an integer from 1 to 9, not that string"),
            (json!({"count": 1.5}), "the field `count` must be an integer from 1 to 9, not 1.5"),
            (json!({"count": 0}), "the field `count` must be an integer from 1 to 9, not 0"),
            (json!({"count": 10}), "the field `count` must be an integer from 1 to 9, not 10"),
            (json!({"count": 1, "least": -1}), "the field `least` must be a number of at least 0, not -1"),
            (json!({"count": 1, "kind": "c"}), "the field `kind` must be one of \"a\", \"b\", not that string"),
            (
                json!({"count": 1, "names": ["x", 1]}),
                "the field `names` must be an array, each of it a string, not that array",
            ),
            (json!({"count": 1, "on": {}}), "the field `on` must be true or false or null, not that object"),
            (json!({"count": 1, "deep": true}), "the field `deep` must be an object, not true or false"),
            (
                json!({"count": 1, "more": 2}),
                "there is no field `more`; the fields are: `count`, `least`, `kind`, `names`, `on`, `deep`, `any`",
            ),
            (json!([1]), "the arguments must be one JSON object, not that array"),
            (json!(null), "the arguments must be one JSON object, not null"),
            // All fits the schema: the reader knows more.
            (json!({"count": 1, "on": null, "any": 1}), "reader"),
        ] {
            assert_eq!(misfit(&schema, &arguments, "reader"), line, "{arguments}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_given_comes_to_one_bounded_line_without_its_values(text in ".{0,400}", name in ".{1,400}") {
            let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
            let secret = format!("canary-7311-{text}");
            for arguments in [json!({"n": secret}), json!({(name.as_str()): 1}), json!(secret)] {
                let line = misfit(&schema, &arguments, &name);
                assert!(line.chars().count() <= MAX_LINE && !line.contains('\n'));
                assert!(!line.contains("canary-7311"));
            }
        }
    }
}
