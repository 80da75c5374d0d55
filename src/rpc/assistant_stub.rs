//! (temporary: the assistant's contract until it lands)
#![allow(missing_docs, clippy::unused_async)]
use crate::assistant::*;
use serde::Serialize;
#[derive(Debug)]
pub struct Assistant;
#[derive(Debug, Clone, Serialize)]
pub struct HistoryEntry { pub turn_id: TurnId, pub at: u64, pub question: String, pub answer: String, pub backend: String, pub tools: Vec<ToolRecord>, pub status: ChatStatus }
#[derive(Debug, Clone, Serialize)]
pub struct ToolView { pub name: String, pub description: String, pub category: PermissionCategory, pub destructive: bool }
#[derive(Debug, Clone, Serialize)]
pub struct LegView { pub name: String, pub state: String, pub reason: Option<String> }
#[derive(Debug, Clone, Serialize)]
pub struct LegsView { pub ollama_detected: bool, pub models: Vec<String>, pub claude_available: bool, pub legs: Vec<LegView> }
impl Assistant {
    pub async fn chat(&self, _ctx: ChatContext, text: &str) -> ChatReply {
        ChatReply { status: ChatStatus::Answered, text: text.to_owned(), backend: "stub".into(), tools: vec![], reasons: vec![] }
    }
    pub fn history(&self, _s: &CallerScope) -> Vec<HistoryEntry> { vec![] }
    pub fn clear_history(&self, _s: &CallerScope) -> Result<(), crate::store::StoreError> { Ok(()) }
    pub fn list_tools(&self, _s: &CallerScope) -> Vec<ToolView> { vec![] }
    pub async fn legs(&self) -> LegsView { LegsView { ollama_detected: false, models: vec![], claude_available: false, legs: vec![] } }
}
