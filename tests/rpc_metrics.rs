//! `GET /metrics`: what a Prometheus reads, and that no name and no secret is in it.

use std::collections::BTreeSet;

use serde_json::json;

use crate::rpc_node::{Node, PASSWORD, folder, one_of_each_mesh_event};

#[tokio::test]
async fn the_figures_are_well_formed_and_say_what_happened() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    node.rpc("auth.login", json!({ "password": "wrong wrong" })).send().await;
    node.rpc("assistant.chat", json!({ "text": "disk" })).session(&session).send().await;
    node.rpc("no.such-method", json!({})).send().await;
    for event in one_of_each_mesh_event() {
        node.services.mesh.events.send(event).unwrap();
    }
    let answer = node.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let lines: Vec<&str> = answer.body.lines().collect();
    for wanted in [
        "tombolo_link_up 1",
        "tombolo_turns_waiting 2",
        "tombolo_airtime_used_seconds 1.5",
        "tombolo_airtime_limit_seconds 360",
        "tombolo_channel_utilization_ratio 0.035",
        "tombolo_leg_ready{leg=\"ollama\"} 1",
        "tombolo_turns_total{caller=\"mesh\",outcome=\"answered\"} 1",
        "tombolo_turns_total{caller=\"operator\",outcome=\"answered\"} 1",
        "tombolo_answers_total{leg=\"ollama\"} 2",
        "tombolo_tool_calls_total{caller=\"operator\",category=\"system\",outcome=\"ran\"} 1",
        "tombolo_tool_calls_total{caller=\"operator\",category=\"wallet\",outcome=\"denied\"} 1",
        "tombolo_tool_calls_total{caller=\"operator\",category=\"none\",outcome=\"unknown\"} 1",
        "tombolo_part_states_total{state=\"delivered\"} 1",
        "tombolo_distress_waiting 1",
        "tombolo_distress_total{assurance=\"verified\"} 1",
        "tombolo_security_events_total{kind=\"foreign_key\"} 1",
        "tombolo_rpc_calls_total{method=\"auth.login\",outcome=\"ok\"} 1",
        "tombolo_rpc_calls_total{method=\"auth.login\",outcome=\"login_failed\"} 1",
        "tombolo_rpc_calls_total{method=\"none\",outcome=\"method_not_found\"} 1",
        "tombolo_turn_seconds_bucket{caller=\"mesh\",le=\"0.5\"} 0",
        "tombolo_turn_seconds_bucket{caller=\"mesh\",le=\"1\"} 1",
        "tombolo_turn_seconds_bucket{caller=\"mesh\",le=\"+Inf\"} 1",
        "tombolo_turn_seconds_sum{caller=\"mesh\"} 0.9",
        "tombolo_turn_seconds_count{caller=\"mesh\"} 1",
        "tombolo_parts_sent_total 1",
        "tombolo_parts_airtime_seconds_total 0.3",
        "tombolo_http_connections 1",
    ] {
        assert!(lines.contains(&wanted), "{wanted} is not in\n{}", answer.body);
    }
    let mut families = BTreeSet::new();
    let mut samples = BTreeSet::new();
    for line in &lines {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(families.insert(name), "{name} twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            assert!(samples.insert(series), "{series} twice");
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end).filter(|name| families.contains(name)))
                .unwrap_or(name);
            assert!(families.contains(family), "{line} before its type");
        }
    }
    for foreign in ["Ana", "a1b2c3d4", "no_such_tool", "hello", PASSWORD, &session.csrf] {
        assert!(!answer.body.contains(foreign), "{foreign}");
    }
    node.stop().await;
}

#[tokio::test]
async fn the_hours_survive_a_restart() {
    let folder = folder();
    let node = Node::start(folder.path()).await;
    let session = node.login(None).await;
    let mut page = crate::rpc_events::Listening::open(
        &node.request("GET", "/events").header("Cookie", &session.cookie),
    )
    .await;
    for event in one_of_each_mesh_event() {
        node.services.mesh.events.send(event).unwrap();
    }
    while page.until("mesh").await.data["event"] != "security" {}
    let history = async |node: &Node| {
        let answer = node.rpc("mesh.history", json!({})).session(&session).send().await;
        let hours = answer.json()["result"]["hours"].as_array().unwrap().clone();
        assert_eq!(hours.len(), 24);
        // The hour may have ended since.
        hours.iter().map(|hour| hour["answered"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(history(&node).await, 1);
    node.stop().await;
    let node = Node::start(folder.path()).await;
    assert_eq!(history(&node).await, 1);
    node.stop().await;
}
