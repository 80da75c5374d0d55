//! What is known of the assistant's legs, kept for a moment.
//!
//! Owns how often is asked: pages and health checks ask often, and each question may go to a model
//! server. Decides nothing.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::assistant::Assistant;
use crate::assistant::chat::LegsReport;

/// An answer is given again for so long.
pub const MEMORY: Duration = Duration::from_secs(5);

/// The last answer.
#[derive(Debug, Default)]
pub struct LegsMemory {
    last: Mutex<Option<(Instant, LegsReport)>>,
}

impl LegsMemory {
    /// The legs, at most [`MEMORY`] old. Whoever asks at the same time waits for the same answer.
    pub async fn of(&self, assistant: &Assistant) -> LegsReport {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < MEMORY
        {
            return report.clone();
        }
        let report = assistant.legs().await;
        *last = Some((Instant::now(), report.clone()));
        report
    }

    /// The next who asks gets a fresh answer.
    pub async fn forget(&self) {
        *self.last.lock().await = None;
    }
}
