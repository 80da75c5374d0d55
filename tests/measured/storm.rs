//! The whole node under faults in any order: what peers get, and what the node has on record of the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tombolo::config::AirtimeConfig;
use tombolo::mesh::view::{Delivery, MeshEvent};
use tombolo::sim::{SayTo, SimConfig};

use crate::support::scenes::worst_hour;
use crate::support::town::{Town, peers};

/// One thing that happens between two questions.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Nothing,
    LinkBreaks,
    RadioRestarts(u64),
    NodeIsKilled,
    RadioRefusesByDutyCycle,
    PeerLosesOurKey(u32),
    PeerGoesAway(u32),
    PeersComeBack,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::Nothing),
        1 => Just(Fault::LinkBreaks),
        1 => (1u64..60).prop_map(Fault::RadioRestarts),
        2 => Just(Fault::NodeIsKilled),
        1 => Just(Fault::RadioRefusesByDutyCycle),
        1 => (0u32..6).prop_map(Fault::PeerLosesOurKey),
        1 => (0u32..6).prop_map(Fault::PeerGoesAway),
        2 => Just(Fault::PeersComeBack),
    ]
}

#[derive(Debug, Clone)]
struct Weather {
    seed: u64,
    loss: f32,
    duplicates: f32,
    stolen: f32,
    collisions: bool,
    bridge: bool,
    /// What happens, so many seconds after each question.
    schedule: Vec<(u64, Fault)>,
}

fn weather() -> impl Strategy<Value = Weather> {
    let schedule = proptest::collection::vec((0u64..90, fault()), 24);
    let air = (0.0f32..0.3, 0.0f32..0.5, 0.0f32..0.2);
    (any::<u64>(), air, any::<bool>(), any::<bool>(), schedule).prop_map(
        |(seed, (loss, duplicates, stolen), collisions, bridge, schedule)| Weather {
            seed,
            loss,
            duplicates,
            stolen,
            collisions,
            bridge,
            schedule,
        },
    )
}

async fn happen(town: &mut Town, fault: Fault) {
    match fault {
        Fault::Nothing => {}
        Fault::LinkBreaks => town.sim.drop_link(),
        Fault::RadioRestarts(seconds) => town.sim.reboot(Duration::from_secs(seconds)),
        Fault::NodeIsKilled => {
            town.kill();
            town.spawn();
        }
        Fault::RadioRefusesByDutyCycle => {
            // For the radio the hour is full, whatever our own ledger says.
            town.sim.set_air_util(11.0);
            town.pass(Duration::from_secs(120)).await;
            town.sim.set_air_util(1.0);
        }
        Fault::PeerLosesOurKey(n) => {
            town.sim.set_peer(&format!("P{n}"), |peer| peer.forgets_our_key = true);
        }
        Fault::PeerGoesAway(n) => {
            town.sim.set_peer(&format!("P{n}"), |peer| peer.reachable = false);
        }
        Fault::PeersComeBack => come_back(town),
    }
}

fn come_back(town: &Town) {
    for n in 0..6 {
        town.sim.set_peer(&format!("P{n}"), |peer| peer.reachable = true);
    }
}

fn answer(question: &str) -> String {
    let number: usize = question.trim_start_matches('q').parse().unwrap_or(0);
    format!("{question}: {}", "word ".repeat(5 + 45 * (number % 3)))
}

/// The last state of each reply on disk.
fn replies(town: &Town) -> Vec<Value> {
    let files = std::fs::read_dir(town.data_dir().join("replies")).unwrap();
    files
        .map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            serde_json::from_str(text.lines().next_back().unwrap()).unwrap()
        })
        .collect()
}

async fn play(weather: &Weather) -> Town {
    let mut config = SimConfig {
        seed: weather.seed,
        hop_loss: weather.loss,
        duplicates: weather.duplicates,
        stolen: weather.stolen,
        collisions: weather.collisions,
        reboot_closes: !weather.bridge,
        peers: peers(6, |n| n % 3),
        ..SimConfig::default()
    };
    for peer in &mut config.peers {
        peer.loss = weather.loss;
        peer.beacon = Some(Duration::from_secs(1_200));
    }
    let airtime = AirtimeConfig { share: 1.0, ..AirtimeConfig::default() };
    let think = |question: &str| (Duration::from_secs(4), answer(question));
    let mut town = Town::start(config, airtime, think).await;
    for (number, (seconds, fault)) in weather.schedule.iter().enumerate() {
        let peer = number % 6;
        town.sim.say(&format!("P{peer}"), SayTo::Direct, &format!("!ai q{number}"));
        town.pass(Duration::from_secs(*seconds)).await;
        happen(&mut town, *fault).await;
        town.pass(Duration::from_secs(90 - seconds)).await;
    }
    // The weather clears up.
    come_back(&town);
    town.pass(Duration::from_secs(8 * 3_600)).await;
    town
}

fn check(town: &Town) -> Result<(), TestCaseError> {
    let told = town.told();
    let mut accepted: Vec<&str> = Vec::new();
    let mut again: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for (_, event) in &told {
        match event {
            MeshEvent::Heard { text, ignored: None, .. } => accepted.push(text),
            MeshEvent::PartState { reply, part, delivery: Delivery::Waiting(_), .. } => {
                *again.entry((&reply.0, *part)).or_default() += 1;
            }
            _ => {}
        }
    }
    accepted.sort_unstable();
    accepted.dedup();

    // Each accepted question has one end on record, and each answer an end of each of its parts.
    let ends = town.ends();
    let turns: Vec<&String> = ends.iter().filter(|end| *end != "command").collect();
    prop_assert_eq!(turns.len(), accepted.len(), "{:?} {:?}", turns, accepted);
    let mut answers = 0;
    let mut shown: BTreeMap<(String, String), usize> = BTreeMap::new();
    for reply in replies(town) {
        let parts = reply["parts"].as_array().unwrap();
        let released = usize::try_from(reply["released"].as_u64().unwrap()).unwrap();
        let id = reply["id"].as_str().unwrap();
        answers += usize::from(reply["kind"] == "Answer");
        for (index, part) in parts.iter().take(released).enumerate() {
            let (stage, known) = (part["stage"].as_str().unwrap(), &part["known"]);
            let ended = match (stage, known.as_str()) {
                ("Settled", Some("Delivered" | "Relayed" | "NotConfirmed" | "Cancelled")) => true,
                ("Settled", _) => known["Failed"].as_str().is_some_and(|why| !why.is_empty()),
                ("Held", _) => known["Waiting"].as_str().is_some_and(|why| !why.is_empty()),
                _ => false,
            };
            prop_assert!(ended, "{} part {}: {} {}", id, index + 1, stage, known);
            let waits = again.get(&(id, index + 1)).copied().unwrap_or(0);
            let replied_to = reply["in_reply_to"].to_string();
            shown.insert((replied_to, part["text"].as_str().unwrap().to_owned()), waits);
        }
    }
    let answered = turns.iter().filter(|end| matches!(end.as_str(), "answered" | "failed")).count();
    prop_assert_eq!(answers, answered);

    // A part is shown once, and once more only where it had to go again.
    for n in 0..6 {
        let heard = town.sim.heard(&format!("P{n}"));
        for text in heard.iter().filter(|text| !text.emoji) {
            let times = heard
                .iter()
                .filter(|h| (h.reply_id, &h.text) == (text.reply_id, &text.text))
                .count();
            let key = (text.reply_id.map_or(0, |id| id.0).to_string(), text.text.clone());
            let permitted = 1 + shown.get(&key).copied().unwrap_or(0);
            prop_assert!(times <= permitted, "P{}: {} times: {}", n, times, text.text);
        }
    }

    // Good manners at the radio's door, and the law.
    let door = town.sim.door();
    prop_assert!(door.iter().all(|text| text.taken), "the radio's 2 s rule was broken");
    for pair in door.windows(2) {
        prop_assert!(pair[1].at_ms >= pair[0].at_ms + 2_000, "{:?}", pair);
    }
    let texts = town.texts();
    prop_assert!(worst_hour(texts.iter().map(|sent| (sent.at_ms, sent.airtime_us))) <= 360_000);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_accepted_question_ends_answered_or_with_a_reason_and_nothing_comes_twice(weather in weather()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let town = play(&weather).await;
            check(&town)
        })?;
    }
}
