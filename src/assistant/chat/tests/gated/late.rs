//! A confirmed call that ends when its conversation is over.

use super::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// A tool that changes something and comes to its end only when it is let.
fn held(until: &Arc<tokio::sync::Notify>) -> ToolDef {
    let until = until.clone();
    let about = Description::changes(PermissionCategory::System, "system_held", "waits");
    ToolDef::new(about, move |Nothing {}| {
        let until = until.clone();
        Box::pin(async move {
            until.notified().await;
            Ok("done".to_owned())
        })
    })
}

#[tokio::test]
async fn an_approved_call_that_ends_after_its_conversation_leaves_nothing_in_the_next() {
    for cleared in [true, false] {
        let (data, until) = (tempfile::tempdir().unwrap(), Arc::new(tokio::sync::Notify::new()));
        let legs: Vec<Box<dyn Backend>> = vec![Box::new(obeys("system_held", json!({})))];
        let tools = ToolRegistry::new([held(&until)]);
        let assistant = Assistant::with_legs(legs, CloudPolicy::None, tools, data.path()).unwrap();
        let scope = operator("s");
        assistant.chat(context(scope.clone(), "t"), "do it").await;
        let taken = assistant.take(&assistant.pending()[0].id).unwrap();
        let (settled, ()) = tokio::join!(assistant.settle(taken, true, true), async {
            if cleared {
                assistant.clear_history(&scope).unwrap();
            } else {
                assistant.new_conversation(&scope).unwrap();
            }
            until.notify_one();
        });
        assert_eq!(settled.outcome, Some(ToolOutcome::Ran));
        let left = assistant.history(&scope);
        assert_eq!(left.len(), if cleared { 0 } else { 2 }, "{left:?}");
        let key = scope.history_key().unwrap();
        assert!(assistant.history.for_model(&key).is_empty());
    }
}
