//! The local leg: Ollama's `/api/chat`.
//!
//! Owns its wire format. Sends nothing anywhere else.

use super::{Answer, Backend, BackendError, BackendTurn, Capabilities, Request};
use crate::config::OllamaConfig;

/// The leg.
#[derive(Debug)]
pub struct Ollama {}

impl Ollama {
    /// For that server and model. Connects later.
    pub fn new(_config: &OllamaConfig) -> Ollama {
        Ollama {}
    }
}

/// The models that the server has.
pub async fn models(_url: &str) -> Result<Vec<String>, BackendError> {
    Err(BackendError::Unreachable("being written".to_owned()))
}

impl Backend for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn is_cloud(&self) -> bool {
        false
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Err(BackendError::Unreachable("being written".to_owned())) })
    }

    fn send<'a>(&'a self, _request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(async { Err(BackendError::Unreachable("being written".to_owned())) })
    }
}
