//! How a leg speaks HTTP.
//!
//! Owns the clients' settings, the limits of time and size, and which words of a failure may be kept. Knows
//! no path and no body.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, Url};
use rustls::crypto::ring;
use serde_json::Value;

use super::backends::BackendError;
use crate::invisible::hidden;

/// No answer of a model server may be larger, in bytes.
pub const MAX_BODY: usize = 1 << 20;
/// A server on the same machine or network answers at once, or isn't there.
const CONNECT_NEAR: Duration = Duration::from_secs(2);
/// Name, connection and handshake of a server behind a slow uplink.
const CONNECT_FAR: Duration = Duration::from_secs(10);
/// Characters of a server's own words that are kept.
const MAX_WORDS: usize = 200;
/// What a key or a token of money begins with.
const SECRET_MARKS: [&str; 4] = ["sk-", "cashuA", "cashuB", "Bearer "];

/// A client for one server, built when it is first used: the system's certificates cost memory and time,
/// and a plain connection needs none.
#[derive(Debug)]
pub struct HttpClient {
    tls: bool,
    client: OnceLock<Client>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// HTTP.
    pub status: u16,
    /// As they came.
    pub headers: HeaderMap,
    /// At most [`MAX_BODY`].
    pub body: Vec<u8>,
}

impl HttpClient {
    /// For a server at `http://…` or `https://…`.
    pub fn new(url: &str) -> HttpClient {
        let tls = url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
        HttpClient { tls, client: OnceLock::new() }
    }

    /// The client itself.
    pub fn get(&self) -> Result<&Client, BackendError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let built = if self.tls { with_roots() } else { without_roots() };
        let built = built.map_err(|error| BackendError::Unreachable(describe(error)))?;
        Ok(self.client.get_or_init(|| built))
    }
}

/// Encrypted, or not leaving this machine.
pub fn is_private_way(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return true };
    url.scheme() != "http"
        || url.host_str().is_some_and(|host| {
            host == "localhost"
                || host
                    .trim_matches(['[', ']'])
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        })
}

/// No proxy and no redirect: what is sent goes to the server that was configured, and to no other.
fn settings(connect: Duration) -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(connect)
        .user_agent(concat!("tombolo/", env!("CARGO_PKG_VERSION")))
}

fn without_roots() -> reqwest::Result<Client> {
    let provider = Arc::new(ring::default_provider());
    let near = settings(CONNECT_NEAR);
    let near = match rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
    {
        Ok(config) => {
            let roots = rustls::RootCertStore::empty();
            near.tls_backend_preconfigured(
                config.with_root_certificates(roots).with_no_client_auth(),
            )
        }
        Err(_) => near,
    };
    near.build()
}

fn with_roots() -> reqwest::Result<Client> {
    // Fails when it was done before, which is as good.
    let _ = ring::default_provider().install_default();
    settings(CONNECT_FAR).https_only(true).build()
}

/// Sends and takes the whole answer, all of it within that time.
pub async fn exchange(request: RequestBuilder, within: Duration) -> Result<Reply, BackendError> {
    let whole = async {
        let mut response = request.send().await.map_err(unreachable)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = body(&mut response).await?;
        Ok(Reply { status, headers, body })
    };
    tokio::time::timeout(within, whole).await.unwrap_or_else(|_| {
        Err(BackendError::Unreachable(format!("no answer within {} s", within.as_secs())))
    })
}

async fn body(response: &mut Response) -> Result<Vec<u8>, BackendError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(BackendError::Broken("the answer is larger than 1 MiB".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl Reply {
    /// The body, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// `Retry-After` in seconds; a date is not understood.
    pub fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get("retry-after")?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

/// A failure of the connection, as a leg's error.
pub fn unreachable(error: reqwest::Error) -> BackendError {
    BackendError::Unreachable(describe(error))
}

/// The cause, without the address that was asked.
fn describe(error: reqwest::Error) -> String {
    let what = if error.is_connect() {
        "no connection"
    } else if error.is_body() || error.is_decode() {
        "the answer broke off"
    } else if error.is_builder() {
        "the address or the client can't be used"
    } else {
        "the request failed"
    };
    let mut cause: &dyn Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    // The outermost error names the address; only a deeper one is of use.
    if error.source().is_some() {
        format!("{what}: {}", redact(&cause.to_string()))
    } else {
        what.to_owned()
    }
}

/// A server's words, fit for a log: short, on one line, and without anything that looks like a key.
pub fn redact(words: &str) -> String {
    let mut text: String =
        words.chars().map(|c| if hidden(c) { ' ' } else { c }).take(4 * MAX_WORDS).collect();
    for mark in SECRET_MARKS {
        let mut rest = text.as_str();
        let mut masked = String::new();
        while let Some(at) = rest.find(mark) {
            let after = at + mark.len();
            let end = rest[after..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || "-_+/=.".contains(c)))
                .map_or(rest.len(), |length| after + length);
            masked.push_str(&rest[..at]);
            masked.push_str("***");
            rest = &rest[end..];
        }
        masked.push_str(rest);
        text = masked;
    }
    match text.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_masked_wherever_they_stand() {
        let words = "bad key sk-ant-api03-AbC_9 or (cashuBo2F0)\nfor Bearer abc.def!";
        assert_eq!(redact(words), "bad key *** or (***) for ***!");
        assert_eq!(redact("a sk-1 sk-2"), "a *** ***");
        // The end of a key is never what is left by the cut.
        let long = format!("{}sk-{}", "x".repeat(MAX_WORDS - 2), "k".repeat(900));
        assert!(!redact(&long).contains('k'));
    }

    #[test]
    fn words_are_cut_after_their_limit_and_not_before() {
        assert_eq!(redact(&"é".repeat(MAX_WORDS)), "é".repeat(MAX_WORDS));
        assert_eq!(redact(&"é".repeat(MAX_WORDS + 1)), format!("{}…", "é".repeat(MAX_WORDS)));
    }

    #[test]
    fn both_clients_can_be_built() {
        assert!(HttpClient::new("http://127.0.0.1:1").get().is_ok());
        let far = HttpClient::new("HTTPS://example.invalid");
        assert!(far.tls);
        assert!(far.get().is_ok());
    }
}
