//! Twenty percent of the packets lost on each hop: what arrives, and what it costs.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo::config::AirtimeConfig;
use tombolo::sim::{SayTo, SimConfig};

use crate::support::town::{Town, peers};

#[tokio::test(start_paused = true)]
async fn probe() {
    for (hops, loss) in [(1u32, 0.2f32), (2, 0.2)] {
        let (mut asked, mut whole, mut parts_sent, mut us, mut acks) = (0, 0, 0usize, 0u64, 0u64);
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for seed in 0..8 {
            let mut config = SimConfig {
                seed,
                hop_loss: loss,
                peers: peers(8, |_| hops),
                ..SimConfig::default()
            };
            for peer in &mut config.peers {
                peer.loss = loss;
                peer.beacon = Some(Duration::from_secs(900));
            }
            config.lora.region = 1;
            let town = Town::start(config, AirtimeConfig { share: 1.0, max_parts: 3 }, |text| {
                (
                    Duration::from_secs(3),
                    format!("{text}: {}", "And some more words here. ".repeat(17)),
                )
            })
            .await;
            let mut accepted = Vec::new();
            for round in 0..10 {
                for n in 0..8 {
                    let question = format!("q{round} of {n}");
                    town.sim.say(&format!("P{n}"), SayTo::Direct, &format!("!ai {question}"));
                    accepted.push((n, question));
                    town.pass(Duration::from_secs(90)).await;
                }
            }
            town.pass(Duration::from_secs(7200)).await;
            for (_, event) in town.told() {
                if let tombolo::mesh::view::MeshEvent::TurnEnded { parts, .. } = event {
                    asked += 1;
                    parts_sent += parts;
                }
            }
            for (n, question) in accepted {
                let heard = town.sim.heard(&format!("P{n}"));
                let got: std::collections::BTreeSet<String> =
                    heard.iter().map(|h| h.text.clone()).collect();
                // all parts: those that reply to ...
                let mine = format!("1/3 {question}:");
                if let Some(first) = heard.iter().find(|h| h.text.starts_with(&mine)) {
                    let of: std::collections::BTreeSet<&str> = heard
                        .iter()
                        .filter(|h| h.reply_id == first.reply_id)
                        .map(|h| &h.text[..4])
                        .collect();
                    if of.len() == 3 {
                        whole += 1;
                    }
                }
                let _ = got;
            }
            let mut last = BTreeMap::new();
            for (_, event) in town.told() {
                if let tombolo::mesh::view::MeshEvent::PartState { reply, part, delivery, .. } =
                    event
                {
                    last.insert((reply.0, part), format!("{delivery:?}"));
                }
            }
            for state in last.into_values() {
                *states.entry(state).or_default() += 1;
            }
            for n in 0..8 {
                let heard = town.sim.heard(&format!("P{n}"));
                let mut seen = std::collections::BTreeSet::new();
                for h in heard {
                    if !seen.insert((h.reply_id, h.text.clone())) {
                        *states.entry("DUP".to_owned()).or_default() += 1;
                    }
                }
            }
            us += town.texts().iter().map(|t| u64::from(t.airtime_us)).sum::<u64>();
            acks += town
                .sim
                .transmissions()
                .iter()
                .filter(|t| t.port == 5)
                .map(|t| u64::from(t.airtime_us))
                .sum::<u64>();
        }
        println!(
            "hops {hops} loss {loss}: accepted {asked} whole {whole} parts {parts_sent} text s {} ack s {} {states:?}",
            us / 1_000_000,
            acks / 1_000_000
        );
    }
}
