//! What of a conversation fits a model's window.
//!
//! Owns the estimate of tokens and the order in which turns are left out, the same for every leg: a server
//! that cuts by itself may drop the question. Knows no wire format.

use super::{ASSISTANT_MAX_TOKENS, ToolCall, ToolSpec, Turn};

/// An estimate that rather takes a text for too long: most texts have four bytes a token.
const BYTES_PER_TOKEN: usize = 3;
/// What the template adds to a message, in tokens.
const MESSAGE_TOKENS: usize = 8;
/// What a call takes beside its name and arguments, in bytes.
const CALL_BYTES: usize = 40;

/// What the prompt may take of a window, in tokens: the rest is the answer's.
pub(super) fn budget(window: u32) -> usize {
    let answer = ASSISTANT_MAX_TOKENS.min(window / 4);
    usize::try_from(window - answer).unwrap_or(usize::MAX)
}

/// What the system's words and the tools take of the budget, in tokens. They are always sent.
pub(super) fn fixed(system: &str, tools: &[ToolSpec]) -> usize {
    let tool = |tool: &ToolSpec| {
        tool.name.len() + tool.description.len() + tool.parameters.to_string().len() + CALL_BYTES
    };
    tokens(system.len()) + tools.iter().map(|spec| tokens(tool(spec))).sum::<usize>()
}

/// The turns that fit into so many tokens. The oldest turns go first, then the summary, then the oldest calls
/// of this turn with their results. The question stays, and so do the last calls.
pub(super) fn fitting(history: &[Turn], budget: usize) -> Vec<&Turn> {
    let question = history.iter().rposition(|turn| matches!(turn, Turn::User(_))).unwrap_or(0);
    let (past, present) = history.split_at(question);
    let (summary, past) = match past.split_first() {
        Some((summary @ Turn::Summary(_), past)) => (Some(summary), past),
        _ => (None, past),
    };
    let mut past = groups(past, |turn| matches!(turn, Turn::User(_)));
    let mut present = groups(present, |turn| !matches!(turn, Turn::ToolResult { .. }));
    let mut summary: Vec<&Turn> = summary.into_iter().collect();

    let total = |groups: &[Vec<&Turn>]| groups.iter().map(|group| size(group)).sum::<usize>();
    let (mut old, mut new) = (total(&past), total(&present));
    while size(&summary) + old + new > budget && !past.is_empty() {
        old -= size(&past.remove(0));
    }
    if size(&summary) + new > budget {
        summary.clear();
    }
    // The question is the first group, the last calls are the last.
    while new > budget && present.len() > 2 {
        new -= size(&present.remove(1));
    }
    summary.into_iter().chain(past.into_iter().chain(present).flatten()).collect()
}

/// Turns in groups that go or stay together; a new one begins where `first` says so.
fn groups(turns: &[Turn], first: impl Fn(&Turn) -> bool) -> Vec<Vec<&Turn>> {
    let mut groups: Vec<Vec<&Turn>> = Vec::new();
    for turn in turns {
        match groups.last_mut() {
            Some(group) if !first(turn) => group.push(turn),
            _ => groups.push(vec![turn]),
        }
    }
    groups
}

fn size(turns: &[&Turn]) -> usize {
    turns.iter().map(|turn| tokens(bytes(turn))).sum()
}

fn bytes(turn: &Turn) -> usize {
    match turn {
        Turn::Summary(text) => {
            text.len() + super::SUMMARY_BEFORE.len() + super::SUMMARY_AFTER.len()
        }
        Turn::User(text) => text.len(),
        // The leg's own form may hold thoughts beside text and calls.
        Turn::Assistant { raw: Some(raw), .. } => raw.to_string().len(),
        Turn::Assistant { text, calls, raw: None } => {
            text.len() + calls.iter().map(call_bytes).sum::<usize>()
        }
        Turn::ToolResult { id, name, content, .. } => id.len() + name.len() + content.len(),
    }
}

fn call_bytes(call: &ToolCall) -> usize {
    call.name.len() + call.arguments.to_string().len() + CALL_BYTES
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN) + MESSAGE_TOKENS
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Turn {
        Turn::User(text.to_owned())
    }

    fn said(text: &str) -> Turn {
        Turn::Assistant { text: text.to_owned(), calls: Vec::new(), raw: None }
    }

    fn called(id: &str) -> Turn {
        let call = ToolCall { id: id.to_owned(), name: "t".to_owned(), arguments: json!({}) };
        Turn::Assistant { text: String::new(), calls: vec![call], raw: None }
    }

    fn result(id: &str, content: &str) -> Turn {
        Turn::ToolResult {
            id: id.to_owned(),
            name: "t".to_owned(),
            content: content.to_owned(),
            is_error: false,
        }
    }

    fn contents<'a>(turns: &[&'a Turn]) -> Vec<&'a str> {
        turns
            .iter()
            .map(|turn| match turn {
                Turn::Summary(text) | Turn::User(text) | Turn::Assistant { text, .. } => text,
                Turn::ToolResult { content, .. } => content.as_str(),
            })
            .collect()
    }

    #[test]
    fn the_oldest_turns_go_first_and_only_when_they_must() {
        let history = [user("one"), said("1"), user("two"), said("2"), user("three")];
        let exact = size(&fitting(&history, usize::MAX));
        assert_eq!(contents(&fitting(&history, exact)), ["one", "1", "two", "2", "three"]);
        assert_eq!(contents(&fitting(&history, exact - 1)), ["two", "2", "three"]);
        assert_eq!(contents(&fitting(&history, 0)), ["three"]);
    }

    #[test]
    fn the_summary_outlasts_the_turns_after_it_and_not_the_question() {
        let summary = Turn::Summary("before".to_owned());
        let history = [summary, user("one"), said("1"), user("two")];
        let with = size(&[&history[0], &history[3]]);
        assert_eq!(contents(&fitting(&history, with)), ["before", "two"]);
        assert_eq!(contents(&fitting(&history, with - 1)), ["two"]);
    }

    #[test]
    fn the_question_and_the_last_call_stay_when_nothing_fits() {
        let history = [
            user("old"),
            said("answer"),
            user("question"),
            called("a"),
            result("a", "first"),
            called("b"),
            result("b", "second"),
        ];
        assert_eq!(contents(&fitting(&history, 0)), ["question", "", "second"]);
        let all = size(&fitting(&history[2..], usize::MAX));
        assert_eq!(
            contents(&fitting(&history, all)),
            ["question", "", "first", "", "second"],
            "the past goes before a call of this turn does"
        );
    }

    #[test]
    fn an_answer_keeps_its_share_of_every_window() {
        assert_eq!(budget(8192), 6144);
        assert_eq!(budget(4096), 3072);
        assert_eq!(budget(256), 192);
    }
}
