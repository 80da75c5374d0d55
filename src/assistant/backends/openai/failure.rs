//! What an OpenAI-compatible server answered without success.
//!
//! Owns the envelopes that such servers put around an error, and what it means: a wrong key, no money, a prompt
//! that is too long, a tool that can't be called, a server that is busy. Never lets the key or a token into
//! an error.

use serde_json::Value;

use super::super::BackendError;
use super::super::reading::{broken, is_broken_call};
use crate::assistant::http::{Reply, redact};
use crate::secrets::Secret;

/// The account is empty, or the token that paid is spent: no other try will do.
const NO_MONEY: [&str; 10] = [
    "insufficient_quota",
    "insufficient_balance",
    "balance_limit_exceeded",
    "minimum_balance_required",
    "billing_error",
    "payment_required",
    "token_already_spent",
    "cashu_token_already_spent",
    "token_consumed",
    "enforced_spend_limit_reached",
];
/// The server that pays out tokens is not reached: another time it may be.
const MINT: [&str; 3] = ["mint_error", "mint_unreachable", "mint_rate_limited"];
/// How servers say that a model can't call tools, or that they were not started for it.
const NO_TOOLS: [&str; 5] = [
    "does not support tools",
    "support tool use",
    "tool choice requires",
    "tools param requires",
    "does not support function",
];
const TOO_LONG: [&str; 4] = [
    "exceed_context_size_error",
    "context_length_exceeded",
    "maximum context length",
    "exceeds the available context size",
];

/// An error as it came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
    status: u16,
    message: String,
    /// Its type, its code and the parameter it is about, where they are texts.
    marks: Vec<String>,
    param: String,
    window: Option<u32>,
}

impl Failure {
    /// The failure in an answer; `None`: it is none. Some servers send one with status 200.
    pub(super) fn of(reply: &Reply) -> Option<Failure> {
        let body = reply.json().unwrap_or_default();
        let error = envelope(&body);
        if reply.status == 200 && (error.is_null() || body["choices"][0]["message"].is_object()) {
            return None;
        }
        let mut failure = Failure { status: reply.status, ..Failure::default() };
        // A status inside of an answer with status 200.
        if reply.status == 200 {
            let inner = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            failure.status = inner.filter(|code| (400..600).contains(code)).unwrap_or(500);
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        failure.message = text(error).or_else(|| text(&error["message"])).unwrap_or_default();
        failure.marks = ["type", "code"].iter().filter_map(|name| text(&error[*name])).collect();
        failure.param = text(&error["param"]).unwrap_or_default();
        failure.window = error["n_ctx"].as_u64().and_then(|window| u32::try_from(window).ok());
        Some(failure)
    }

    /// The model wants the length cap under its newer name.
    pub(super) fn wants_the_newer_cap(&self) -> bool {
        self.status == 400
            && (self.message.contains("max_completion_tokens")
                || (self.param == "max_tokens" && self.marked(&["unsupported_parameter"])))
    }

    /// The prompt did not fit the window.
    pub(super) fn is_too_long(&self) -> bool {
        matches!(self.status, 400 | 413)
            && (self.marked(&TOO_LONG) || TOO_LONG.iter().any(|part| self.message.contains(part)))
    }

    /// The window, where the server tells it with the failure.
    pub(super) fn window(&self) -> Option<u32> {
        self.window.filter(|window| *window > 0)
    }

    fn marked(&self, marks: &[&str]) -> bool {
        self.marks.iter().any(|mark| marks.contains(&mark.as_str()))
    }

    fn says(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.message.contains(part))
    }

    /// What the leg makes of it.
    pub(super) fn meaning(&self, reply: &Reply, key: Option<&Secret>, model: &str) -> BackendError {
        let status = self.status;
        if self.is_too_long() {
            return BackendError::TooLong;
        }
        if status == 402 || self.marked(&NO_MONEY) {
            return BackendError::NoMoney(self.words(key));
        }
        if self.marked(&MINT) {
            return BackendError::Overloaded { retry_after: reply.retry_after() };
        }
        match status {
            401 | 403 => BackendError::Auth(match key {
                Some(_) => "the key in secrets/openai-api-key was not accepted".to_owned(),
                None => "the server wants a key: put it into secrets/openai-api-key".to_owned(),
            }),
            400 | 404 | 422 | 500 | 501 if self.says(&NO_TOOLS) => BackendError::NoTools,
            404 if self.marked(&["model_not_found", "not_found_error", "NotFoundError"])
                || (self.message.contains("model") && self.message.contains("not")) =>
            {
                BackendError::NoModel(model.to_owned())
            }
            404 if self.message.is_empty() => BackendError::Refused {
                status,
                reason: "nothing is there: assistant.openai.url mostly ends in /v1".to_owned(),
            },
            408 | 429 | 502 | 503 | 504 | 529 => {
                BackendError::Overloaded { retry_after: reply.retry_after() }
            }
            // The words quote the model: they go nowhere.
            500 if is_broken_call(&self.message) => {
                broken("the server could not read its model's call")
            }
            _ => BackendError::Refused { status, reason: self.words(key) },
        }
    }

    /// The server's words, fit for a log.
    fn words(&self, key: Option<&Secret>) -> String {
        if self.message.is_empty() {
            return "without a reason".to_owned();
        }
        // Masked by its value first: not every key has the usual form.
        let words = match key {
            Some(key) => self.message.replace(key.expose(), "***"),
            None => self.message.clone(),
        };
        redact(&words)
    }
}

/// The error itself: under `error`, under `detail` or `detail.error`, or the body where it says that it is one.
fn envelope(body: &Value) -> &Value {
    let candidates =
        [&body["error"], &body["detail"]["error"], &body["detail"], &body["choices"][0]["error"]];
    let found = candidates.into_iter().find(|error| error.is_object() || error.is_string());
    match found {
        Some(error) => error,
        None if body["object"] == "error" || body["message"].is_string() => body,
        None => &Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(status: u16, body: &Value) -> Reply {
        Reply { status, headers: Default::default(), body: body.to_string().into_bytes() }
    }

    fn meaning(status: u16, body: &Value) -> BackendError {
        let reply = reply(status, body);
        let key = Secret::new("canary+key");
        Failure::of(&reply).unwrap().meaning(&reply, Some(&key), "m")
    }

    #[test]
    fn an_error_is_known_in_every_envelope() {
        let inner = json!({"message": "no", "type": "t", "code": "insufficient_balance"});
        for body in [
            json!({"error": inner, "request_id": "r"}),
            json!({"detail": {"error": inner}}),
            json!({"detail": inner}),
            json!({"object": "error", "message": "no", "code": "insufficient_balance"}),
        ] {
            assert_eq!(meaning(400, &body), BackendError::NoMoney("no".to_owned()), "{body}");
            assert_eq!(meaning(200, &body), BackendError::NoMoney("no".to_owned()), "{body}");
        }
        for body in [json!({"error": "plain"}), json!({"detail": "plain"})] {
            let plain = BackendError::Refused { status: 418, reason: "plain".to_owned() };
            assert_eq!(meaning(418, &body), plain, "{body}");
        }
        // A code that is a number; a status in an answer with status 200.
        let busy = json!({"error": {"code": 503, "message": "Loading model"}});
        for status in [200, 503] {
            assert_eq!(meaning(status, &busy), BackendError::Overloaded { retry_after: None });
        }
        assert_eq!(Failure::of(&reply(200, &json!({"choices": [{"message": {}}]}))), None);
    }

    #[test]
    fn each_failure_has_its_meaning() {
        let error = |kind: &str, code: &str, words: &str| json!({"error": {"type": kind, "code": code, "message": words, "param": null}});
        let refused =
            |status, words: &str| BackendError::Refused { status, reason: words.to_owned() };
        let busy = BackendError::Overloaded { retry_after: None };
        let not_accepted =
            BackendError::Auth("the key in secrets/openai-api-key was not accepted".to_owned());
        for (status, body, expected) in [
            (401, error("", "invalid_api_key", "bad"), not_accepted.clone()),
            (403, error("", "key_expired", "old"), not_accepted),
            (402, json!({}), BackendError::NoMoney("without a reason".to_owned())),
            (429, error("insufficient_quota", "x", "pay"), BackendError::NoMoney("pay".to_owned())),
            (429, error("", "rate_limit_exceeded", "slow"), busy.clone()),
            (500, error("", "token_consumed", "gone"), BackendError::NoMoney("gone".to_owned())),
            (503, error("", "mint_unreachable", "x"), busy.clone()),
            (422, error("", "mint_error", "x"), busy.clone()),
            (502, json!("bad gateway"), busy),
            (404, error("", "model_not_found", "x"), BackendError::NoModel("m".to_owned())),
            (
                404,
                json!({}),
                refused(404, "nothing is there: assistant.openai.url mostly ends in /v1"),
            ),
            (400, error("", "context_length_exceeded", "x"), BackendError::TooLong),
            (
                400,
                error(
                    "BadRequestError",
                    "",
                    "\"auto\" tool choice requires --enable-auto-tool-choice",
                ),
                BackendError::NoTools,
            ),
            (
                404,
                error("", "", "No endpoints found that support tool use."),
                BackendError::NoTools,
            ),
            (400, error("", "", "bad canary+key and sk-abc"), refused(400, "bad *** and ***")),
            (418, json!(7), refused(418, "without a reason")),
        ] {
            assert_eq!(meaning(status, &body), expected, "{status} {body}");
        }
    }

    #[test]
    fn the_newer_name_of_the_cap_is_wanted_only_where_the_server_says_so() {
        let failure = |status, param: &str, code: &str, words: &str| {
            let body = json!({"error": {"message": words, "param": param, "code": code}});
            Failure::of(&reply(status, &body)).unwrap().wants_the_newer_cap()
        };
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                     'max_completion_tokens' instead.";
        assert!(failure(400, "max_tokens", "unsupported_parameter", words));
        assert!(failure(400, "", "", words));
        assert!(failure(400, "max_tokens", "unsupported_parameter", "no"));
        assert!(!failure(500, "max_tokens", "unsupported_parameter", words));
        assert!(!failure(400, "max_tokens", "invalid_value", "max_tokens is too large"));
    }
}
