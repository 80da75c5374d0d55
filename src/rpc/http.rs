//! `POST /rpc`: from a request's headers and bytes to the dispatcher, and back.
//!
//! Owns what HTTP says of a call: origin, content type, size, cookie, CSRF header, status. Knows no
//! method. A status of 4xx means that nothing was run.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::Services;
use super::auth::{Client, Token};
use super::dispatcher::dispatch;
use super::error::{ErrorCode, RpcError};
use super::message;
use crate::store::Durability;
use crate::web::connection::Peer;

/// The session's cookie.
pub const COOKIE: &str = "tombolo_session";
/// The header that proves that our own page sent the call.
pub const CSRF_HEADER: HeaderName = HeaderName::from_static("x-csrf-token");
/// A body may be so long.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
/// A longer body is read to its end all the same, up to this and into nowhere: a client that is cut off
/// while it sends never sees why.
const MAX_DRAINED_BYTES: usize = 16 * 1024 * 1024;
/// The whole body must be there within this.
const BODY_TIME: Duration = Duration::from_secs(15);
/// As long as an ended session is remembered: the browser keeps the cookie, so that its next login finds
/// its transcript again.
const COOKIE_SECONDS: u64 = super::auth::sessions::REMEMBER_MS / 1000;
/// Tokens looked at in one request; other programs on this host can add cookies of the same name.
const MAX_TOKENS: usize = 4;

/// Serves one call.
pub async fn post(State(services): State<Arc<Services>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let host = services.hosts.of(&head.uri, &head.headers).unwrap_or_default();
    if !origin_is_ours(&services, &head.headers, host) {
        return plain(StatusCode::FORBIDDEN, "this origin may not call the node");
    }
    if !is_json(&head.headers) {
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send Content-Type: application/json");
    }
    let body = match read(&head.headers, body).await {
        Ok(body) => body,
        Err((status, text)) => return plain(status, text),
    };
    let request = match message::read(&body) {
        Ok(request) => request,
        Err(refused) => return error(&refused.id, &refused.error),
    };
    let peer = head.extensions.get::<Peer>();
    let client = services.client(&head.headers, peer);
    let csrf = head.headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
    let id = request.id.clone();
    let outcome = dispatch(&services, &client, csrf, request).await;
    // When the session was last seen; at most once a minute, and no reason to fail.
    let _ = services.auth.save(Durability::Process).await;
    let mut response = match (outcome.result, id) {
        (Ok(result), Some(id)) => json(StatusCode::OK, &message::result(&id, result)),
        (Ok(_), None) => StatusCode::NO_CONTENT.into_response(),
        (Err(refused), id) => error(&id.unwrap_or_default(), &refused),
    };
    if let Some(token) = outcome.new_token {
        let tls = is_tls(&head.headers) || services.forwarded.is_tls(&head.headers, peer);
        set_cookie(&mut response, &token, tls);
    }
    response
}

/// What a browser at that address shows of itself.
pub fn client(headers: &HeaderMap, address: IpAddr) -> Client {
    let tokens = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE)
        .filter_map(|(_, value)| Token::parse(value))
        .take(MAX_TOKENS)
        .collect();
    Client { address, tokens }
}

/// Puts the session's token into the browser.
pub fn set_cookie(response: &mut Response, token: &Token, tls: bool) {
    let secure = if tls { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}",
        token.text()
    );
    if let Ok(mut value) = HeaderValue::from_str(&cookie) {
        value.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// An absent one passes: programs send none, and every browser sends one with a POST.
pub(super) fn origin_is_ours(services: &Services, headers: &HeaderMap, host: &str) -> bool {
    headers
        .get_all(header::ORIGIN)
        .iter()
        .all(|origin| origin.to_str().is_ok_and(|origin| services.hosts.same_origin(origin, host)))
}

fn is_tls(headers: &HeaderMap) -> bool {
    headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

// A form of another site can't send this type without asking first.
fn is_json(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return false };
    value.to_str().is_ok_and(|value| {
        let kind = value.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    })
}

type Refusal = (StatusCode, &'static str);

async fn read(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Refusal> {
    const TOO_LARGE: Refusal =
        (StatusCode::PAYLOAD_TOO_LARGE, "a call may have at most 65536 bytes");
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > MAX_DRAINED_BYTES as u64) {
        return Err(TOO_LARGE);
    }
    let reading = async {
        let (mut kept, mut seen) = (Vec::new(), 0usize);
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk: Bytes =
                chunk.map_err(|_| (StatusCode::BAD_REQUEST, "the body broke off"))?;
            seen = seen.saturating_add(chunk.len());
            if seen > MAX_DRAINED_BYTES {
                return Err(TOO_LARGE);
            }
            if seen <= MAX_BODY_BYTES {
                kept.extend_from_slice(&chunk);
            }
        }
        if seen > MAX_BODY_BYTES { Err(TOO_LARGE) } else { Ok(kept) }
    };
    let late = (StatusCode::REQUEST_TIMEOUT, "the body took too long");
    tokio::time::timeout(BODY_TIME, reading).await.unwrap_or(Err(late))
}

fn error(id: &Value, error: &RpcError) -> Response {
    let status =
        StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, &message::error(id, error));
    let wait = error.data.as_ref().and_then(|data| data.get("retry_after_s"));
    if error.code == ErrorCode::Throttled
        && let Some(wait) = wait.and_then(Value::as_u64)
    {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}

fn json(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, body.to_string()).into_response()
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_among_other_cookies() {
        let token = "A".repeat(43);
        for (cookie, found) in [
            (format!("tombolo_session={token}"), 1),
            (format!("a=b; tombolo_session={token};c=d"), 1),
            (format!("tombolo_session=x; tombolo_session={token}"), 1),
            (format!("tombolo_session={token}; ").repeat(9), MAX_TOKENS),
            (format!("xtombolo_session={token}; tombolo_session_={token}"), 0),
            (format!("tombolo_session=\"{token}\""), 0),
            ("tombolo_session".to_owned(), 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_str(&cookie).unwrap());
            let nobody = IpAddr::from([0, 0, 0, 0]);
            assert_eq!(client(&headers, nobody).tokens.len(), found, "{cookie}");
        }
    }

    #[test]
    fn only_one_json_content_type_will_do() {
        for (values, right) in [
            (vec!["application/json"], true),
            (vec!["Application/JSON; charset=utf-8"], true),
            (vec![], false),
            (vec!["text/plain"], false),
            (vec!["text/plain; application/json"], false),
            (vec!["application/jsonx"], false),
            (vec!["application/x-www-form-urlencoded"], false),
            (vec!["application/json", "text/plain"], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(header::CONTENT_TYPE, HeaderValue::from_static(value));
            }
            assert_eq!(is_json(&headers), right, "{values:?}");
        }
    }
}
