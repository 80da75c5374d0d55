//! What is done with whatever a server says by itself.
//!
//! Owns that nothing it asks for is done, and how much it may ask. Starts and ends no server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ErrorData as McpError;
use rmcp::model::{ClientConfig, ClientResult, ErrorCode, ServerNotification, ServerRequest};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A server may ask so much of us in so long. Each answer waits until it reads, so one that asks and does not read would
/// fill the memory.
pub const MAX_ASKED: u32 = 600;
/// See [`MAX_ASKED`].
pub const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// Answers nothing that a server asks for but whether we are there; hears only that its tools have changed.
#[derive(Debug, Clone)]
pub struct Listener {
    /// Its tools have changed.
    pub changed: Arc<Notify>,
    asked: Arc<Mutex<(Instant, u32)>>,
    /// It has asked for too much.
    pub too_much: CancellationToken,
}

impl Listener {
    /// Of one connection.
    pub fn new() -> Listener {
        Listener {
            changed: Arc::default(),
            asked: Arc::new(Mutex::new((Instant::now(), 0))),
            too_much: CancellationToken::new(),
        }
    }

    /// Counts what it asks for; one that asks for too much is left.
    fn asks(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.0.elapsed() > ASKED_WITHIN {
            *asked = (Instant::now(), 0);
        }
        asked.1 += 1;
        if asked.1 > MAX_ASKED {
            self.too_much.cancel();
        }
    }
}

impl Service<RoleClient> for Listener {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<ClientResult, McpError> {
        self.asks();
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::empty(())),
            _ => Err(McpError::new(ErrorCode::METHOD_NOT_FOUND, "nothing is done here", None)),
        }
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), McpError> {
        if let ServerNotification::ToolListChangedNotification(_) = notification {
            self.changed.notify_one();
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }
}
