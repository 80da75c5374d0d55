//! `ai_local`: the models on this node's own server.
//!
//! Owns the tool and its words. Asks the local server what it has and what it holds in memory; loads and
//! unloads nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::system::size;
use crate::assistant::PermissionCategory;
use crate::assistant::backends::ollama::load;
use crate::assistant::http::{HttpClient, exchange};
use crate::assistant::tools::{Description, ToolDef};
use crate::invisible;

/// The server answers these at once, or isn't there.
const TIME: Duration = Duration::from_secs(3);
/// Models that are listed.
const MAX_MODELS: usize = 30;
/// Characters of a word of the server's.
const MAX_WORD: usize = 60;

/// The local server.
#[derive(Debug)]
struct Server {
    url: String,
    http: HttpClient,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// `ai_models`, for the server at `url`.
pub(super) fn tools(url: &str) -> Vec<ToolDef> {
    let url_without_slash = url.trim_end_matches('/').to_owned();
    let server = Arc::new(Server { url: url_without_slash, http: HttpClient::new(url) });
    let about = Description::reads(
        PermissionCategory::AiLocal,
        "ai_models",
        "Local language models: installed, in memory now, last load time.",
    );
    let tool = ToolDef::new(about, move |NoArguments {}| {
        let server = server.clone();
        Box::pin(async move { server.words(load::last()).await })
    });
    vec![tool.with_own_results()]
}

impl Server {
    async fn words(&self, load: Option<Duration>) -> Result<String, String> {
        let installed = self.get("/api/tags").await?;
        // An older server has no list of what runs.
        let running = self.get("/api/ps").await.ok();
        let mut words = "installed:\n".to_owned();
        words.push_str(&lines(&installed, installed_model));
        words.push_str("\nin memory:\n");
        match running {
            Some(running) => words.push_str(&lines(&running, running_model)),
            None => words.push_str("- the server doesn't say"),
        }
        if let Some(load) = load {
            words.push_str(&format!("\nlast load: {:.1} s", load.as_secs_f32()));
        }
        Ok(words)
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        let unreachable = || "the local model server can't be reached".to_owned();
        let client = self.http.get().map_err(|_| unreachable())?;
        let request = client.get(format!("{}{path}", self.url));
        let reply = exchange(request, TIME).await.map_err(|_| unreachable())?;
        match reply.json() {
            Some(body) if reply.status == 200 && body["models"].is_array() => Ok(body),
            _ => Err("the local model server gave no list of models".to_owned()),
        }
    }
}

fn lines(body: &Value, line: impl Fn(&Value) -> String) -> String {
    let models = body["models"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> =
        models.iter().take(MAX_MODELS).map(|model| format!("- {}", line(model))).collect();
    match models.len() {
        0 => lines.push("- none".to_owned()),
        count if count > MAX_MODELS => lines.push(format!("- [{} more]", count - MAX_MODELS)),
        _ => {}
    }
    lines.join("\n")
}

fn installed_model(model: &Value) -> String {
    let mut words = word(&model["name"]);
    let details = &model["details"];
    let facts = [word(&details["parameter_size"]), word(&details["quantization_level"])];
    for fact in facts.iter().filter(|fact| !fact.is_empty()) {
        words.push_str(&format!(", {fact}"));
    }
    if let Some(bytes) = model["size"].as_u64() {
        words.push_str(&format!(", {}", size(bytes)));
    }
    words
}

fn running_model(model: &Value) -> String {
    let mut words = word(&model["name"]);
    if let Some(bytes @ 1..) = model["size"].as_u64() {
        let graphics = model["size_vram"].as_u64().unwrap_or(0).min(bytes);
        let percent = u128::from(graphics) * 100 / u128::from(bytes);
        words.push_str(&format!(", {} in memory, {percent} % of it on a GPU", size(bytes)));
    }
    if let Some(window) = model["context_length"].as_u64() {
        words.push_str(&format!(", window {window} tokens"));
    }
    let until = word(&model["expires_at"]);
    // To the minute: `2026-11-30T21:08`.
    if let Some(until) = until.get(..16) {
        words.push_str(&format!(", until {}", until.replace('T', " ")));
    }
    words
}

/// A text of the server's as one bounded word.
fn word(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    invisible::word(text, MAX_WORD)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Json, Router};
    use serde_json::json;

    use super::*;

    /// A server with these two lists; `None`: it has no such path.
    async fn server(tags: Value, running: Option<Value>) -> Server {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut router = Router::new().route("/api/tags", get(move || async move { Json(tags) }));
        if let Some(running) = running {
            router = router.route("/api/ps", get(move || async move { Json(running) }));
        }
        tokio::spawn(async move { axum::serve(listener, router).await });
        Server { http: HttpClient::new(&url), url }
    }

    #[tokio::test]
    async fn what_is_installed_and_what_runs_is_told() {
        let tags = json!({"models": [
            {"name": "qwen3:4b", "size": 2_600_000_000_u64,
             "details": {"parameter_size": "4.0B", "quantization_level": "Q4_K_M"}},
            {"name": "bare\u{1b}[2J"}
        ]});
        let running = json!({"models": [{
            "name": "qwen3:4b", "size": 3_000_000_000_u64, "size_vram": 1_500_000_000_u64,
            "expires_at": "2026-11-30T21:08:01.094832758Z", "context_length": 8192
        }]});
        let server = server(tags, Some(running)).await;
        assert_eq!(
            server.words(Some(Duration::from_millis(3200))).await.unwrap(),
            "installed:\n- qwen3:4b, 4.0B, Q4_K_M, 2.6 GB\n- bare[2J\nin memory:\n\
             - qwen3:4b, 3.0 GB in memory, 50 % of it on a GPU, window 8192 tokens, until 2026-11-30 21:08\n\
             last load: 3.2 s"
        );
    }

    #[tokio::test]
    async fn an_old_a_broken_and_a_missing_server_end_in_a_line() {
        let old = server(json!({"models": []}), None).await;
        assert_eq!(
            old.words(None).await.unwrap(),
            "installed:\n- none\nin memory:\n- the server doesn't say"
        );
        let broken = server(json!({"models": 7}), None).await;
        assert!(broken.words(None).await.unwrap_err().contains("no list"));
        let missing = Server {
            url: "http://127.0.0.1:1".to_owned(),
            http: HttpClient::new("http://127.0.0.1:1"),
        };
        assert!(missing.words(None).await.unwrap_err().contains("can't be reached"));
        // The address is nobody's business.
        assert!(!missing.words(None).await.unwrap_err().contains("127"));
    }

    #[test]
    fn the_list_is_bounded() {
        let models = |count: usize| json!({"models": vec![json!({"name": "m"}); count]});
        for (count, more) in [(MAX_MODELS, false), (MAX_MODELS + 1, true)] {
            let text = lines(&models(count), installed_model);
            assert_eq!(text.contains("[1 more]"), more);
            assert_eq!(text.lines().count(), count);
        }
    }
}
