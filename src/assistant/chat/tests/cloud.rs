//! What leaves for a cloud: what is kept back, what is written down, and that nothing leaves unwritten.

use std::sync::Arc;

use serde::Deserialize;

use super::*;
use crate::assistant::backends::Turn;
use crate::assistant::tools::Description;

#[derive(Deserialize)]
struct Anything {}

/// A node with a tool of that category that tells a secret, a local leg and one in the cloud.
struct Node {
    assistant: Assistant,
    cloud: Arc<Scripted>,
    scope: CallerScope,
    data: tempfile::TempDir,
}

const SECRET: &str = "canary: the contents";

fn node(category: PermissionCategory, local: Scripted) -> Node {
    let about = Description {
        name: "tell",
        description: "tells",
        parameters: json!({"type": "object", "properties": {}}),
        category,
        destructive: false,
    };
    let tool = ToolDef::new(about, |_: Anything| Box::pin(async { Ok(SECRET.to_owned()) }));
    let cloud = Arc::new(
        Scripted::by("claude", |history, tools| match history.last() {
            Some(Turn::User(_)) if !tools.is_empty() => calls("tell"),
            _ => text("from afar"),
        })
        .in_cloud(),
    );
    let data = tempfile::tempdir().unwrap();
    let legs: Vec<Box<dyn Backend>> = vec![Box::new(local), Box::new(cloud.clone())];
    let tools = ToolRegistry::new([tool]);
    let assistant = Assistant::with_legs(legs, CloudPolicy::All, tools, data.path()).unwrap();
    let scope = CallerScope::LocalOperator {
        session_id: SessionId("s".to_owned()),
        granted: CategorySet::from([category]),
    };
    Node { assistant, cloud, scope, data }
}

impl Node {
    async fn ask(&self, turn: &str) -> ChatReply {
        self.assistant.chat(context(self.scope.clone(), turn), turn).await
    }

    fn sent(&self) -> String {
        format!("{:?}", self.cloud.asked())
    }

    fn lines(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.data.path().join("cloud.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn content_of_folders_notes_and_wallet_of_a_turn_keeps_it_from_the_cloud() {
    use PermissionCategory::{Files, Media, Notes, Search, Wallet};
    let stays = [Files, Media, Notes, Search, Wallet];
    for (category, reaches) in PermissionCategory::ALL.map(|one| (one, !stays.contains(&one))) {
        // The local model reads, and then it is gone.
        let local = Scripted::new("ollama", vec![calls("tell"), unreachable()]);
        let node = node(category, local);
        let reply = node.ask("what is in it?").await;
        assert_eq!(reply.status == ChatStatus::Answered, reaches, "{category}");
        assert_eq!(node.sent().contains("canary"), reaches, "{category}");
        if !reaches {
            let reason = reply.reasons.iter().find(|reason| reason.leg == "claude").unwrap();
            assert!(reason.reason.contains("stays on the node"), "{reason:?}");
            assert!(node.lines().is_empty());
        }
    }
}

#[tokio::test]
async fn what_such_content_went_into_is_left_out_of_what_the_cloud_is_given_later() {
    let local = Scripted::new(
        "ollama",
        vec![calls("tell"), text(&format!("It says {SECRET}")), text("mild"), unreachable()],
    );
    let node = node(PermissionCategory::Files, local);
    node.ask("what is in it?").await;
    // The local model was given that turn, so whatever it says now may be made of it.
    node.ask("and the weather?").await;
    let reply = node.ask("what is new?").await;
    assert_eq!((reply.backend.as_str(), reply.text.as_str()), ("claude", "from afar"));
    let sent = node.sent();
    for kept in ["canary", "what is in it?", "and the weather?", "mild"] {
        assert!(!sent.contains(kept), "{kept}: {sent}");
    }
    // The cloud's own answer can't be.
    node.ask("and else?").await;
    assert!(node.sent().contains("from afar") && node.sent().contains("what is new?"));
    // It is not even offered the tool.
    assert!(node.cloud.asked().iter().all(|asked| asked.tools.is_empty()));
}

#[tokio::test]
async fn a_turn_that_a_local_model_began_with_such_a_past_does_not_go_on_in_the_cloud() {
    for (category, reaches) in
        [(PermissionCategory::Files, false), (PermissionCategory::System, true)]
    {
        // Its call may say what it has read, though no tool runs.
        let script =
            vec![calls("tell"), text(SECRET), calls("nothing_of_that_name"), unreachable()];
        let node = node(category, Scripted::new("ollama", script));
        node.ask("what is in it?").await;
        let reply = node.ask("tell me more").await;
        assert_eq!(reply.backend == "claude", reaches, "{category}: {reply:?}");
        assert_eq!(node.sent().contains("tell me more"), reaches, "{category}");
    }
}

#[tokio::test]
async fn a_turn_from_before_this_was_noted_counts_as_made_of_all_before_it() {
    let script = vec![calls("tell"), text(SECRET), text("plain"), unreachable()];
    let node = node(PermissionCategory::Files, Scripted::new("ollama", script));
    node.ask("what is in it?").await;
    node.ask("and the weather?").await;
    let files = std::fs::read_dir(node.data.path().join("transcripts")).unwrap();
    let path = files.map(|entry| entry.unwrap().path()).next().unwrap();
    let old = std::fs::read_to_string(&path).unwrap();
    assert_eq!(old.matches(r#","made_of":"#).count(), 2, "{old}");
    let old = old.replace(r#","made_of":["files"]"#, "").replace(r#","made_of":[]"#, "");
    assert!(!old.contains("made_of"), "{old}");
    std::fs::write(&path, old).unwrap();
    node.ask("what is new?").await;
    assert!(node.sent().contains("what is new?") && !node.sent().contains("weather"));
}

#[tokio::test]
async fn a_summary_of_such_content_stays_too() {
    let mut script = vec![calls("tell"), text(SECRET)];
    script.extend((0..16).map(|_| text("plain")));
    let node = node(PermissionCategory::Files, Scripted::new("ollama", script));
    for turn in 0..16 {
        node.ask(&format!("question {turn}")).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    // The script is over: the local model gives nothing of use any more.
    let reply = node.ask("and now?").await;
    assert_eq!(reply.backend, "claude");
    let asked = node.cloud.asked();
    assert!(!asked[0].history.iter().any(|turn| matches!(turn, Turn::Summary(_))));
    assert!(node.assistant.history.given(&node.scope.history_key().unwrap()).turns.len() > 16);
}

#[tokio::test]
async fn each_request_is_written_down_before_it_leaves_and_shown() {
    let node = node(PermissionCategory::System, Scripted::new("ollama", vec![]));
    let reply = node.ask("a question").await;
    assert_eq!(reply.text, "from afar");
    let lines = node.lines();
    let content: Vec<String> = lines.iter().map(|line| line["content"].to_string()).collect();
    assert_eq!(content, [r#"["question"]"#, r#"["question","system"]"#]);
    for line in &lines {
        assert_eq!((&line["turn_id"], &line["leg"]), (&json!("a question"), &json!("claude")));
        assert!(line["bytes"].as_u64().unwrap() > 100);
    }
    let stored = std::fs::read_to_string(node.data.path().join("cloud.log")).unwrap();
    assert!(!stored.contains("canary") && !stored.contains("from afar"));
    let left = node.assistant.legs().await.left;
    assert_eq!(left.requests, 2);
    assert_eq!(left.last.unwrap().content.len(), 2);

    // Where it can't be written down, nothing leaves.
    std::fs::remove_file(node.data.path().join("cloud.log")).unwrap();
    std::fs::create_dir(node.data.path().join("cloud.log")).unwrap();
    let asked = node.cloud.asked().len();
    let reply = node.ask("another").await;
    assert_eq!((reply.status, node.cloud.asked().len()), (ChatStatus::Failed, asked));
    assert!(reply.reasons.iter().any(|reason| reason.reason.contains("written down")));
}

/// A question that repeats the answer of that turn, in a conversation of its own.
async fn again(node: &Node, turn: &str, quotes: &str, words: &str) -> ChatReply {
    node.assistant.new_conversation(&node.scope).unwrap();
    let scope = node.scope.clone().without_tools();
    let context = ChatContext { quotes: Some(TurnId(quotes.to_owned())), ..context(scope, turn) };
    node.assistant.chat(context, &format!("Say this again: {words}")).await
}

#[tokio::test]
async fn an_answer_that_is_to_be_said_again_stays_where_it_was_made() {
    for (category, reaches) in
        [(PermissionCategory::Notes, false), (PermissionCategory::System, true)]
    {
        let script = vec![calls("tell"), text(SECRET), unreachable(), unreachable()];
        let node = node(category, Scripted::new("ollama", script));
        node.ask("what is in it?").await;
        let reply = again(&node, "short", "what is in it?", SECRET).await;
        assert_eq!(reply.backend == "claude", reaches, "{category}: {reply:?}");
        assert_eq!(node.sent().contains("canary"), reaches, "{category}");
        // Of an answer that nobody knows, such as what a confirmed call gave, anything may be in it.
        let before = node.cloud.asked().len();
        again(&node, "unknown", "what is in it?-d", SECRET).await;
        assert_eq!(node.cloud.asked().len(), before, "{category}");
    }
}

#[tokio::test]
async fn what_is_said_again_is_not_given_to_the_cloud_later_and_counts_as_foreign() {
    let script = vec![calls("tell"), text(SECRET), text("in short: canary"), unreachable()];
    let node = node(PermissionCategory::Files, Scripted::new("ollama", script));
    node.ask("what is in it?").await;
    let reply = again(&node, "short", "what is in it?", SECRET).await;
    assert_eq!(reply.text, "in short: canary");
    let key = node.scope.history_key().unwrap();
    assert!(node.assistant.history.has_foreign_text(&key));
    let reply = node.ask("and now?").await;
    assert_eq!((reply.backend.as_str(), node.sent().contains("canary")), ("claude", false));
}
