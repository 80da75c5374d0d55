//! What a refused or failed call is told.
//!
//! Owns the error codes and the HTTP status of each. A message is for people and says what to do; it
//! holds no path, no secret and no raw error of the system: those go to the log.

use serde_json::{Value, json};

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The body is not JSON.
    ParseError,
    /// It is JSON, but no JSON-RPC 2.0 request.
    InvalidRequest,
    /// No such method.
    MethodNotFound,
    /// The parameters don't fit the method's schema.
    InvalidParams,
    /// A fault of ours; the log has it.
    Internal,
    /// No session, or one that is over.
    NotLoggedIn,
    /// `X-CSRF-Token` is missing or another session's.
    CsrfToken,
    /// The session's role may not call this method.
    Forbidden,
    /// Too many failed tries; `data.retry_after_s` says how long to wait.
    Throttled,
    /// Not the right password or token.
    LoginFailed,
    /// There is a password already.
    SetUpAlready,
    /// A turn of this session is running; `data.turn_id` names it.
    TurnRunning,
    /// As many turns as may run at once are running.
    TooManyTurns,
    /// The part that would answer is not running.
    Unavailable,
    /// It can't be done as things stand; the message says why.
    Refused,
}

impl ErrorCode {
    /// All of them, in the order of the contract.
    pub const ALL: [ErrorCode; 15] = [
        ErrorCode::ParseError,
        ErrorCode::InvalidRequest,
        ErrorCode::MethodNotFound,
        ErrorCode::InvalidParams,
        ErrorCode::Internal,
        ErrorCode::NotLoggedIn,
        ErrorCode::CsrfToken,
        ErrorCode::Forbidden,
        ErrorCode::Throttled,
        ErrorCode::LoginFailed,
        ErrorCode::SetUpAlready,
        ErrorCode::TurnRunning,
        ErrorCode::TooManyTurns,
        ErrorCode::Unavailable,
        ErrorCode::Refused,
    ];

    /// The number in `error.code`.
    pub fn number(self) -> i32 {
        self.row().0
    }

    /// The HTTP status that goes with it. A status of 4xx means that nothing was run.
    pub fn status(self) -> u16 {
        self.row().1
    }

    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// When it happens, for the contract.
    pub fn meaning(self) -> &'static str {
        self.row().3
    }

    fn row(self) -> (i32, u16, &'static str, &'static str) {
        match self {
            ErrorCode::ParseError => (-32700, 400, "parse_error", "The body is not JSON."),
            ErrorCode::InvalidRequest => {
                (-32600, 400, "invalid_request", "The body is no single JSON-RPC 2.0 request.")
            }
            ErrorCode::MethodNotFound => {
                (-32601, 404, "method_not_found", "There is no such method.")
            }
            ErrorCode::InvalidParams => {
                (-32602, 400, "invalid_params", "The parameters don't fit the method's schema.")
            }
            ErrorCode::Internal => {
                (-32603, 500, "internal", "A fault of the node; its log has it.")
            }
            ErrorCode::NotLoggedIn => {
                (-32001, 401, "not_logged_in", "There is no session, or it is over.")
            }
            ErrorCode::CsrfToken => {
                (-32002, 403, "csrf_token", "X-CSRF-Token is missing or another session's.")
            }
            ErrorCode::Forbidden => {
                (-32003, 403, "forbidden", "The session's role may not call this method.")
            }
            ErrorCode::Throttled => (
                -32004,
                429,
                "throttled",
                "Too many failed tries; data.retry_after_s says how long to wait.",
            ),
            ErrorCode::LoginFailed => {
                (-32005, 401, "login_failed", "Not the right password or token.")
            }
            ErrorCode::SetUpAlready => {
                (-32006, 409, "set_up_already", "There is a password already.")
            }
            ErrorCode::TurnRunning => {
                (-32010, 409, "turn_running", "A turn of this session is running: data.turn_id.")
            }
            ErrorCode::TooManyTurns => {
                (-32011, 429, "too_many_turns", "As many turns as may run at once are running.")
            }
            ErrorCode::Unavailable => {
                (-32012, 503, "unavailable", "The part that would answer is not running.")
            }
            ErrorCode::Refused => {
                (-32013, 409, "refused", "It can't be done as things stand; the message says why.")
            }
        }
    }
}

/// The `error` of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// Which.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
    /// For programs; an object.
    pub data: Option<Value>,
}

impl RpcError {
    /// With a message for people.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// With data for programs as well.
    #[must_use]
    pub fn with(mut self, data: Value) -> RpcError {
        self.data = Some(data);
        self
    }

    /// The parameters don't fit; `detail` says where.
    pub fn params(detail: impl Into<String>) -> RpcError {
        let detail = detail.into();
        RpcError::new(ErrorCode::InvalidParams, format!("invalid parameters: {detail}"))
            .with(json!({ "detail": detail }))
    }

    /// The `error` object. Its data always names the error, so that programs need no numbers.
    pub fn to_json(&self) -> Value {
        let mut data = json!({ "name": self.code.name() });
        if let (Value::Object(all), Some(Value::Object(more))) = (&mut data, &self.data) {
            all.extend(more.clone());
        }
        json!({ "code": self.code.number(), "message": self.message, "data": data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_number_and_name() {
        let mut numbers: Vec<i32> = ErrorCode::ALL.iter().map(|code| code.number()).collect();
        let mut names: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((numbers.len(), names.len()), (ErrorCode::ALL.len(), ErrorCode::ALL.len()));
    }

    #[test]
    fn an_error_names_itself_and_carries_its_data() {
        let error = RpcError::new(ErrorCode::Throttled, "wait").with(json!({ "retry_after_s": 3 }));
        assert_eq!(
            error.to_json(),
            json!({ "code": -32004, "message": "wait", "data": { "name": "throttled", "retry_after_s": 3 } })
        );
    }
}
