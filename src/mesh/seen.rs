//! What was answered before: `seen.log`.
//!
//! Owns the memory of answered packets, on disk and bounded, and of recent answers by their question's words, so
//! that a replay is never answered twice and an impatient sender gets the same answer once more. Holds no text:
//! only hashes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::inbox::ChannelRef;
use crate::assistant::{PeerId, TurnId};
use crate::clock::Now;
use crate::node::PacketId;
use crate::store::{self, Durability, Journal, StoreError};

const FILE: &str = "seen.log";
/// Packets that are remembered. At twenty an hour for each of ten peers, two days; the file grows to twice that
/// before it is cut.
const MAX_IDS: usize = 10_000;
/// For how long the same words count as the same question.
pub const SAME_TEXT_MS: u64 = 600_000;
/// Recent answers that are remembered by their words.
const MAX_RECENT: usize = 256;

/// How a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A model's answer was handed to the outbox.
    Answered,
    /// The answer of another packet with the same words was sent once more.
    Repeated,
    /// The peer was asked to confirm a call.
    AskedBack,
    /// A failure was told.
    Failed,
    /// A command was carried out.
    Command,
    /// The peer stopped it.
    Stopped,
    /// It had been accepted and was refused after all.
    Refused(&'static str),
}

impl Outcome {
    /// The word for it in the file.
    fn word(self) -> String {
        match self {
            Outcome::Answered => "answered".to_owned(),
            Outcome::Repeated => "repeated".to_owned(),
            Outcome::AskedBack => "asked-back".to_owned(),
            Outcome::Failed => "failed".to_owned(),
            Outcome::Command => "command".to_owned(),
            Outcome::Stopped => "stopped".to_owned(),
            Outcome::Refused(reason) => format!("refused:{}", reason.replace(' ', "-")),
        }
    }
}

/// Names the turn of a packet: the same for the same sender and packet id, whatever else is in the packet. A packet
/// without id (0) is named by its words.
pub fn turn_id(peer: &PeerId, id: PacketId, text: &str) -> TurnId {
    let mut hash = Sha256::new();
    hash.update(peer.0.as_bytes());
    hash.update([0]);
    if id == PacketId(0) {
        hash.update(b"text");
        hash.update(text.as_bytes());
    } else {
        hash.update(id.0.to_le_bytes());
    }
    TurnId(format!("m-{}", hex(&hash.finalize()[..16])))
}

/// Is it a name that [`turn_id`] gives?
pub fn is_turn_id(turn: &TurnId) -> bool {
    mark_of(turn).is_some()
}

/// The memory.
#[derive(Debug)]
pub struct Seen {
    path: PathBuf,
    journal: Journal,
    lines: usize,
    ids: HashSet<u128>,
    order: VecDeque<u128>,
    /// Newest last.
    recent: VecDeque<Recent>,
    last_turn: HashMap<u64, u64>,
}

#[derive(Debug)]
struct Recent {
    peer: u64,
    text: u64,
    turn: TurnId,
    at_ms: u64,
}

impl Seen {
    /// Reads what was answered before; lines that can't be read are skipped.
    pub fn open(data_dir: &Path, now: Now) -> Result<Seen, StoreError> {
        let path = data_dir.join(FILE);
        let lines = store::journal_lines(&path)?;
        let mut seen = Seen {
            journal: Journal::open(&path)?,
            path,
            lines: lines.len(),
            ids: HashSet::new(),
            order: VecDeque::new(),
            recent: VecDeque::new(),
            last_turn: HashMap::new(),
        };
        for line in &lines {
            if let Some((at_unix, turn, peer, text, outcome)) = parse(line) {
                let age = now.unix_ms.checked_sub(at_unix).filter(|age| *age < SAME_TEXT_MS);
                let at_ms = age.map(|age| now.mono_ms.saturating_sub(age));
                seen.remember(turn, peer, text, at_ms, outcome == "answered");
            }
        }
        seen.compact()?;
        Ok(seen)
    }

    /// Was this packet answered, or refused for good?
    pub fn contains(&self, turn: &TurnId) -> bool {
        mark_of(turn).is_some_and(|mark| self.ids.contains(&mark))
    }

    /// Records the end of a packet. An error means that it is remembered until a restart only.
    pub fn record(
        &mut self,
        turn: &TurnId,
        peer: &PeerId,
        words: Option<Words>,
        outcome: Outcome,
        now: Now,
    ) -> Result<(), StoreError> {
        let Some(mark) = mark_of(turn) else { return Ok(()) };
        let peer = short_hash(&[peer.0.as_bytes()]);
        let text = words.map(|words| words.0);
        self.remember(mark, peer, text, Some(now.mono_ms), outcome == Outcome::Answered);
        let text = text.map_or_else(|| "-".to_owned(), |text| format!("{text:016x}"));
        let line = format!("{} {mark:032x} {peer:016x} {text} {}", now.unix_ms, outcome.word());
        self.journal.append(&line, Durability::Process)?;
        self.lines += 1;
        if self.lines >= 2 * MAX_IDS { self.compact() } else { Ok(()) }
    }

    /// The turn that answered the same words of the same peer in the last ten minutes.
    pub fn recent_answer(&self, peer: &PeerId, words: Words, now: Now) -> Option<TurnId> {
        let peer = short_hash(&[peer.0.as_bytes()]);
        self.recent
            .iter()
            .rev()
            .find(|recent| recent.peer == peer && recent.text == words.0)
            .filter(|recent| now.mono_ms.saturating_sub(recent.at_ms) < SAME_TEXT_MS)
            .map(|recent| recent.turn.clone())
    }

    /// Has that peer had a turn in the last ten minutes?
    pub fn had_turn_lately(&self, peer: &PeerId, now: Now) -> bool {
        self.last_turn
            .get(&short_hash(&[peer.0.as_bytes()]))
            .is_some_and(|at| now.mono_ms.saturating_sub(*at) < SAME_TEXT_MS)
    }

    /// How much is held in memory.
    pub fn sizes(&self) -> [(&'static str, usize); 3] {
        [
            ("ended packets", self.ids.len()),
            ("recent answers", self.recent.len()),
            ("recent turns", self.last_turn.len()),
        ]
    }

    /// Where it is, for syncing.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn remember(
        &mut self,
        mark: u128,
        peer: u64,
        text: Option<u64>,
        at_ms: Option<u64>,
        answered: bool,
    ) {
        if self.ids.insert(mark) {
            self.order.push_back(mark);
            if self.order.len() > MAX_IDS
                && let Some(oldest) = self.order.pop_front()
            {
                self.ids.remove(&oldest);
            }
        }
        let Some(at_ms) = at_ms else { return };
        if self.last_turn.len() >= MAX_RECENT {
            self.last_turn.retain(|_, at| at_ms.saturating_sub(*at) < SAME_TEXT_MS);
        }
        if self.last_turn.len() < MAX_RECENT {
            self.last_turn.insert(peer, at_ms);
        }
        if let Some(text) = text.filter(|_| answered) {
            if self.recent.len() >= MAX_RECENT {
                self.recent.pop_front();
            }
            let turn = TurnId(format!("m-{mark:032x}"));
            self.recent.push_back(Recent { peer, text, turn, at_ms });
        }
    }

    fn compact(&mut self) -> Result<(), StoreError> {
        if self.lines < 2 * MAX_IDS {
            return Ok(());
        }
        let lines = store::journal_lines(&self.path)?;
        let kept = &lines[lines.len().saturating_sub(MAX_IDS)..];
        store::replace(&self.path, (kept.join("\n") + "\n").as_bytes(), Durability::Process)?;
        self.journal = Journal::open(&self.path)?;
        self.lines = kept.len();
        Ok(())
    }
}

/// The words of a question and where it was asked, as a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words(u64);

impl Words {
    /// Case and spacing don't matter.
    pub fn of(question: &str, channel: Option<&ChannelRef>) -> Words {
        let folded: Vec<String> = question.split_whitespace().map(str::to_lowercase).collect();
        let place = channel.map_or_else(String::new, |channel| channel.index.to_string());
        Words(short_hash(&[place.as_bytes(), folded.join(" ").as_bytes()]))
    }
}

fn parse(line: &str) -> Option<(u64, u128, u64, Option<u64>, &str)> {
    let mut fields = line.split(' ');
    let at = fields.next()?.parse().ok()?;
    let turn = u128::from_str_radix(fields.next()?, 16).ok()?;
    let peer = u64::from_str_radix(fields.next()?, 16).ok()?;
    let text = u64::from_str_radix(fields.next()?, 16).ok();
    Some((at, turn, peer, text, fields.next()?))
}

fn mark_of(turn: &TurnId) -> Option<u128> {
    let digits = turn.0.strip_prefix("m-")?;
    let plain = digits.len() == 32
        && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    u128::from_str_radix(digits, 16).ok().filter(|_| plain)
}

fn short_hash(parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { mono_ms: 1_000_000, unix_ms: 1_700_000_000_000 };

    fn ana() -> PeerId {
        PeerId("key:ana".to_owned())
    }

    fn later(ms: u64) -> Now {
        NOW.plus(std::time::Duration::from_millis(ms))
    }

    fn ask(text: &str) -> Words {
        Words::of(text, None)
    }

    #[test]
    fn a_turn_is_named_by_key_and_packet_id() {
        let ben = PeerId("key:ben".to_owned());
        let one = turn_id(&ana(), PacketId(1), "a");
        assert_eq!(one, turn_id(&ana(), PacketId(1), "b"));
        assert_ne!(one, turn_id(&ana(), PacketId(2), "a"));
        assert_ne!(one, turn_id(&ben, PacketId(1), "a"));
        assert!(is_turn_id(&one));
        let unnamed = turn_id(&ana(), PacketId(0), "a");
        assert_eq!(unnamed, turn_id(&ana(), PacketId(0), "a"));
        assert_ne!(unnamed, turn_id(&ana(), PacketId(0), "b"));
        for wrong in ["m-", "m-../../x", "x", "m-+0000000000000000000000000000000"] {
            assert!(!is_turn_id(&TurnId(wrong.to_owned())), "{wrong}");
        }
    }

    #[test]
    fn an_answered_packet_is_known_after_a_restart_at_any_age() {
        let folder = tempfile::tempdir().unwrap();
        let turn = turn_id(&ana(), PacketId(9), "x");
        let mut seen = Seen::open(folder.path(), NOW).unwrap();
        assert!(!seen.contains(&turn));
        seen.record(&turn, &ana(), Some(ask("x")), Outcome::Answered, NOW).unwrap();
        assert!(seen.contains(&turn));
        drop(seen);
        for now in [later(1), later(86_400_000), Now { mono_ms: 5, unix_ms: 5 }] {
            assert!(Seen::open(folder.path(), now).unwrap().contains(&turn));
        }
    }

    #[test]
    fn the_same_words_count_as_the_same_question_for_ten_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let turn = turn_id(&ana(), PacketId(9), "x");
        let mut seen = Seen::open(folder.path(), NOW).unwrap();
        seen.record(&turn, &ana(), Some(ask("How  Much?")), Outcome::Answered, NOW).unwrap();
        let reopened = Seen::open(folder.path(), later(1000)).unwrap();
        for seen in [&seen, &reopened] {
            let found = |words, at| seen.recent_answer(&ana(), words, later(at));
            assert_eq!(found(ask("how much?"), 1000), Some(turn.clone()));
            assert_eq!(found(ask("how much?"), SAME_TEXT_MS - 1), Some(turn.clone()));
            assert_eq!(found(ask("how much?"), SAME_TEXT_MS), None);
            assert_eq!(found(ask("how many?"), 1000), None);
            let elsewhere = ChannelRef { index: 1, name: "bots".to_owned() };
            assert_eq!(found(Words::of("how much?", Some(&elsewhere)), 1000), None);
            let other = PeerId("claim:!a1b2c3d4".to_owned());
            assert_eq!(seen.recent_answer(&other, ask("how much?"), NOW), None);
            assert!(seen.had_turn_lately(&ana(), later(SAME_TEXT_MS - 1)));
            assert!(!seen.had_turn_lately(&ana(), later(SAME_TEXT_MS)));
            assert!(!seen.had_turn_lately(&other, NOW));
        }
    }

    #[test]
    fn only_an_answer_is_worth_repeating() {
        let folder = tempfile::tempdir().unwrap();
        let mut seen = Seen::open(folder.path(), NOW).unwrap();
        for (id, outcome) in
            [(1, Outcome::Failed), (2, Outcome::Stopped), (3, Outcome::Refused("busy"))]
        {
            let turn = turn_id(&ana(), PacketId(id), "x");
            seen.record(&turn, &ana(), Some(ask("x")), outcome, NOW).unwrap();
            assert!(seen.contains(&turn));
        }
        assert_eq!(seen.recent_answer(&ana(), ask("x"), NOW), None);
    }

    #[test]
    fn the_file_and_the_memory_are_bounded_and_keep_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let mut seen = Seen::open(folder.path(), NOW).unwrap();
        let name = |i: usize| turn_id(&ana(), PacketId(u32::try_from(i).unwrap() + 1), "");
        let last = 2 * MAX_IDS;
        for i in 0..=last {
            seen.record(&name(i), &ana(), None, Outcome::Command, NOW).unwrap();
        }
        assert_eq!(seen.ids.len(), MAX_IDS);
        assert!(seen.lines <= MAX_IDS + 1);
        let reopened = Seen::open(folder.path(), NOW).unwrap();
        for seen in [&seen, &reopened] {
            assert!(seen.contains(&name(last)) && seen.contains(&name(last - MAX_IDS + 1)));
            assert!(!seen.contains(&name(last - MAX_IDS - 1)));
        }
    }

    #[test]
    fn broken_lines_cost_only_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let turn = turn_id(&ana(), PacketId(9), "x");
        let mut seen = Seen::open(folder.path(), NOW).unwrap();
        seen.record(&turn, &ana(), None, Outcome::Command, NOW).unwrap();
        drop(seen);
        let path = folder.path().join(FILE);
        let mut bytes = b"\xff\xfe rubbish\n\n1 2\n".to_vec();
        bytes.extend(std::fs::read(&path).unwrap());
        bytes.extend(b"17000 0123");
        store::replace(&path, &bytes, Durability::Process).unwrap();
        assert!(Seen::open(folder.path(), NOW).unwrap().contains(&turn));
    }
}
