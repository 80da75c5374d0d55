//! Parameters, read member by member, so that an error names the field that it is about.
//!
//! Owns the reading. An error's `data.field` is the member's own name: a form shows the message beside it.

use serde_json::{Map, Value, json};

use super::error::{ErrorCode, RpcError};
use crate::config::Asker;
use crate::node::{NodeNum, PublicKey};

/// The members of an object that have not been read yet.
#[derive(Debug)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Of a call, or of an object in one.
    pub fn of(members: Map<String, Value>) -> Fields {
        Fields(members)
    }

    /// The only member of an object that has exactly one, of these names.
    pub fn only(members: Map<String, Value>, names: &[&str]) -> Result<(String, Value), RpcError> {
        let mut members = members.into_iter();
        match (members.next(), members.next()) {
            (Some((name, value)), None) if names.contains(&name.as_str()) => Ok((name, value)),
            _ => Err(RpcError::params(format!("give exactly one of {}", names.join(", ")))),
        }
    }

    /// A node id.
    pub fn node(&mut self, name: &str) -> Result<NodeNum, RpcError> {
        let text = self.text(name)?;
        text.parse().map_err(|e: crate::node::BadNodeNum| wrong(name, e.to_string()))
    }

    /// A node id or a key.
    pub fn asker(&mut self, name: &str) -> Result<Asker, RpcError> {
        let text = self.text(name)?;
        if text.starts_with('!') {
            let number =
                text.parse().map_err(|e: crate::node::BadNodeNum| wrong(name, e.to_string()));
            return number.map(Asker::Node);
        }
        text.parse().map(Asker::Key).map_err(|_| {
            wrong(
                name,
                "write a node id such as `!a1b2c3d4`, or a public key in base64 (44 characters)",
            )
        })
    }

    /// A key, where there is one.
    pub fn key(&mut self, name: &str) -> Result<Option<PublicKey>, RpcError> {
        let Some(text) = self.text_if_any(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|e: crate::node::BadPublicKey| wrong(name, e.to_string()))
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Result<String, RpcError> {
        self.text_if_any(name)?.ok_or_else(|| wrong(name, "this field is missing"))
    }

    /// A text, where there is one; `null` is none.
    pub fn text_if_any(&mut self, name: &str) -> Result<Option<String>, RpcError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "this field is a text")),
        }
    }

    /// Yes or no.
    pub fn flag(&mut self, name: &str) -> Result<bool, RpcError> {
        self.flag_if_any(name)?.ok_or_else(|| wrong(name, "this field is missing"))
    }

    /// Yes or no, where it is said.
    pub fn flag_if_any(&mut self, name: &str) -> Result<Option<bool>, RpcError> {
        self.0.remove(name).map(|value| as_flag(name, &value)).transpose()
    }

    /// That was all: whatever is left is nothing that this method knows.
    pub fn end(self) -> Result<(), RpcError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                let name: String = name.chars().take(64).collect();
                Err(wrong(&name, "there is no such field"))
            }
        }
    }
}

/// An object.
pub fn as_object(name: &str, value: Value) -> Result<Map<String, Value>, RpcError> {
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(wrong(name, "this field is an object")),
    }
}

/// Yes or no.
pub fn as_flag(name: &str, value: &Value) -> Result<bool, RpcError> {
    value.as_bool().ok_or_else(|| wrong(name, "this field is true or false"))
}

/// A text.
pub fn as_text(name: &str, value: Value) -> Result<String, RpcError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong(name, "this field is a text")),
    }
}

/// What is wrong with a field: the rule, and what would be right.
pub fn wrong(field: &str, rule: impl Into<String>) -> RpcError {
    about(ErrorCode::InvalidParams, field, rule)
}

/// The same with another code; an empty field is none.
pub fn about(code: ErrorCode, field: &str, rule: impl Into<String>) -> RpcError {
    let rule = rule.into();
    let error = match field {
        "" => RpcError::new(code, rule.clone()),
        field => RpcError::new(code, format!("`{field}`: {rule}")),
    };
    let field = Some(field).filter(|field| !field.is_empty());
    error.with(json!({ "field": field, "detail": rule }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::of(as_object("x", value).unwrap())
    }

    fn field(error: &RpcError) -> String {
        error.data.as_ref().unwrap()["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn each_kind_of_member_is_read_or_named() {
        let key = PublicKey([7; 32]);
        let mut good = fields(json!({
            "id": "!a1b2c3d4", "key": key.to_string(), "name": "Ana", "on": false, "none": null,
        }));
        assert_eq!(good.node("id").unwrap(), NodeNum(0xa1b2_c3d4));
        assert_eq!(good.key("key").unwrap(), Some(key));
        assert_eq!(good.text("name").unwrap(), "Ana");
        assert!(!good.flag("on").unwrap());
        assert_eq!(good.text_if_any("none").unwrap(), None);
        assert_eq!(good.flag_if_any("off").unwrap(), None);
        good.end().unwrap();

        let mut bad =
            fields(json!({ "id": "a1b2c3d4", "key": "x", "name": 7, "on": "yes", "z": 1 }));
        let errors = [
            bad.node("id").unwrap_err(),
            bad.key("key").unwrap_err(),
            bad.text("name").unwrap_err(),
            bad.flag("on").unwrap_err(),
            bad.text("missing").unwrap_err(),
            bad.end().unwrap_err(),
        ];
        let named: Vec<String> = errors.iter().map(field).collect();
        assert_eq!(named, ["id", "key", "name", "on", "missing", "z"]);
        assert!(errors[0].message.contains("eight hexadecimal digits"), "{}", errors[0].message);
    }

    #[test]
    fn an_asker_is_a_number_or_a_key() {
        let key = PublicKey([7; 32]);
        let ask = |text: &str| fields(json!({ "asker": text })).asker("asker");
        assert_eq!(ask("!a1b2c3d4").unwrap(), Asker::Node(NodeNum(0xa1b2_c3d4)));
        assert_eq!(ask(&key.to_string()).unwrap(), Asker::Key(key));
        for wrong in ["", "!a1b2", "Ana", &"A".repeat(44)] {
            assert_eq!(field(&ask(wrong).unwrap_err()), "asker", "{wrong}");
        }
    }

    #[test]
    fn of_several_wishes_none_is_guessed() {
        let only = |value: Value| Fields::only(as_object("x", value).unwrap(), &["a", "b"]);
        assert_eq!(only(json!({ "b": 1 })).unwrap(), ("b".to_owned(), json!(1)));
        for wrong in [json!({}), json!({ "a": 1, "b": 1 }), json!({ "c": 1 })] {
            assert!(only(wrong).unwrap_err().message.contains("exactly one of a, b"));
        }
    }
}
