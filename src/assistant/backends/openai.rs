//! The leg of OpenAI's form: Routstr, OpenRouter, llama.cpp, vLLM, LM Studio and others.
//!
//! Owns what is asked of the server and what is remembered of it. The key is read from its file when it is
//! used, goes into one header and nowhere else; what comes back beside the answer (change, balances) is not
//! looked at. Never streams: a call has to be whole before it is looked at.

mod answer;
mod failure;
mod request;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::RequestBuilder;
use reqwest::header::HeaderValue;
use serde_json::Value;

use super::{
    ASSISTANT_HTTP_TIMEOUT, Answer, Backend, BackendError, BackendTurn, Capabilities, Request,
    window,
};
use crate::assistant::http::{HttpClient, Reply, exchange, is_private_way};
use crate::config::OpenaiConfig;
use crate::secrets::{Secret, SecretName, Secrets};
use failure::Failure;
use request::Cap;

/// A local server that is there tells its models at once.
const MODELS_TIMEOUT: Duration = Duration::from_secs(2);
/// A prompt is kept within this window, in tokens, however large the model's is: here as for Ollama.
const MAX_LOCAL_WINDOW: u32 = 8192;
/// The window of a local model that can't be discovered.
const UNKNOWN_WINDOW: u32 = 4096;
/// A cloud model's is not asked for: the list of models may have hundreds. None that calls tools has less, and
/// more of a conversation is not sent away.
const CLOUD_WINDOW: u32 = 16_384;

/// The leg.
#[derive(Debug)]
pub struct Openai {
    url: String,
    model: String,
    local: bool,
    http: HttpClient,
    secrets: Secrets,
    /// In tokens; asked once where the server is local, and learned from a refusal.
    window: Mutex<Option<u32>>,
    /// The server has said that its model can't call tools.
    toolless: AtomicBool,
    /// The server has refused `max_tokens`.
    newer_cap: AtomicBool,
}

impl Openai {
    /// With the key of that folder. Connects later.
    pub fn new(config: &OpenaiConfig, secrets: Secrets) -> Openai {
        Openai {
            url: config.url.trim_end_matches('/').to_owned(),
            model: config.model.clone(),
            local: config.local,
            http: HttpClient::new(&config.url),
            secrets,
            window: Mutex::new(None),
            toolless: AtomicBool::new(false),
            newer_cap: AtomicBool::new(false),
        }
    }

    /// `None`: a local server that wants none.
    fn key(&self) -> Result<Option<Secret>, BackendError> {
        match self.secrets.read(SecretName::OpenaiApiKey) {
            Ok(Some(_)) if !is_private_way(&self.url) => Err(BackendError::Unconfigured(
                "the key would cross the network in the clear: write https:// in assistant.openai.url, or \
                 remove secrets/openai-api-key"
                    .to_owned(),
            )),
            Ok(None) if !self.local => Err(BackendError::Unconfigured(
                "no key in secrets/openai-api-key".to_owned(),
            )),
            Ok(key) => Ok(key),
            // It names the file, never what is in it.
            Err(error) => Err(BackendError::Unconfigured(error.to_string())),
        }
    }

    fn with_key(
        &self,
        request: RequestBuilder,
        key: Option<&Secret>,
    ) -> Result<RequestBuilder, BackendError> {
        let Some(key) = key else { return Ok(request) };
        let mut header =
            HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| {
                BackendError::Unconfigured("the key can't be sent in a header".to_owned())
            })?;
        header.set_sensitive(true);
        Ok(request.header("authorization", header))
    }

    /// What the server says of its models.
    async fn models(&self) -> Result<Reply, BackendError> {
        let key = self.key()?;
        let get = self.http.get()?.get(format!("{}/models", self.url));
        let reply = exchange(self.with_key(get, key.as_ref())?, MODELS_TIMEOUT).await?;
        match reply.status {
            // A server without such a list is none the worse.
            200 | 404 | 405 | 501 => Ok(reply),
            _ => Err(self.refused(&reply, key.as_ref())),
        }
    }

    /// The window, in tokens.
    async fn window(&self) -> Result<u32, BackendError> {
        if let Some(window) = *self.lock() {
            return Ok(window);
        }
        let window = if self.local {
            let listed = match self.models().await {
                // Larger than any use: the server is there, and nothing is known of it.
                Err(BackendError::Broken(_)) => None,
                reply => answer::window(&reply?, &self.model),
            };
            listed.unwrap_or(UNKNOWN_WINDOW).min(MAX_LOCAL_WINDOW)
        } else {
            CLOUD_WINDOW
        };
        // Another turn may have asked at the same time; the first answer stays.
        Ok(*self.lock().get_or_insert(window))
    }

    async fn exchange(&self, body: &Value, key: Option<&Secret>) -> Result<Reply, BackendError> {
        let post = self.http.get()?.post(format!("{}/chat/completions", self.url)).json(body);
        exchange(self.with_key(post, key)?, ASSISTANT_HTTP_TIMEOUT).await
    }

    async fn ask(&self, request: Request<'_>) -> Result<BackendTurn, BackendError> {
        let key = self.key()?;
        let window = self.window().await?;
        if self.toolless.load(Ordering::Relaxed) && !request.tools.is_empty() {
            return Err(BackendError::NoTools);
        }
        let mut budget = window::budget(window);
        let mut shorter = false;
        loop {
            let body = self.body(request, budget);
            let reply = self.exchange(&body, key.as_ref()).await?;
            let failure = Failure::of(&reply);
            let Some(failure) = failure else { return answer::read(&reply, request.tools) };
            if failure.wants_the_newer_cap() && !self.newer_cap.swap(true, Ordering::Relaxed) {
                continue;
            }
            if failure.is_too_long() && !shorter {
                // The window is smaller than was thought, or the text has more tokens than it was
                // estimated to have.
                shorter = true;
                if let Some(smaller) = failure.window().filter(|smaller| *smaller < window) {
                    *self.lock() = Some(smaller);
                    budget = window::budget(smaller);
                } else {
                    budget /= 2;
                }
                continue;
            }
            let error = failure.meaning(&reply, key.as_ref(), &self.model);
            if error == BackendError::NoTools {
                self.toolless.store(true, Ordering::Relaxed);
            }
            return Err(error);
        }
    }

    fn body(&self, request: Request<'_>, budget: usize) -> Value {
        let cap = if self.newer_cap.load(Ordering::Relaxed) { Cap::Newer } else { Cap::Older };
        request::body(&self.model, request, budget, cap)
    }

    fn refused(&self, reply: &Reply, key: Option<&Secret>) -> BackendError {
        Failure::of(reply).unwrap_or_default().meaning(reply, key, &self.model)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: !self.toolless.load(Ordering::Relaxed) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<u32>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Openai {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn is_cloud(&self) -> bool {
        !self.local
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async {
            self.key()?;
            self.window().await?;
            Ok(self.capabilities())
        })
    }

    fn there(&self) -> Answer<'_, Capabilities> {
        Box::pin(async {
            if self.local {
                // What is remembered of the server doesn't say that it still answers.
                self.models().await?;
            }
            self.available().await
        })
    }

    fn size(&self, request: Request<'_>) -> usize {
        let window = self.lock().unwrap_or(CLOUD_WINDOW);
        self.body(request, window::budget(window)).to_string().len()
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(self.ask(request))
    }
}
