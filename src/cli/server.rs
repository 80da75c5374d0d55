//! The model server, as it is written on a command line, and as its failures are told there.
//!
//! Owns what Ollama's own tools take for an address. Asks for nothing itself but the list of models.

use crate::assistant::backends::BackendError;
use crate::assistant::backends::ollama;

/// Where it is unless written otherwise.
pub const DEFAULT_HOST: &str = "http://localhost:11434";

/// Takes what Ollama's own tools take: an address without scheme or port too, and the address to listen on.
pub fn base_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = match authority {
        "" => "localhost".to_owned(),
        // One can listen on every address, but not connect to it.
        _ => match authority.strip_prefix("0.0.0.0") {
            Some(port) => format!("127.0.0.1{port}"),
            None => authority.to_owned(),
        },
    };
    let after_brackets = authority.rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
    let has_port = after_brackets.contains(':');
    // A scheme that was written has a port of its own.
    let port = if has_port || host.contains("://") { "" } else { ":11434" };
    format!("{scheme}://{authority}{port}{path}")
}

/// Nobody is there.
pub fn absent(url: &str) -> String {
    format!("no Ollama at {url}; start it with: ollama serve")
}

/// The server does not have the model; names those that it has.
pub async fn without_model(url: &str, model: &str) -> String {
    match ollama::models(url).await {
        Ok(models) if !models.is_empty() => {
            format!("the server has no model {model}; it has: {}", models.join(", "))
        }
        _ => format!("the server has no model {model}; get it with: ollama pull {model}"),
    }
}

/// One line for a leg's error.
pub async fn explain(url: &str, model: &str, error: &BackendError) -> String {
    match error {
        BackendError::Unreachable(why) if why.starts_with("no connection") => absent(url),
        BackendError::NoModel(_) => without_model(url, model).await,
        BackendError::Refused { status, reason } if reason.is_empty() => {
            format!("{url} answered with status {status}; is it Ollama?")
        }
        error => format!("{url}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_can_be_written_as_for_ollama() {
        for (written, meant) in [
            ("http://localhost:11434", "http://localhost:11434"),
            ("http://localhost:11434/", "http://localhost:11434"),
            ("192.0.2.1:1234", "http://192.0.2.1:1234"),
            ("192.0.2.1", "http://192.0.2.1:11434"),
            ("box.local", "http://box.local:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("[::1]", "http://[::1]:11434"),
            ("https://models.example", "https://models.example"),
            ("", "http://localhost:11434"),
        ] {
            assert_eq!(base_url(written), meant, "{written}");
        }
    }
}
