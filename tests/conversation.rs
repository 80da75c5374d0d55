//! A question over the air, a tool, and the answer in parts: the real program on a real port, with the
//! simulated mesh on the other side and a scripted model server.

use std::collections::HashSet;

use serde_json::json;
use tombolo::sim::{Heard, SayTo};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::support::ollama::Answer;
use crate::support::world::{Wire, World, ana_is_a_contact, joined, words};

/// Three parts long, with letters and signs of one to many bytes.
const PREFIX: &str = "Über den Speicher dieses Knotens lässt sich Folgendes sagen, Stand jetzt und ohne \
Gewähr 🏔️. Die Zahlen kommen unmittelbar vom Betriebssystem und nicht aus dem Modell 👨‍👩‍👧‍👦. Wer es genauer \
wissen will, fragt noch einmal nach; die Antwort ist dann dieselbe, denn Platten füllen sich langsam. \
Беларуская мова таксама працуе. Und hier sind sie: ";

fn disk_total() -> String {
    let disks = tombolo::tools::system::Disks::of_node(std::path::Path::new("/"));
    let words = disks.status().unwrap().words();
    words.split(" of ").nth(1).unwrap().split(',').next().unwrap().to_owned()
}

async fn ask_for_the_disk(wire: Wire) {
    let mut world = World::with(wire, &ana_is_a_contact(), |_| {}).await;
    world.ollama.push(Answer::tool_call("system_disk_status", json!({})));
    world.ollama.push(Answer::echo_tool_result(PREFIX));
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai how full are the disks?");
    let parts = world.heard("Ana", 3).await;
    assert_parts(&parts, 3);
    let text = joined(&parts);
    assert!(text.contains(&disk_total()), "{text} lacks the machine's own {}", disk_total());
    assert!(words(&text).starts_with(&words(PREFIX)), "{text}");

    let requests = world.ollama.requests();
    let asked: Vec<_> = requests.iter().filter(|r| r.path == "/api/chat").collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body["tools"][0]["function"]["name"], "system_disk_status");
    let question = asked[0].body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(question["content"], "how full are the disks?");
    // Text of messages is nobody's business but the peers'.
    assert!(!world.log().contains("how full are the disks"), "the log holds a peer's text");
}

/// Every part fits, is cut between graphemes, is encrypted, and keeps its distance.
fn assert_parts(parts: &[Heard], count: usize) {
    assert_eq!(parts.len(), count);
    for (index, part) in parts.iter().enumerate() {
        assert!(part.text.len() <= 200, "{} bytes", part.text.len());
        assert!(part.pki);
        let mark = format!("{}/{count} ", index + 1);
        assert!(part.text.starts_with(&mark), "{} begins with {mark}", part.text);
        // A family that was cut would leave a joiner at an edge.
        for grapheme in part.text.graphemes(true) {
            assert!(!grapheme.starts_with('\u{200d}') && !grapheme.ends_with('\u{200d}'));
        }
    }
    for pair in parts.windows(2) {
        assert!(pair[1].at_ms - pair[0].at_ms > 2000, "{} ms apart", pair[1].at_ms - pair[0].at_ms);
    }
    let ids: HashSet<_> = parts.iter().map(|part| part.id).collect();
    assert_eq!(ids.len(), count);
}

#[tokio::test]
async fn a_peer_asks_over_tcp_and_is_answered_with_the_machines_real_figures() {
    ask_for_the_disk(Wire::Tcp).await;
}

#[tokio::test]
async fn a_peer_asks_over_a_serial_line_and_is_answered_with_the_machines_real_figures() {
    ask_for_the_disk(Wire::Pty).await;
}

#[tokio::test]
async fn a_link_that_breaks_between_two_parts_loses_none_and_repeats_none() {
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text(PREFIX));
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai tell me");
    world.heard("Ana", 1).await;
    world.sim.drop_link();
    let parts = world.heard("Ana", 3).await;
    assert_parts(&parts, 3);
    assert_eq!(words(&joined(&parts)), words(PREFIX));
    // A repeated part would be the next thing to leave.
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    let all = world.heard("Ana", 4).await;
    assert!(all[3].text.starts_with("pong"), "{}", all[3].text);
}

#[tokio::test]
async fn whatever_the_model_server_does_the_peer_gets_one_short_honest_line() {
    let mut world = World::new().await;
    world.start().await;
    let broken_call =
        json!({"error": "llama-server returned invalid tool call arguments for \"f\": {"});
    let faults: Vec<(&str, Vec<Answer>)> = vec![
        ("cut", vec![Answer::cut()]),
        (
            "error",
            vec![Answer::json(500, json!({"error": "model runner has unexpectedly stopped"}))],
        ),
        ("busy", vec![Answer::json(503, json!({"error": "server busy, please try again."}))]),
        ("nothing", vec![Answer::text(""), Answer::text(" ")]),
        (
            "broken call",
            vec![Answer::json(500, broken_call.clone()), Answer::json(500, broken_call)],
        ),
        ("no JSON", vec![Answer::json(200, json!("<html>"))]),
        (
            "a leaked call",
            vec![Answer::text("<tool_call>{\"name\": \"nope\""), Answer::text("<tool_call>")],
        ),
    ];
    for (count, (name, answers)) in faults.into_iter().enumerate() {
        for answer in answers {
            world.ollama.push(answer);
        }
        world.sim.say("Ana", SayTo::Direct, &format!("!ai question {count}"));
        let heard = world.heard("Ana", count + 1).await;
        let line = &heard[count].text;
        assert!(line.len() <= 120, "{name}: {line}");
        for word in ["500", "503", "error", "ollama", "http", "127.0", "tool_call", "json", "{"] {
            assert!(!line.to_lowercase().contains(word), "{name}: {line}");
        }
    }
    world.ollama.push(Answer::text("back again"));
    world.sim.say("Ana", SayTo::Direct, "!ai and now?");
    assert_eq!(world.heard("Ana", 8).await[7].text, "back again");
}

#[tokio::test]
async fn a_model_that_hangs_does_not_stop_the_reader_and_stop_really_ends_it() {
    let mut world = World::new().await;
    world.ollama.push(Answer::hang());
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai think for ever");
    world.until("the model is asked", async |w: &World| chats(w) == 1).await;
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    assert!(world.heard("Ana", 1).await[0].text.starts_with("pong"));
    assert_eq!(world.ollama.disconnected(), 0);
    world.sim.say("Ana", SayTo::Direct, "!ai stop");
    let heard = world.heard("Ana", 2).await;
    assert!(heard[1].text.to_lowercase().contains("stopped"), "{}", heard[1].text);
    world.until("the connection is closed", async |w: &World| w.ollama.disconnected() == 1).await;
}

fn chats(world: &World) -> usize {
    world.ollama.requests().iter().filter(|r| r.path == "/api/chat").count()
}
