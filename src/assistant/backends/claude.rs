//! The cloud leg: Anthropic's Messages API.
//!
//! Owns what is asked of it. The key is read from its file when it is used, goes into one header and
//! nowhere else.

mod answer;
mod request;

use reqwest::header::HeaderValue;

use super::{
    ASSISTANT_HTTP_TIMEOUT, Answer, Backend, BackendError, BackendTurn, Capabilities, Request,
};
use crate::assistant::http::{HttpClient, exchange};
use crate::config::ClaudeConfig;
use crate::secrets::{Secret, SecretName, Secrets};

/// The version of the API whose forms these are.
const VERSION: &str = "2023-06-01";

/// The leg.
#[derive(Debug)]
pub struct Claude {
    url: String,
    model: String,
    http: HttpClient,
    secrets: Secrets,
}

impl Claude {
    /// With the key of that folder. Connects later.
    pub fn new(config: &ClaudeConfig, secrets: Secrets) -> Claude {
        Claude {
            url: config.url.trim_end_matches('/').to_owned(),
            model: config.model.clone(),
            http: HttpClient::new(&config.url),
            secrets,
        }
    }

    fn key(&self) -> Result<Secret, BackendError> {
        match self.secrets.read(SecretName::ClaudeApiKey) {
            Ok(Some(key)) => Ok(key),
            Ok(None) => {
                Err(BackendError::Unconfigured("no key in secrets/claude-api-key".to_owned()))
            }
            // It names the file, never what is in it.
            Err(error) => Err(BackendError::Unconfigured(error.to_string())),
        }
    }

    async fn ask(&self, request: Request<'_>) -> Result<BackendTurn, BackendError> {
        let key = self.key()?;
        let mut header = HeaderValue::from_str(key.expose()).map_err(|_| {
            BackendError::Unconfigured("the key can't be sent in a header".to_owned())
        })?;
        header.set_sensitive(true);
        let mut budget = request::BUDGET;
        loop {
            let body = request::body(&self.model, request, budget);
            let post = self
                .http
                .get()?
                .post(format!("{}/v1/messages", self.url))
                .header("x-api-key", header.clone())
                .header("anthropic-version", VERSION)
                .json(&body);
            let reply = exchange(post, ASSISTANT_HTTP_TIMEOUT).await?;
            if reply.status == 200 {
                return answer::read(&reply, request.tools);
            }
            match answer::refusal(&reply, &self.model, &key) {
                // Another server of this form may have a smaller window.
                BackendError::TooLong if budget > request::BUDGET / 16 => budget /= 4,
                error => return Err(error),
            }
        }
    }
}

impl Backend for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn is_cloud(&self) -> bool {
        true
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { self.key().map(|_| Capabilities { tools: true }) })
    }

    fn size(&self, request: Request<'_>) -> usize {
        request::body(&self.model, request, request::BUDGET).to_string().len()
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(self.ask(request))
    }
}
