//! The last leg: no model, only the questions that a tool alone can answer.
//!
//! Owns the words by which such a question is known. It calls tools by the same loop and under the same
//! authority as any model; it never makes anything up.

use serde_json::json;

use super::{
    Answer, Backend, BackendError, BackendTurn, Capabilities, Request, ToolCall, ToolSpec, Turn,
};

/// Questions, by the words that must all stand in them, and the tool that answers.
const FIXED: [(&[&str], &str); 12] = [
    (&["disk"], "system_disk_status"),
    (&["storage"], "system_disk_status"),
    (&["free", "space"], "system_disk_status"),
    (&["festplatte"], "system_disk_status"),
    (&["speicherplatz"], "system_disk_status"),
    (&["disco"], "system_disk_status"),
    (&["espacio"], "system_disk_status"),
    (&["disque"], "system_disk_status"),
    (&["uptime"], "system_status"),
    (&["battery"], "system_status"),
    (&["temperature"], "system_status"),
    (&["airtime"], "mesh_airtime"),
];

/// The leg. It has no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// Is there a fixed question that one of these tools answers?
    pub fn knows_any(tools: &[ToolSpec]) -> bool {
        FIXED.iter().any(|(_, fixed)| tools.iter().any(|tool| tool.name == *fixed))
    }

    /// The tool that answers the question, if it is one of the fixed ones.
    pub fn tool_for(question: &str) -> Option<&'static str> {
        let words: Vec<String> = question
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        FIXED
            .iter()
            .find(|(needed, _)| needed.iter().all(|word| words.iter().any(|w| w == word)))
            .map(|(_, tool)| *tool)
    }
}

impl Backend for Offline {
    fn name(&self) -> &'static str {
        "offline"
    }

    fn is_cloud(&self) -> bool {
        false
    }

    fn repeats(&self) -> bool {
        false
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Ok(Capabilities { tools: true }) })
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        let answer = answer(&request);
        Box::pin(async move { answer })
    }
}

fn answer(request: &Request<'_>) -> Result<BackendTurn, BackendError> {
    let unknown =
        || BackendError::Broken("no model, and not one of the fixed questions".to_owned());
    match request.history.last() {
        Some(Turn::ToolResult { content, is_error: false, .. }) => Ok(BackendTurn::Text(format!(
            "No model can be reached now; read straight from the node:\n{content}"
        ))),
        Some(Turn::User(question)) => {
            let tool = Offline::tool_for(question)
                .filter(|tool| request.tools.iter().any(|spec| spec.name == *tool))
                .ok_or_else(unknown)?;
            Ok(BackendTurn::ToolCalls {
                text: String::new(),
                calls: vec![ToolCall {
                    id: "offline-1".to_owned(),
                    name: tool.to_owned(),
                    arguments: json!({}),
                }],
                raw: None,
            })
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_make_a_fixed_question() {
        for question in [
            "how much disk space is left?",
            "Free space on the node?",
            "Wie viel Speicherplatz ist frei?",
            "¿Cuánto espacio queda en el disco?",
        ] {
            assert_eq!(Offline::tool_for(question), Some("system_disk_status"), "{question}");
        }
        for question in ["what is a diskette?", "free the whales", "", "discography of Abba"] {
            assert_eq!(Offline::tool_for(question), None, "{question}");
        }
    }

    #[tokio::test]
    async fn a_caller_without_the_tool_is_not_answered_by_it() {
        let history = [Turn::User("disk space?".to_owned())];
        let request = Request { system: "", tools: &[], history: &history };
        assert!(Offline.send(request).await.is_err());
    }
}
