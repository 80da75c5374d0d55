//! What the same answer costs on air in three scripts, against the least that the budget of a packet allows.

use std::time::Duration;

use tombolo::config::AirtimeConfig;
use tombolo::sim::{SayTo, SimConfig};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::support::scenes::part_us;
use crate::support::town::{Town, peers};

const BUDGET: usize = 200;
const BURST: usize = 3;

/// 600 characters, as people count them.
fn answer(script: &str) -> String {
    let words = match script {
        "English" => ["the ferry", "leaves at nine", "from the old pier,", "weather permitting;"],
        "Ukrainian" => {
            ["пором", "відходить о дев'ятій", "від старого причалу,", "якщо дозволить погода;"]
        }
        "emoji" => ["⛴️🕘", "🌊🌊🌊", "👨‍👩‍👧‍👦", "🇺🇦☀️👍🏽"],
        other => panic!("{other}"),
    };
    let text = words.iter().cycle().take(400).copied().collect::<Vec<_>>().join(" ");
    text.graphemes(true).take(600).collect::<String>().trim_end().to_owned()
}

/// The fewest parts into which a text fits at all: each is filled with whole characters until not one more fits.
/// Only white space at a cut may be left out; marks and the note of a waiting rest take their room.
fn least(text: &str) -> usize {
    (1..).find(|parts| fits(text, *parts)).unwrap()
}

fn fits(text: &str, parts: usize) -> bool {
    let mut rest = text.graphemes(true).peekable();
    for part in 1..=parts {
        while rest.next_if(|character| character.trim().is_empty()).is_some() {}
        let mark = if parts == 1 { 0 } else { format!("{part}/{parts} ").len() };
        let note = if part % BURST == 0 && part < parts { " (more)".len() } else { 0 };
        let mut room = BUDGET - mark - note;
        while let Some(character) = rest.next_if(|character| character.len() <= room) {
            room -= character.len();
        }
    }
    rest.all(|character| character.trim().is_empty())
}

#[tokio::test(start_paused = true)]
async fn the_same_600_characters_take_the_least_number_of_packets_in_any_script() {
    for (script, bytes, parts) in
        [("English", 600, 4), ("Ukrainian", 1_090, 6), ("emoji", 3_368, 19)]
    {
        let text = answer(script);
        let (mut config, answered) = (SimConfig::default(), text.clone());
        config.peers = peers(1, |_| 0);
        let airtime = AirtimeConfig { share: 1.0, max_parts: BURST };
        let town = Town::start(config, airtime, move |_| (Duration::ZERO, answered.clone())).await;
        town.sim.say("P0", SayTo::Direct, "!ai when does the ferry leave?");
        town.pass(Duration::from_secs(60)).await;
        while town.sim.heard("P0").last().is_some_and(|heard| heard.text.ends_with(" (more)")) {
            town.sim.say("P0", SayTo::Direct, "!ai more");
            town.pass(Duration::from_secs(60)).await;
        }
        let heard: Vec<String> = town.sim.heard("P0").into_iter().map(|heard| heard.text).collect();
        let sent = town.texts();
        println!("{script}: {} bytes, {} packets", text.len(), sent.len());
        assert_eq!(sent.len(), least(&text), "{script}");
        assert_eq!((text.len(), heard.len()), (bytes, parts), "{script}");
        // Nothing on air but these, and nothing of the answer missing.
        let us: u64 = sent.iter().map(|sent| u64::from(sent.airtime_us)).sum();
        assert_eq!(us, heard.iter().map(|part| part_us(part)).sum::<u64>(), "{script}");
        let body = |part: &String| {
            let part = part.strip_suffix(" (more)").unwrap_or(part);
            part.split_once(' ').map_or(String::new(), |(_, body)| body.to_owned())
        };
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(&heard.iter().map(body).collect::<String>()), bare(&text), "{script}");
    }
}
