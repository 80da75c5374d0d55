//! `docs/rpc.md` is true: its examples are sent to the daemon as they stand, one after the other, and what
//! comes back is compared with what it says.

use serde_json::{Value, json};
use tombolo::mesh::view::MeshEvent;

use crate::rpc_contract::fits;
use crate::support::ollama::Answer;
use crate::support::world::{World, client};

const GUIDE: &str = include_str!("../docs/rpc.md");
/// Stands for whatever is there.
const ANY: &str = "…";

/// The fenced blocks of a kind.
fn blocks(kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = GUIDE.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{kind}") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push(block.join("\n"));
        } else if line.starts_with("```") {
            lines.by_ref().find(|line| *line == "```");
        }
    }
    found
}

/// A first line, headers, a body.
fn parts(block: &str) -> (&str, Vec<(&str, &str)>, &str) {
    let (head, body) = block.split_once("\n\n").unwrap_or((block, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap();
    (first, lines.map(|line| line.split_once(": ").unwrap()).collect(), body)
}

fn matches_text(said: &str, got: &str) -> bool {
    match said.split_once(ANY) {
        None => said == got,
        Some((before, after)) => got.starts_with(before) && got.ends_with(after),
    }
}

/// Is it what the guide says? A member `"…"` lets others be there.
fn compare(said: &Value, got: &Value, at: &str) {
    match (said, got) {
        (Value::String(said), _) if said == ANY => {}
        (Value::Object(members), Value::Object(all)) => {
            for (name, said) in members.iter().filter(|(name, _)| *name != ANY) {
                let got = all.get(name).unwrap_or_else(|| panic!("{at}: no {name} in {got}"));
                compare(said, got, &format!("{at}.{name}"));
            }
            let more = all.keys().find(|name| !members.contains_key(*name));
            assert!(members.contains_key(ANY) || more.is_none(), "{at}: {more:?} is not said");
        }
        (Value::Array(said), Value::Array(all)) => {
            assert_eq!(said.len(), all.len(), "{at}");
            said.iter().zip(all).for_each(|(said, got)| compare(said, got, at));
        }
        _ => assert_eq!(said, got, "{at}"),
    }
}

#[tokio::test]
async fn every_example_of_the_guide_is_answered_as_it_says() {
    let mut world = World::new().await;
    world.ollama.push(Answer::tool_call("system_disk_status", json!({})));
    world.ollama.push(Answer::text("It is **half** full."));
    world.start().await;
    let log = world.log();
    let setup = log.split("#setup=").nth(1).unwrap().split_whitespace().next().unwrap();
    let (mut cookie, mut token) = (String::new(), String::new());
    let examples = blocks("http");
    assert!(examples.len() > 20 && examples.len().is_multiple_of(2), "{}", examples.len());
    for pair in examples.chunks(2) {
        let (request, said) = (&pair[0], parts(&pair[1]));
        let filled =
            request.replace("$SETUP", setup).replace("$COOKIE", &cookie).replace("$TOKEN", &token);
        let (line, headers, body) = parts(&filled);
        let (method, path) = line.split_once(' ').unwrap();
        let mut sent = client().request(method.parse().unwrap(), world.url(path));
        for (name, value) in headers {
            sent = sent.header(name, value);
        }
        let mut answer = sent.body(body.to_owned()).send().await.unwrap();
        assert_eq!(answer.status().as_str(), said.0, "{request}");
        for (name, value) in said.1 {
            let got = answer.headers()[name].to_str().unwrap();
            assert!(matches_text(value, got), "{request}: {name}: {got}");
        }
        if let Some(new) = answer.headers().get("set-cookie") {
            cookie = new.to_str().unwrap().split(';').next().unwrap().to_owned();
        }
        if path == "/events" {
            let mut text = String::new();
            while text.matches("\n\n").count() < said.2.matches("event:").count() {
                text.push_str(
                    std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap(),
                );
            }
            events_match(said.2, &text);
            continue;
        }
        let got = answer.text().await.unwrap();
        if path == "/metrics" {
            assert!(got.contains(said.2), "{got}");
            continue;
        }
        let got: Value = serde_json::from_str(&got).unwrap();
        if let Some(new) = got["result"]["csrf_token"].as_str() {
            new.clone_into(&mut token);
        }
        let said: Value =
            serde_json::from_str(said.2).unwrap_or_else(|e| panic!("{e}: {}", pair[1]));
        compare(&said, &got, request);
    }
}

fn events_match(said: &str, got: &str) {
    for (said, got) in said.split("\n\n").zip(got.split("\n\n")) {
        let (said, got): (Vec<&str>, Vec<&str>) = (said.lines().collect(), got.lines().collect());
        assert_eq!(said.len(), got.len(), "{got:?}");
        for (said, got) in said.into_iter().zip(got) {
            match (said.strip_prefix("data: "), got.strip_prefix("data: ")) {
                (Some(said), Some(got)) => compare(
                    &serde_json::from_str(said).unwrap(),
                    &serde_json::from_str(got).unwrap(),
                    got,
                ),
                _ => assert!(matches_text(said, got), "{said}: {got}"),
            }
        }
    }
}

#[test]
fn every_event_of_the_guide_fits_the_contract_and_none_is_left_out() {
    let contract: Value = serde_json::from_str(include_str!("../docs/rpc.schema.json")).unwrap();
    let names = contract["events"]["names"].as_object().unwrap();
    let mut shown = vec!["hello".to_owned(), "status".to_owned()];
    for block in blocks("events").iter().flat_map(|block| block.split("\n\n")) {
        let (name, data) = block.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        fits(&names[name]["data"], &data, name).unwrap();
        shown.push(name.to_owned());
    }
    for name in names.keys() {
        assert!(shown.contains(name), "{name} is not in the guide");
    }
    // The judge would say no to an event of another form.
    let other = serde_json::to_value(MeshEvent::Paused { reason: None }).unwrap();
    assert!(fits(&names["mesh"]["data"], &other, "mesh").is_err(), "it has no time");
}
