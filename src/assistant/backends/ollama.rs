//! The local leg: Ollama's `/api/chat`.
//!
//! Owns what is asked of the server and what is remembered of it. Sends nothing anywhere else, and never
//! streams: a call has to be whole before it is looked at.

mod answer;
mod json;
pub mod load;
mod request;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    ASSISTANT_HTTP_TIMEOUT, Answer, Backend, BackendError, BackendTurn, Capabilities, Request,
    window,
};
use crate::assistant::http::{HttpClient, Reply, exchange};
use crate::config::{OllamaConfig, Protocol};

pub use super::reading::synthesize_call_id;
pub use json::JsonProtocol;

/// A server that is there tells its models at once.
const TAGS_TIMEOUT: Duration = Duration::from_secs(1);
/// And what a model can do nearly so.
const SHOW_TIMEOUT: Duration = Duration::from_secs(2);
/// The window that is asked for, in tokens, if the model has it: more costs memory for nothing here.
const MAX_CTX: u32 = 8192;
/// The window that is asked for when the model's can't be discovered.
const UNKNOWN_CTX: u32 = 4096;
/// Model names that are kept of a list.
const MAX_MODELS: usize = 200;

/// The leg.
#[derive(Debug)]
pub struct Ollama {
    url: String,
    model: String,
    http: HttpClient,
    /// Asked once: a change of the window would make the server load the model anew.
    shown: Mutex<Option<Shown>>,
}

/// What `/api/show` told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    /// `None`: the server does not say; it is tried.
    tools: Option<bool>,
    num_ctx: u32,
    /// It only passes on what it is sent.
    elsewhere: bool,
}

impl Ollama {
    /// For that server and model. Connects later.
    pub fn new(config: &OllamaConfig) -> Ollama {
        Ollama {
            url: config.url.trim_end_matches('/').to_owned(),
            model: config.model.clone(),
            http: HttpClient::new(&config.url),
            shown: Mutex::new(None),
        }
    }

    /// Can the model call tools? Asked once in the life of this leg; a server that doesn't say is tried.
    pub async fn model_supports_tools(&self) -> Result<bool, BackendError> {
        Ok(self.shown().await?.tools.unwrap_or(true))
    }

    async fn shown(&self) -> Result<Shown, BackendError> {
        if let Some(shown) = *self.lock() {
            return Ok(shown);
        }
        let shown = self.show().await?;
        // Another turn may have asked at the same time; the first answer stays.
        Ok(*self.lock().get_or_insert(shown))
    }

    async fn show(&self) -> Result<Shown, BackendError> {
        let unknown = Shown { tools: None, num_ctx: UNKNOWN_CTX, elsewhere: false };
        let body = json!({ "model": self.model });
        let request = self.http.get()?.post(format!("{}/api/show", self.url)).json(&body);
        let reply = match exchange(request, SHOW_TIMEOUT).await {
            // Larger than any use: the model is there, and nothing is known of it.
            Err(BackendError::Broken(_)) => return Ok(unknown),
            reply => reply?,
        };
        let body = reply.json();
        match (reply.status, body) {
            (200, Some(body)) => Ok(Shown {
                tools: capability(&body, "tools"),
                num_ctx: context_length(&body).map_or(UNKNOWN_CTX, |length| length.min(MAX_CTX)),
                elsewhere: body["remote_host"].as_str().is_some_and(|host| !host.is_empty()),
            }),
            (404, Some(body)) if body["error"].is_string() => Err(self.no_model().await),
            (200 | 404 | 405, _) => Ok(unknown),
            _ => Err(answer::refusal(&reply)),
        }
    }

    /// One request; `budget` is what the prompt may take, in tokens.
    async fn post(
        &self,
        request: Request<'_>,
        shown: Shown,
        budget: usize,
    ) -> Result<Reply, BackendError> {
        self.exchange(&request::body(&self.model, shown.num_ctx, request, budget)).await
    }

    async fn exchange(&self, body: &Value) -> Result<Reply, BackendError> {
        let request = self.http.get()?.post(format!("{}/api/chat", self.url)).json(body);
        let reply = exchange(request, ASSISTANT_HTTP_TIMEOUT).await?;
        load::note(&reply.body);
        Ok(reply)
    }

    async fn ask(&self, request: Request<'_>) -> Result<BackendTurn, BackendError> {
        let shown = self.shown().await?;
        if shown.tools == Some(false) && !request.tools.is_empty() {
            return Err(BackendError::NoTools);
        }
        let budget = window::budget(shown.num_ctx);
        let mut reply = self.post(request, shown, budget).await?;
        if answer::is_too_long(&reply) {
            // The text has more tokens than it was estimated to have.
            reply = self.post(request, shown, budget / 2).await?;
        }
        if reply.status == 200 {
            return answer::read(&reply, request.tools);
        }
        Err(self.refused(&reply, shown).await)
    }

    /// The error of another status than 200; what it tells of the server is remembered.
    async fn refused(&self, reply: &Reply, shown: Shown) -> BackendError {
        match answer::refusal(reply) {
            BackendError::NoTools => {
                self.lock().get_or_insert(shown).tools = Some(false);
                BackendError::NoTools
            }
            BackendError::NoModel(_) => {
                // Another model may come under that name.
                *self.lock() = None;
                self.no_model().await
            }
            error => error,
        }
    }

    /// The error that names the models that there are.
    async fn no_model(&self) -> BackendError {
        let there = match list(&self.http, &self.url).await {
            Ok(models) if models.is_empty() => "the server has none".to_owned(),
            Ok(models) => format!("the server has {}", models.join(", ")),
            Err(_) => "the server does not tell which it has".to_owned(),
        };
        BackendError::NoModel(format!("{}; {there}", self.model))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    /// By its name, or once the server has said so: [`Backend::available`] asks.
    fn is_cloud(&self) -> bool {
        runs_elsewhere(&self.model) || self.lock().is_some_and(|shown| shown.elsewhere)
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Ok(Capabilities { tools: self.model_supports_tools().await? }) })
    }

    fn there(&self) -> Answer<'_, Capabilities> {
        Box::pin(async {
            // What the model can do is asked once; whether the server still answers, each time.
            list(&self.http, &self.url).await?;
            self.available().await
        })
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(self.ask(request))
    }
}

/// The leg of the configuration, with its protocol.
pub fn leg(config: &OllamaConfig) -> Box<dyn Backend> {
    let server = Ollama::new(config);
    match config.protocol {
        Protocol::Native => Box::new(server),
        Protocol::Json => Box::new(JsonProtocol::new(server)),
    }
}

/// The models that the server has.
pub async fn models(url: &str) -> Result<Vec<String>, BackendError> {
    list(&HttpClient::new(url), url.trim_end_matches('/')).await
}

async fn list(http: &HttpClient, url: &str) -> Result<Vec<String>, BackendError> {
    let reply = exchange(http.get()?.get(format!("{url}/api/tags")), TAGS_TIMEOUT).await?;
    if reply.status != 200 {
        return Err(answer::refusal(&reply));
    }
    let body = reply.json().unwrap_or_default();
    let Some(models) = body["models"].as_array() else {
        return Err(BackendError::Broken("this is no list of models".to_owned()));
    };
    let names = models.iter().filter_map(|model| model["name"].as_str()).map(str::to_owned);
    Ok(names.take(MAX_MODELS).collect())
}

/// Is that the name of a model that Ollama passes on to its own cloud: `glm-4.6:cloud`, `gpt-oss:120b-cloud`?
fn runs_elsewhere(model: &str) -> bool {
    let tag = model.rsplit('/').next().and_then(|name| name.rsplit_once(':')).map(|(_, tag)| tag);
    tag.map(str::to_ascii_lowercase).is_some_and(|tag| tag == "cloud" || tag.ends_with("-cloud"))
}

fn capability(show: &Value, name: &str) -> Option<bool> {
    let capabilities = show["capabilities"].as_array()?;
    Some(capabilities.iter().any(|capability| capability == name))
}

/// The window that the model was trained for, in tokens.
fn context_length(show: &Value) -> Option<u32> {
    let info = show["model_info"].as_object()?;
    let architecture = info.get("general.architecture")?.as_str()?;
    let length = info.get(&format!("{architecture}.context_length"))?.as_u64()?;
    u32::try_from(length).ok().filter(|length| *length > 0)
}
