//! What is measured: a lossy path, and a day in a town of two hundred. The tests hold the figures to their aims; the
//! bench `mesh` prints them for more and longer scenes.
//!
//! Owns the scenes and their figures. Judges nothing. Every scene follows from its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tombolo::config::AirtimeConfig;
use tombolo::mesh::reply;
use tombolo::mesh::view::{Delivery, MeshEvent, Sizes};
use tombolo::sim::{Heard, SayTo, SimConfig};
use tombolo_hw::preset::Preset;
use tombolo_hw::text::{self, PacketKind};

use super::town::{Town, peers};

/// Bytes of a part, and parts of a burst, as the daemon has them by default.
const BUDGET: usize = 200;
const BURST: usize = 3;

/// The parts of an answer as a peer should get them.
pub fn parts_of(answer: &str) -> Vec<String> {
    reply::plan(answer, BUDGET, BURST, "more").into_iter().take(BURST).collect()
}

/// The time on air of a part in a direct message with LONG_FAST, that replies to its question.
pub fn part_us(part: &str) -> u64 {
    let modem = Preset::from_name("LONG_FAST").unwrap().modem(false);
    u64::from(modem.time_on_air_us(text::frame_len(PacketKind::Direct, part.len(), true)))
}

/// Figures of a lossy path.
#[derive(Debug, Default, Clone)]
pub struct Lossy {
    /// Questions that the node got.
    pub accepted: usize,
    /// Of those, answers of which every part arrived.
    pub whole: usize,
    /// Parts of all answers.
    pub parts: usize,
    /// Parts that a peer was shown a second time.
    pub twice: usize,
    /// What the parts would take if nothing were lost, µs.
    pub bound_us: u64,
    /// What our radio's texts took, µs.
    pub texts_us: u64,
    /// What everything that our radio sent took, its acks included, µs.
    pub own_us: u64,
    /// What the relays sent, µs.
    pub relayed_us: u64,
}

impl Lossy {
    /// Several scenes as one.
    pub fn and(mut self, other: &Lossy) -> Lossy {
        self.accepted += other.accepted;
        self.whole += other.whole;
        self.parts += other.parts;
        self.twice += other.twice;
        self.bound_us += other.bound_us;
        self.texts_us += other.texts_us;
        self.own_us += other.own_us;
        self.relayed_us += other.relayed_us;
        self
    }
}

/// Eight peers behind so many relays each ask ten questions, and every hop loses that share of the packets. The
/// answers have three parts.
pub async fn lossy(relays: u32, loss: f32, seed: u64) -> Lossy {
    const PEERS: u32 = 8;
    let mut config =
        SimConfig { seed, hop_loss: loss, peers: peers(PEERS, |_| relays), ..SimConfig::default() };
    config.lora.region = 1; // no duty cycle: what the losses cost is not mixed with waiting
    for peer in &mut config.peers {
        peer.loss = loss;
        peer.beacon = Some(Duration::from_secs(900));
    }
    let answer =
        |question: &str| format!("{question}: {}", "And some more words here. ".repeat(17));
    let airtime = AirtimeConfig { share: 1.0, max_parts: BURST };
    let town =
        Town::start(config, airtime, move |question| (Duration::from_secs(3), answer(question)))
            .await;
    for round in 0..10 {
        for n in 0..PEERS {
            let question = format!("question {round} of {n}");
            town.sim.say(&format!("P{n}"), SayTo::Direct, &format!("!ai {question}"));
            town.pass(Duration::from_secs(90)).await;
        }
    }
    town.pass(Duration::from_secs(7_200)).await;
    let mut figures = Lossy {
        texts_us: town.texts().iter().map(|sent| u64::from(sent.airtime_us)).sum(),
        own_us: town.sim.transmissions().iter().map(|sent| u64::from(sent.airtime_us)).sum(),
        relayed_us: town.sim.relayed().airtime_us,
        ..Lossy::default()
    };
    for question in town.asked() {
        let peer = question.rsplit(' ').next().unwrap();
        let heard = town.sim.heard(&format!("P{peer}"));
        let wanted = parts_of(&answer(&question));
        figures.accepted += 1;
        figures.parts += wanted.len();
        figures.bound_us += wanted.iter().map(|part| part_us(part)).sum::<u64>();
        // The rest of an answer does not name its question, but what it replies to does.
        let asked = heard.iter().find(|text| text.text == wanted[0]).map(|text| text.reply_id);
        let times = |part: &String| {
            heard.iter().filter(|h| Some(h.reply_id) == asked && h.text == *part).count()
        };
        let times: Vec<usize> = wanted.iter().map(times).collect();
        figures.whole += usize::from(times.iter().all(|times| *times > 0));
        figures.twice += times.iter().map(|times| times.saturating_sub(1)).sum::<usize>();
    }
    figures
}

/// Figures of a day.
#[derive(Debug, Default, Clone)]
pub struct Day {
    /// Questions that were asked aloud.
    pub said: usize,
    /// Of those, how many the node accepted.
    pub accepted: usize,
    /// Of those, answers of which every part arrived.
    pub whole: usize,
    /// Of those, answers of which some part arrived.
    pub partly: usize,
    /// How accepted questions ended, as `seen.log` says.
    pub ended: BTreeMap<String, usize>,
    /// Questions that were heard and refused, by reason.
    pub refused: BTreeMap<String, usize>,
    /// What became of the parts, as last told.
    pub parts: BTreeMap<String, usize>,
    /// From each accepted question to the first part of its answer, ms, sorted.
    pub waits_ms: Vec<u64>,
    /// The most that the ledger held of any rolling hour, ms.
    pub worst_ledger_ms: u64,
    /// The most that our radio really sent in any rolling hour, ms: texts, and everything.
    pub worst_sent_ms: (u64, u64),
    /// What answers may use in an hour, and the law, ms.
    pub share_ms: u64,
    /// See `share_ms`.
    pub limit_ms: u64,
    /// Texts of our radio that its own rules refused for their pace.
    pub too_fast: usize,
    /// The shortest time between two texts at the radio's door, ms.
    pub least_gap_ms: u64,
    /// At the end of each hour.
    pub hours: Vec<Hour>,
}

impl Day {
    /// How long that percentage of the accepted questions waited at most for the beginning of its answer, ms.
    pub fn wait_ms(&self, percent: usize) -> u64 {
        let place =
            (self.waits_ms.len() * percent / 100).min(self.waits_ms.len().saturating_sub(1));
        self.waits_ms.get(place).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ms: u64| ms / 1000;
        let refused: usize = self.refused.values().sum();
        writeln!(
            f,
            "{} questions said, {} accepted, {refused} refused {:?}, {} not heard",
            self.said,
            self.accepted,
            self.refused,
            self.said - self.accepted - refused
        )?;
        writeln!(
            f,
            "{} answers whole, {} in part; ends {:?}",
            self.whole, self.partly, self.ended
        )?;
        writeln!(f, "parts {:?}", self.parts)?;
        writeln!(
            f,
            "waits: half within {} s, 90 % {} s, 99 % {} s, longest {} s",
            seconds(self.wait_ms(50)),
            seconds(self.wait_ms(90)),
            seconds(self.wait_ms(99)),
            seconds(self.wait_ms(100))
        )?;
        writeln!(
            f,
            "worst hour: ledger {} s; texts {} s of a share of {} s; everything {} s of {} s by law",
            seconds(self.worst_ledger_ms),
            seconds(self.worst_sent_ms.0),
            seconds(self.share_ms),
            seconds(self.worst_sent_ms.1),
            seconds(self.limit_ms)
        )?;
        writeln!(f, "texts at least {} ms apart, {} too fast", self.least_gap_ms, self.too_fast)?;
        for (number, hour) in self.hours.iter().enumerate().filter(|(n, _)| n % 6 == 5) {
            let sizes: Vec<String> = hour
                .sizes
                .iter()
                .filter(|(_, size)| *size > 0)
                .map(|(name, size)| format!("{name} {size}"))
                .collect();
            writeln!(
                f,
                "after {} h: {} files, {} kB, {} kB resident; {}",
                number + 1,
                hour.files.0,
                hour.files.1 / 1000,
                hour.rss_kb,
                sizes.join(", ")
            )?;
        }
        Ok(())
    }
}

/// What is held at the end of an hour.
#[derive(Debug, Default, Clone)]
pub struct Hour {
    /// Entries in memory.
    pub sizes: Sizes,
    /// Files in the data folder, and their bytes.
    pub files: (usize, u64),
    /// Resident memory of the whole process, the simulation included, kB.
    pub rss_kb: u64,
}

/// So many peers in EU_868 ask for so many hours, each every three hours on average and twice as often in the
/// evening; some are neighbours, most behind one to three relays, and every hop loses a twentieth. Then two hours are
/// left for the rest.
pub async fn day(count: u32, hours: u64, seed: u64) -> Day {
    let mut config = SimConfig {
        seed,
        hop_loss: 0.05,
        duplicates: 0.1,
        collisions: true,
        peers: peers(count, |n| n % 4),
        ..SimConfig::default()
    };
    for peer in &mut config.peers {
        peer.loss = 0.05;
        peer.beacon = Some(Duration::from_secs(3_600));
    }
    let town = Town::start(config, AirtimeConfig::default(), |question| {
        let number: u64 = question.trim_start_matches('q').parse().unwrap_or(0);
        let random = mixed(number);
        (Duration::from_secs(3 + random % 25), answer_in_town(question))
    })
    .await;
    let mut day = Day::default();
    let said = say_all_day(&town, count, hours, seed, &mut day).await;
    let airtime = town.handle().airtime().await.unwrap();
    (day.share_ms, day.limit_ms) = (airtime.share_ms.unwrap(), airtime.limit_ms.unwrap());
    day.said = said.len();
    count_ends(&town, &said, &mut day);
    day.worst_sent_ms = (
        worst_hour(town.texts().iter().map(|sent| (sent.at_ms, sent.airtime_us))),
        worst_hour(town.sim.transmissions().iter().map(|sent| (sent.at_ms, sent.airtime_us))),
    );
    let door = town.sim.door();
    day.too_fast = door.iter().filter(|text| !text.taken).count();
    day.least_gap_ms = door.windows(2).map(|pair| pair[1].at_ms - pair[0].at_ms).min().unwrap_or(0);
    day
}

/// Short mostly; now and then two parts, or three.
fn answer_in_town(question: &str) -> String {
    let number: u64 = question.trim_start_matches('q').parse().unwrap_or(0);
    let words = match mixed(number + 77) % 10 {
        0..6 => 4 + mixed(number) % 28,
        6..9 => 40 + mixed(number) % 25,
        _ => 80 + mixed(number) % 20,
    };
    format!("{question}: {}", "word ".repeat(usize::try_from(words).unwrap()))
}

type Said = Vec<(u64, u32, String)>;

async fn say_all_day(town: &Town, count: u32, hours: u64, seed: u64, day: &mut Day) -> Said {
    let mut random = mixed(seed + 1);
    let mut plan: Vec<(u64, u32)> = Vec::new();
    for peer in 0..count {
        for slot in 0..hours * 60 {
            random = mixed(random);
            let evening = (18..22).contains(&(slot / 60 % 24));
            if random % 180 < if evening { 2 } else { 1 } {
                plan.push((slot * 60_000 + random % 60_000, peer));
            }
        }
    }
    plan.sort_unstable();
    let begun = town.sim.now_ms();
    let mut said = Vec::new();
    let mut plan = plan.into_iter().peekable();
    for minute in 1..=(hours + 2) * 60 {
        while let Some((at, peer)) = plan.next_if(|(at, _)| *at < minute * 60_000) {
            town.pass(Duration::from_millis((begun + at).saturating_sub(town.sim.now_ms()))).await;
            let question = format!("q{}", said.len());
            said.push((town.sim.now_ms(), peer, question.clone()));
            town.sim.say(&format!("P{peer}"), SayTo::Direct, &format!("!ai {question}"));
        }
        let left = (begun + minute * 60_000).saturating_sub(town.sim.now_ms());
        town.pass(Duration::from_millis(left)).await;
        let used = town.handle().airtime().await.unwrap().used_ms;
        day.worst_ledger_ms = day.worst_ledger_ms.max(used);
        if minute % 60 == 0 {
            day.hours.push(Hour {
                sizes: town.handle().sizes().await.unwrap(),
                files: town.files(),
                rss_kb: rss_kb(),
            });
        }
    }
    said
}

fn count_ends(town: &Town, said: &Said, day: &mut Day) {
    let mut verdicts: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    let mut parts: BTreeMap<(String, usize), Delivery> = BTreeMap::new();
    for (_, event) in town.told() {
        match event {
            MeshEvent::Heard { text, ignored, .. } => {
                verdicts
                    .entry(text.trim_start_matches("!ai ").to_owned())
                    .or_default()
                    .push(ignored);
            }
            MeshEvent::PartState { reply, part, delivery, .. } => {
                parts.insert((reply.0, part), delivery);
            }
            _ => {}
        }
    }
    for delivery in parts.into_values() {
        let word = format!("{delivery:?}");
        let word = word.split('(').next().unwrap_or_default().to_lowercase();
        *day.parts.entry(word).or_default() += 1;
    }
    for word in town.ends() {
        *day.ended.entry(word).or_default() += 1;
    }
    let mut heard: BTreeMap<u32, Vec<Heard>> = BTreeMap::new();
    for (said_ms, peer, question) in said {
        let Some(verdicts) = verdicts.get(question) else { continue };
        if !verdicts.iter().any(Option::is_none) {
            let reason = verdicts.iter().flatten().next().cloned().unwrap_or_default();
            *day.refused.entry(reason).or_default() += 1;
            continue;
        }
        day.accepted += 1;
        let heard = heard.entry(*peer).or_insert_with(|| town.sim.heard(&format!("P{peer}")));
        let wanted = parts_of(&answer_in_town(question));
        let first = heard.iter().find(|text| text.text == wanted[0]);
        let Some(first) = first else { continue };
        day.waits_ms.push(first.at_ms - said_ms);
        let got: BTreeSet<&str> = heard
            .iter()
            .filter(|text| text.reply_id == first.reply_id)
            .map(|text| text.text.as_str())
            .collect();
        day.partly += 1;
        day.whole += usize::from(wanted.iter().all(|part| got.contains(part.as_str())));
    }
    day.waits_ms.sort_unstable();
}

/// The largest sum of any sixty minutes, ms, of (begin in ms, µs).
pub fn worst_hour(sent: impl Iterator<Item = (u64, u32)>) -> u64 {
    let (mut window, mut sum, mut worst) = (std::collections::VecDeque::new(), 0, 0);
    for (at, us) in sent {
        window.push_back((at, u64::from(us)));
        sum += u64::from(us);
        while let Some((_, old)) = window.front().filter(|(then, _)| then + 3_600_000 <= at) {
            sum -= old;
            window.pop_front();
        }
        worst = worst.max(sum);
    }
    worst / 1000
}

/// A number that follows from another and looks like none that does.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}
