//! Grants and confirmations in the running program: the operator by RPC, a peer on the simulated mesh, a scripted
//! model server, and a kill.

use serde_json::{Value, json};
use tombolo::sim::SayTo;

use crate::support::ollama::Answer;
use crate::support::world::{World, all_files};

const TOOL: &str = "system_disk_status";

/// Tools that the last request to the model offered.
fn offered(world: &World) -> usize {
    let requests = world.ollama.requests();
    let last = requests.iter().rev().find(|request| request.path == "/api/chat").unwrap();
    last.body["tools"].as_array().map_or(0, Vec::len)
}

/// Ana's key, as the program names her.
async fn ana(operator: &crate::support::world::Operator) -> String {
    let list = operator.call("assistant.grants-list", json!({})).await;
    let callers = list["callers"].as_array().unwrap();
    let row = callers.iter().find(|row| row["name"] == "Ana").unwrap();
    assert_eq!((&row["source"], &row["in_force"]), (&json!("default"), &json!(true)));
    assert_eq!(row["categories"], json!([{"category": "system"}]));
    row["caller"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_a_peer_wants_done_waits_for_the_operator_and_a_kill_drops_it() {
    let mut world = World::new().await;
    world.start().await;
    let operator = world.operator().await;
    let ana = ana(&operator).await;
    operator
        .call("assistant.grants-set", json!({"caller": ana, "tool": TOOL, "mode": "ask"}))
        .await;

    // Killed while it waits: dropped, not done, and the answered turn is not run again.
    world.ollama.push(Answer::tool_call(TOOL, json!({})));
    world.sim.say("Ana", SayTo::Direct, "!ai how full are the disks?");
    let told = world.heard("Ana", 1).await;
    assert!(told[0].text.contains("needs the operator"), "{}", told[0].text);
    let pending = operator.call("assistant.pending", json!({})).await["pending"].clone();
    assert_eq!((&pending[0]["name"], &pending[0]["tool"]), (&json!("Ana"), &json!(TOOL)));
    let lost = pending[0]["id"].clone();
    world.kill();
    world.start().await;
    let operator = world.operator().await;
    let after = operator.call("assistant.pending", json!({})).await;
    assert_eq!(after, json!({"pending": []}));
    let gone = operator.call("assistant.confirm-tool", json!({"id": lost, "approve": true})).await;
    assert_eq!(gone["outcome"], "gone");

    // Approved: it runs once, and the peer has the result without the model.
    world.ollama.push(Answer::tool_call(TOOL, json!({})));
    world.sim.say("Ana", SayTo::Direct, "!ai and now, how full are they?");
    world.heard("Ana", 2).await;
    let asked = world.ollama.requests().iter().filter(|r| r.path == "/api/chat").count();
    let pending = operator.call("assistant.pending", json!({})).await["pending"].clone();
    let params = json!({"id": pending[0]["id"], "approve": true});
    let done = operator.call("assistant.confirm-tool", params.clone()).await;
    assert_eq!(done["outcome"], "ran", "{done}");
    assert_eq!(operator.call("assistant.confirm-tool", params).await["outcome"], "gone");
    let heard = world.heard("Ana", 3).await;
    assert!(heard[2].text.contains(" free of ") && heard[2].pki, "{}", heard[2].text);
    let asked_now = world.ollama.requests().iter().filter(|r| r.path == "/api/chat").count();
    assert_eq!(asked_now, asked, "no model was asked for that");

    // The record, over the kill: who, in which turn, what came of it.
    let calls = operator.call("assistant.ledger", json!({})).await["calls"].clone();
    let outcomes: Vec<&Value> = calls.as_array().unwrap().iter().map(|c| &c["outcome"]).collect();
    assert_eq!(
        outcomes,
        [&json!("needs_confirmation"), &json!("needs_confirmation"), &json!("ran")]
    );
    assert!(calls.as_array().unwrap().iter().all(|call| call["caller"] == json!(ana)));
    let turn = calls[2]["turn_id"].as_str().unwrap();
    assert!(world.log().contains(turn), "the turn is in the log too");

    // Taken back, it is not even offered, also after a restart; and the view says from where that is.
    operator
        .call(
            "assistant.grants-set",
            json!({"caller": ana, "category": "system", "granted": false}),
        )
        .await;
    world.kill();
    world.start().await;
    world.ollama.push(Answer::tool_call(TOOL, json!({})));
    world.ollama.push(Answer::text("I may not."));
    world.sim.say("Ana", SayTo::Direct, "!ai once more, the disks");
    world.heard("Ana", 4).await;
    assert_eq!(offered(&world), 0);
    let status = world.operator().await.call("mesh.assistant-status", json!({})).await;
    let contact = &status["allowed_contacts"][0];
    assert_eq!(
        (&contact["grants"], &contact["grants_source"]),
        (&json!([]), &json!("grants.json"))
    );
}

#[tokio::test]
async fn the_operators_own_call_is_shown_with_its_answer_and_a_broken_file_grants_nothing() {
    let mut world = World::new().await;
    world.start().await;
    let operator = world.operator().await;
    operator
        .call("assistant.grants-set", json!({"caller": "operator", "tool": TOOL, "mode": "ask"}))
        .await;
    world.ollama.push(Answer::tool_call(TOOL, json!({})));
    let reply = operator.call("assistant.chat", json!({"text": "disks?", "turn_id": "t-9"})).await;
    assert_eq!(reply["pending"]["tool"], TOOL, "{reply}");
    assert!(reply["pending"]["expires_in_ms"].as_u64().unwrap() <= 120_000);
    let params = json!({"id": reply["pending"]["id"], "approve": false});
    assert_eq!(operator.call("assistant.confirm-tool", params).await["outcome"], "dropped");
    assert!(!all_files(&world.data_dir()).contains(reply["pending"]["id"].as_str().unwrap()));

    world.kill();
    let path = world.data_dir().join("grants.json");
    std::fs::write(&path, "{ broken").unwrap();
    world.start().await;
    assert!(world.log().contains("the grants make no sense"), "the start says which");
    assert_eq!(std::fs::read_to_string(path.with_extension("json.broken")).unwrap(), "{ broken");
    let operator = world.operator().await;
    let list = operator.call("assistant.grants-list", json!({})).await;
    assert!(list["warning"].as_str().unwrap().contains("grants.json"));
    assert!(list["callers"].as_array().unwrap().iter().all(|row| row["categories"] == json!([])));
    world.ollama.push(Answer::tool_call(TOOL, json!({})));
    world.ollama.push(Answer::text("no"));
    let reply = operator.call("assistant.chat", json!({"text": "disks?"})).await;
    assert_eq!((reply["tools"].clone(), offered(&world)), (json!([]), 0), "{reply}");
    // The operator can set grants again.
    let set = json!({"caller": "operator", "category": "system", "granted": true});
    operator.call("assistant.grants-set", set).await;
    world.ollama.push(Answer::tool_call(TOOL, json!({})));
    world.ollama.push(Answer::text("yes"));
    let reply = operator.call("assistant.chat", json!({"text": "and now?"})).await;
    assert_eq!(reply["tools"][0]["outcome"], "ran", "{reply}");
}
