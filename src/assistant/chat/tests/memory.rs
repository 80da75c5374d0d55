//! Long conversations: what is kept, what a model is given of it, and what never gets there.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::assistant::backends::Turn;
use crate::assistant::backends::scripted::Asked;
use crate::assistant::history::{KEEP_VERBATIM_TURNS, MAX_SUMMARY_CHARS};
use crate::assistant::tools::Description;

/// What a request is made of, as bytes of its texts and tools.
fn bytes(asked: &Asked) -> usize {
    let turns = asked.history.iter().map(|turn| match turn {
        Turn::Summary(text) | Turn::User(text) | Turn::Assistant { text, .. } => text.len(),
        Turn::ToolResult { content, .. } => content.len(),
    });
    asked.system.len() + turns.sum::<usize>()
}

/// A node with one local model, which also keeps the notes.
fn noting(answer: &'static str) -> (Desk, Arc<Scripted>) {
    let leg = Arc::new(Scripted::by("ollama", move |history, tools| match history.first() {
        Some(Turn::User(words)) if words.starts_with("The notes so far:") => {
            assert!(tools.is_empty());
            text("notes")
        }
        _ => text(answer),
    }));
    (desk_of(vec![Box::new(leg.clone())], CloudPolicy::None), leg)
}

fn is_note(asked: &Asked) -> bool {
    asked.system.starts_with("You keep the notes")
}

/// Lets what was begun beside the turns come to its end.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn five_hundred_turns_are_kept_and_asked_within_bounds() {
    let (desk, leg) = noting("It is eighteen degrees and sunny, as it was before.");
    let scope = peer("key:a", Assurance::Verified);
    let folder = desk._data.path().join("transcripts");
    let mut largest_file = 0;
    for turn in 0..500 {
        let question = format!("question {turn}: what is the weather like in the bay today?");
        let reply =
            desk.assistant.chat(context(scope.clone(), &format!("t{turn}")), &question).await;
        assert_eq!(reply.status, ChatStatus::Answered);
        settle().await;
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
        largest_file = largest_file.max(file.metadata().unwrap().len());
    }
    let asked = leg.asked();
    let (notes, turns): (Vec<&Asked>, Vec<&Asked>) = asked.iter().partition(|asked| is_note(asked));
    assert_eq!(turns.len(), 500);
    // The summary is extended once for as many turns as are kept, each time by the same work.
    assert_eq!(notes.len(), 500 / KEEP_VERBATIM_TURNS - 1);
    let work: Vec<usize> = notes.iter().skip(1).map(|asked| bytes(asked)).collect();
    let (least, most) = (work.iter().min().unwrap(), work.iter().max().unwrap());
    assert!(most - least <= 2 * KEEP_VERBATIM_TURNS, "{least} to {most} bytes");
    assert!(notes.iter().skip(1).all(|asked| matches!(
        &asked.history[..], [Turn::User(words)] if words.contains("so far:\nnotes\n")
    )));

    let largest_prompt = turns.iter().map(|asked| bytes(asked)).max().unwrap();
    let most_turns = turns.iter().map(|asked| asked.history.len()).max().unwrap();
    println!("500 turns: file at most {largest_file} B, prompt at most {largest_prompt} B");
    assert!(largest_file <= 150_000, "{largest_file}");
    assert!(largest_prompt <= 4_000, "{largest_prompt}");
    assert_eq!(most_turns, 1 + 2 * (2 * KEEP_VERBATIM_TURNS - 1) + 1);
    assert_eq!(desk.assistant.history(&scope).len(), 200);
}

#[tokio::test]
async fn a_prompt_begins_with_the_whole_of_the_one_before() {
    // Each second question takes a tool.
    let leg = Arc::new(Scripted::by("ollama", |history, _| match history.last() {
        Some(Turn::User(words)) if words.starts_with("The notes") => text("notes"),
        Some(Turn::User(words)) if words.contains("disk") => calls("system_disk_status"),
        _ => text("fine"),
    }));
    let desk = desk_of(vec![Box::new(leg.clone())], CloudPolicy::None);
    let mut shares = Vec::new();
    let mut before: Option<Asked> = None;
    for turn in 0..40 {
        let question = if turn % 2 == 0 { "how are you?" } else { "disk?" };
        let seen = leg.asked().len();
        desk.assistant.chat(context(operator("s"), &format!("t{turn}")), question).await;
        settle().await;
        let asked = leg.asked();
        let requests: Vec<&Asked> = asked[seen..].iter().filter(|asked| !is_note(asked)).collect();
        assert_eq!(requests.len(), 1 + turn % 2);
        // Within a turn nothing is ever taken back.
        for pair in requests.windows(2) {
            assert!(pair[1].history.starts_with(&pair[0].history));
            assert_eq!((&pair[1].system, &pair[1].tools), (&pair[0].system, &pair[0].tools));
        }
        if let Some(before) = &before {
            let same = requests[0].system == before.system && requests[0].tools == before.tools;
            shares.push(same && requests[0].history.starts_with(&before.history));
        }
        before = Some(requests[0].clone());
    }
    let kept = shares.iter().filter(|whole| **whole).count();
    println!("the prompt began with all of the one before in {kept} of {} turns", shares.len());
    // All of it, but where a summary takes the place of the oldest turns.
    assert_eq!(shares.len() - kept, 40 / KEEP_VERBATIM_TURNS - 2);
}

#[tokio::test]
async fn a_summary_without_a_model_is_a_cut_and_an_interrupted_one_comes_later() {
    // The first model hangs over the notes, and the next question sends it away.
    let leg = Arc::new(Scripted::by("claude", |_, _| text("from afar")).in_cloud());
    let cloud = desk_of(vec![Box::new(leg.clone())], CloudPolicy::All);
    let scope = operator("s");
    for turn in 0..2 * KEEP_VERBATIM_TURNS {
        let question = format!("question {turn}");
        cloud.assistant.chat(context(scope.clone(), &format!("t{turn}")), &question).await;
        settle().await;
    }
    cloud.assistant.chat(context(scope.clone(), "last"), "and now?").await;
    let asked = leg.asked();
    assert_eq!(asked.iter().filter(|asked| is_note(asked)).count(), 0, "no cloud keeps notes");
    let Some(Turn::Summary(summary)) = asked.last().unwrap().history.first() else {
        panic!("no summary: {:?}", asked.last())
    };
    assert!(summary.starts_with("- question 0 → from afar\n- question 1"), "{summary}");
    assert!(summary.chars().count() <= MAX_SUMMARY_CHARS);
    assert_eq!(asked.last().unwrap().history.len(), 1 + 2 * KEEP_VERBATIM_TURNS + 1);
}

#[tokio::test]
async fn a_summary_that_is_never_finished_is_cut_when_it_is_overdue() {
    let leg = Arc::new(Scripted::by_or_hang("ollama", |history| match history.first() {
        Some(Turn::User(words)) if words.starts_with("The notes so far:") => None,
        _ => Some(text("yes")),
    }));
    let desk = desk_of(vec![Box::new(leg.clone())], CloudPolicy::None);
    for turn in 0..60 {
        desk.assistant.chat(context(operator("s"), &format!("t{turn}")), "so?").await;
        settle().await;
    }
    let asked = leg.asked();
    let most = asked.iter().map(|asked| asked.history.len()).max().unwrap();
    assert_eq!(most, 1 + 2 * (3 * KEEP_VERBATIM_TURNS - 1) + 1, "bounded all the same");
    assert!(matches!(asked.last().unwrap().history.first(), Some(Turn::Summary(_))));
}

#[tokio::test]
async fn what_was_forgotten_does_not_come_back() {
    // By a summary that is being made.
    let (desk, _) = noting("yes");
    let scope = operator("s");
    for turn in 0..2 * KEEP_VERBATIM_TURNS {
        desk.assistant.chat(context(scope.clone(), &format!("t{turn}")), "a secret").await;
    }
    desk.assistant.clear_history(&scope).unwrap();
    settle().await;
    assert_eq!(std::fs::read_dir(desk._data.path().join("transcripts")).unwrap().count(), 0);

    // By a turn that runs.
    let leg = Arc::new(Scripted::by("ollama", |_, _| text("late")));
    let desk = desk_of(vec![Box::new(leg.delayed())], CloudPolicy::None);
    let (reply, ()) =
        tokio::join!(desk.assistant.chat(context(scope.clone(), "t"), "a secret"), async {
            tokio::task::yield_now().await;
            desk.assistant.clear_history(&scope).unwrap();
        });
    assert_eq!(reply.text, "late");
    assert!(desk.assistant.history(&scope).is_empty());
    // And the next one is kept again.
    desk.assistant.chat(context(scope.clone(), "u"), "hello").await;
    assert_eq!(desk.assistant.history(&scope).len(), 1);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pay {
    #[serde(rename = "invoice")]
    _invoice: String,
}

#[tokio::test]
async fn wallet_tool_arguments_never_reach_the_transcript() {
    const INVOICE: &str = "lnbc1canaryinvoice";
    for category in [PermissionCategory::Wallet, PermissionCategory::Files] {
        let about = Description {
            name: "wallet_decode",
            description: "reads an invoice",
            parameters: json!({"type": "object", "properties": {"invoice": {"type": "string"}}}),
            category,
            destructive: false,
        };
        let tool = ToolDef::new(about, |_: Pay| Box::pin(async { Ok("2000 sat".to_owned()) }));
        let leg = Scripted::by("ollama", |history, _| match history.last() {
            Some(Turn::User(_)) => {
                let arguments: Value = json!({ "invoice": INVOICE });
                let (id, name) = ("c1".to_owned(), "wallet_decode".to_owned());
                let calls = vec![ToolCall { id, name, arguments }];
                Ok(BackendTurn::ToolCalls { text: INVOICE.to_owned(), calls, raw: None })
            }
            _ => text("It asks for 2000 sat."),
        });
        let data = tempfile::tempdir().unwrap();
        let legs: Vec<Box<dyn Backend>> = vec![Box::new(leg)];
        let tools = ToolRegistry::new([tool]);
        let assistant = Assistant::with_legs(legs, CloudPolicy::None, tools, data.path()).unwrap();
        let scope = CallerScope::LocalOperator {
            session_id: SessionId("s".to_owned()),
            granted: CategorySet::from([category]),
        };
        let reply = assistant.chat(context(scope.clone(), "t"), "what does it want?").await;
        assert_eq!(reply.tools[0].outcome, ToolOutcome::Ran);
        assert_eq!(assistant.history(&scope).len(), 1);
        let mut files = 0;
        for folder in ["transcripts", ""] {
            for entry in std::fs::read_dir(data.path().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    files += 1;
                    let stored = std::fs::read_to_string(&path).unwrap();
                    assert!(!stored.contains("canary"), "{}: {stored}", path.display());
                }
            }
        }
        assert!(files > 0);
    }
}
