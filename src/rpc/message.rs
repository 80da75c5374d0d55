//! The envelope: JSON-RPC 2.0 requests and responses.
//!
//! Owns what is a request. Knows no method and no HTTP. One request a body: a batch is refused, for each
//! call is authorised on its own and none of ours comes in dozens.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::{ErrorCode, RpcError};

/// A method name longer than this is nobody's.
const MAX_METHOD_BYTES: usize = 64;
/// A request's id is echoed; a longer one is refused.
const MAX_ID_BYTES: usize = 256;

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// To echo; `None` for a notification, which gets no response.
    pub id: Option<Value>,
    /// The method's name, not yet looked up.
    pub method: String,
    /// By name.
    pub params: Map<String, Value>,
}

/// A body that is no request: the error, and the id to echo where one could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// `null` where there is none.
    pub id: Value,
    /// Parse error, invalid request or invalid params.
    pub error: RpcError,
}

/// Reads a body.
pub fn read(body: &[u8]) -> Result<Request, Box<Unreadable>> {
    let unreadable = |id: &Value, code, message: &str| {
        Box::new(Unreadable { id: id.clone(), error: RpcError::new(code, message) })
    };
    let null = Value::Null;
    let value: Value = serde_json::from_slice(body)
        .map_err(|_| unreadable(&null, ErrorCode::ParseError, "the body is not valid JSON"))?;
    let invalid = |id: &Value, message: &str| unreadable(id, ErrorCode::InvalidRequest, message);
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(_) => {
            return Err(invalid(&null, "batches are not accepted: send one request a call"));
        }
        _ => return Err(invalid(&null, "a request is a JSON object")),
    };
    let id = object.remove("id");
    match &id {
        None | Some(Value::Null | Value::Number(_)) => {}
        Some(Value::String(text)) if text.len() <= MAX_ID_BYTES => {}
        Some(_) => {
            return Err(invalid(&null, "`id` must be a number, null, or a string of ≤ 256 bytes"));
        }
    }
    let echoed = id.clone().unwrap_or_default();
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(&echoed, "`jsonrpc` must be \"2.0\""));
    }
    let method = match object.remove("method") {
        Some(Value::String(name)) if !name.is_empty() && name.len() <= MAX_METHOD_BYTES => name,
        _ => return Err(invalid(&echoed, "`method` must be the name of a method")),
    };
    let params = match object.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let error = RpcError::params("give parameters by name, as an object");
            return Err(Box::new(Unreadable { id: echoed, error }));
        }
    };
    Ok(Request { id, method, params })
}

/// A response with a result.
pub fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A response with an error.
pub fn error(id: &Value, error: &RpcError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() })
}

/// Reads a method's parameters. What the reader says of them may quote them: it goes to the caller and
/// never to the log.
pub fn params<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, RpcError> {
    serde_json::from_value(Value::Object(params)).map_err(|error| {
        let detail: String = error.to_string().chars().take(200).collect();
        let field = field_of(&detail).map(str::to_owned);
        let error = RpcError::params(detail.clone());
        match field {
            Some(field) => error.with(json!({ "field": field, "detail": detail })),
            None => error,
        }
    })
}

/// The field that the reader's words are about, where they name one.
fn field_of(words: &str) -> Option<&str> {
    let rest = words.strip_prefix("missing field `").or(words.strip_prefix("unknown field `"))?;
    rest.split('`').next().filter(|name| !name.is_empty())
}

/// A method without parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_its_id_kept_as_it_came() {
        for id in [json!(1), json!("a"), json!(-2.5), json!(null), json!("x".repeat(256))] {
            let body = json!({ "jsonrpc": "2.0", "id": id, "method": "m.n", "params": {"a": 1} });
            let request = read(body.to_string().as_bytes()).unwrap();
            assert_eq!(request.id, Some(id));
            assert_eq!((request.method.as_str(), request.params.len()), ("m.n", 1));
        }
        let request = read(br#"{"jsonrpc":"2.0","method":"m"}"#).unwrap();
        assert_eq!((request.id, request.params.len()), (None, 0));
    }

    #[test]
    fn an_error_of_the_reader_names_the_field_where_it_can() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct One {
            #[allow(dead_code)]
            a: u8,
        }
        for (text, field) in [
            (json!({}), json!("a")),
            (json!({ "a": 1, "b": 2 }), json!("b")),
            (json!({ "a": "x" }), json!(null)),
        ] {
            let Value::Object(object) = text else { panic!() };
            let data = params::<One>(object).unwrap_err().data.unwrap();
            assert_eq!(data["field"], field, "{data}");
            assert!(data["detail"].is_string());
        }
    }

    #[test]
    fn whatever_is_no_request_is_told_why() {
        let deep = "[".repeat(100_000);
        let long_id = json!({"jsonrpc": "2.0", "id": "x".repeat(257), "method": "m"}).to_string();
        let long_name = json!({"jsonrpc": "2.0", "id": 1, "method": "m".repeat(65)}).to_string();
        for (body, code, id) in [
            ("", ErrorCode::ParseError, json!(null)),
            ("{", ErrorCode::ParseError, json!(null)),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x",
                ErrorCode::ParseError,
                json!(null),
            ),
            (&deep, ErrorCode::ParseError, json!(null)),
            ("[]", ErrorCode::InvalidRequest, json!(null)),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, ErrorCode::InvalidRequest, json!(null)),
            ("1", ErrorCode::InvalidRequest, json!(null)),
            (r#"{"id":7,"method":"m"}"#, ErrorCode::InvalidRequest, json!(7)),
            (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, ErrorCode::InvalidRequest, json!(7)),
            (r#"{"jsonrpc":2.0,"id":7,"method":"m"}"#, ErrorCode::InvalidRequest, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7}"#, ErrorCode::InvalidRequest, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, ErrorCode::InvalidRequest, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":""}"#, ErrorCode::InvalidRequest, json!(7)),
            (r#"{"jsonrpc":"2.0","id":[7],"method":"m"}"#, ErrorCode::InvalidRequest, json!(null)),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, ErrorCode::InvalidRequest, json!(null)),
            (&long_id, ErrorCode::InvalidRequest, json!(null)),
            (&long_name, ErrorCode::InvalidRequest, json!(1)),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[]}"#,
                ErrorCode::InvalidParams,
                json!(7),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":null}"#,
                ErrorCode::InvalidParams,
                json!(7),
            ),
        ] {
            let refused = read(body.as_bytes()).unwrap_err();
            let start: String = body.chars().take(60).collect();
            assert_eq!((refused.error.code, refused.id), (code, id), "{start}");
        }
        assert_eq!(read(b"\"\xff\"").unwrap_err().error.code, ErrorCode::ParseError);
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(
            body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            text in "[\\[\\]{}\",:0-9a-z ]{0,80}",
        ) {
            for body in [&body[..], text.as_bytes()] {
                if let Ok(request) = read(body) {
                    let again = json!({
                        "jsonrpc": "2.0", "id": request.id.clone().unwrap_or_default(),
                        "method": request.method.clone(), "params": request.params.clone(),
                    });
                    let second = read(again.to_string().as_bytes()).unwrap();
                    assert_eq!((second.method, second.params), (request.method, request.params));
                }
            }
        }
    }

    #[test]
    fn unknown_parameters_are_refused_and_the_reason_is_bounded() {
        let mut given = Map::new();
        assert!(params::<NoParams>(given.clone()).is_ok());
        given.insert("x".repeat(5000), json!(1));
        let error = params::<NoParams>(given).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidParams);
        assert!(error.message.starts_with("invalid parameters: unknown field"));
        assert!(error.message.chars().count() < 250);
    }
}
