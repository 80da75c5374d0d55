//! Confirmations over the air, with the real assistant behind a model that obeys: what left, what ran, what is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::bench::{ANA, BEN, Bench, ME, Script, radio_info, trusted};
use crate::assistant::backends::scripted::Scripted;
use crate::assistant::backends::{BackendTurn, Turn};
use crate::assistant::fixture::{self, Log, Runs, all_files};
use crate::assistant::grants::Wish;
use crate::assistant::tools::ToolRegistry;
use crate::assistant::{Assistant, PermissionCategory};
use crate::config::{CloudPolicy, MeshConfig};
use crate::mesh::commands;
use crate::mesh::packets::{KEY_A, KEY_B, KEY_M, pki_packet, text_packet};
use crate::node::PacketId;
use crate::radio::{Inbound, Outbound};

const CANARY: &str = "milk-7f3a";

/// `write X` and `read X` call the tool of that category, everything else is answered.
pub fn obedient() -> Scripted {
    Scripted::by("ollama", |history, _| match history.last() {
        Some(Turn::User(question)) => match question.split_once(' ') {
            Some((tool, what)) if tool.contains('_') => fixture::calls(tool, json!({"text": what})),
            _ => Ok(BackendTurn::Text("fine".to_owned())),
        },
        Some(Turn::ToolResult { content, .. }) => Ok(BackendTurn::Text(content.clone())),
        _ => Ok(BackendTurn::Text("nothing".to_owned())),
    })
}

struct Town {
    bench: Bench,
    assistant: Arc<Assistant>,
    runs: Runs,
}

impl Town {
    async fn start() -> Town {
        let town = Town::on(tempfile::tempdir().unwrap(), trusted(), Runs::default());
        town.bench.up(radio_info()).await;
        town.bench.settle().await;
        for key in [KEY_A, KEY_B] {
            town.grant(&format!("key:{key}"), PermissionCategory::Notes);
        }
        town
    }

    /// Before the link is up.
    fn on(folder: tempfile::TempDir, config: MeshConfig, runs: Runs) -> Town {
        let tools = ToolRegistry::new(fixture::tools(&runs));
        let legs = vec![Box::new(obedient()) as Box<_>];
        let assistant = Assistant::with_legs(legs, CloudPolicy::None, tools, folder.path());
        let assistant = Arc::new(assistant.unwrap());
        let script = Arc::new(Script::default());
        let bench = Bench::answered_by(folder, config, script, assistant.clone());
        Town { bench, assistant, runs }
    }

    /// As after a kill: only what is on the disk is left.
    async fn restart(self) -> Town {
        let Town { bench, runs, assistant } = self;
        let copy = bench.snapshot();
        drop((bench, assistant));
        let town = Town::on(copy, trusted(), runs);
        town.bench.up(radio_info()).await;
        town.bench.settle().await;
        town
    }

    fn grant(&self, caller: &str, category: PermissionCategory) {
        let wish = Wish::Category { category, granted: true, until: None };
        self.assistant.set_grant(caller, wish, "test").unwrap();
    }

    /// Sends a text as Ana, and gives what comes back.
    async fn ana(&self, id: u32, text: &str) -> Outbound {
        let before = self.bench.sent().len();
        self.bench.ana(id, text).await;
        self.bench.until(text, |b| b.sent().len() > before).await;
        self.bench.settle().await;
        self.bench.sent().swap_remove(before)
    }

    /// Asks for a note, and gives the code.
    async fn code(&self, id: u32) -> String {
        let asked = self.ana(id, &format!("!ai notes_write {CANARY}")).await;
        let text = String::from_utf8(asked.bytes).unwrap();
        assert!(text.starts_with(&format!("notes_write {{\"text\":\"{CANARY}\"}}\n")), "{text}");
        assert!(text.len() <= 200 && asked.pki_key == Some(KEY_A) && asked.to == ANA);
        let code = text.split("ok ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        assert_eq!(code.len(), 5, "{text}");
        code
    }
}

fn text_of(sent: &Outbound) -> String {
    String::from_utf8_lossy(&sent.bytes).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_peer_confirms_by_its_code_once_and_the_code_is_nowhere_but_on_the_air() {
    let log = Log::listen();
    let mut town = Town::start().await;
    let code = town.code(1).await;
    assert_eq!(town.runs.count(), 0);
    let result = town.ana(2, &format!("!ai ok {}", code.to_lowercase())).await;
    assert_eq!(text_of(&result), format!("notes_write did {CANARY}"));
    assert_eq!(result.pki_key, Some(KEY_A));
    // The same packet again, and the same words again.
    town.bench.ana(2, &format!("!ai ok {code}")).await;
    let again = town.ana(3, &format!("!ai ok {code}")).await;
    assert_eq!(text_of(&again), commands::NOTHING_TO_CONFIRM);
    town.bench.pass(600).await;
    assert_eq!(town.runs.all(), [("notes_write".to_owned(), CANARY.to_owned())]);

    let shown = format!("{:?}", town.bench.handle.messages(500).await.unwrap());
    let events = format!("{:?}", town.bench.events());
    let files = all_files(town.bench.folder.path());
    let folded = |text: &str| text.to_uppercase().matches(&code).count();
    for (what, text) in
        [("messages", &shown), ("events", &events), ("files", &files), ("log", &log.text())]
    {
        assert_eq!(folded(text), 0, "the code is in the {what}: {text}");
    }
    assert!(shown.contains("ok …") && events.contains("ok …"), "{shown}");
    assert!(log.text().contains("outcome=Ran"), "the log was listened to");
}

#[tokio::test(start_paused = true)]
async fn in_a_conversation_the_trigger_may_be_left_out_while_a_code_is_waited_for() {
    let town = Town::start().await;
    town.ana(1, "!ai hello").await;
    town.bench.ana(2, "ok thanks").await;
    town.bench.settle().await;
    assert_eq!(town.bench.ignored().await.last().unwrap(), "no trigger");
    let code = town.code(3).await;
    town.bench.ana(4, &format!("no thanks {code}")).await;
    town.bench.settle().await;
    assert_eq!(text_of(&town.ana(5, &format!("no {code}")).await), commands::DROPPED);
    let code = town.code(6).await;
    town.ana(7, &format!("OK {code}")).await;
    assert_eq!(town.runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_else_and_no_other_way_confirms_and_three_wrong_tries_end_it() {
    let mut config = trusted();
    (config.trusted_only, config.channels) = (false, vec!["bots".to_owned()]);
    let town = Town::on(tempfile::tempdir().unwrap(), config, Runs::default());
    town.bench.up(radio_info()).await;
    town.bench.settle().await;
    town.grant(&format!("key:{KEY_A}"), PermissionCategory::Notes);
    let code = town.code(1).await;
    let ok = format!("!ai ok {code}");
    town.bench.ben(2, &ok).await;
    town.bench.channel(ANA, 3, &ok).await;
    town.bench.hear(pki_packet(ANA, ME, KEY_M, 4, &ok)).await;
    town.bench.hear(Inbound { id: PacketId(5), ..text_packet(ANA, ME, &ok) }).await;
    town.bench.hear(pki_packet(BEN, ME, KEY_M, 6, &ok)).await;
    town.bench.settle().await;
    assert_eq!(town.runs.count(), 0);
    for (id, wrong) in [(7, "XXXXX"), (8, "XXXXY")] {
        let told = town.ana(id, &format!("!ai ok {wrong}")).await;
        assert_eq!(text_of(&told), commands::NOTHING_TO_CONFIRM, "as if nothing waited");
    }
    assert_eq!(text_of(&town.ana(9, "!ai no XXXXY").await), commands::NOTHING_TO_CONFIRM);
    assert_eq!(text_of(&town.ana(10, &ok).await), commands::NOTHING_TO_CONFIRM);
    assert_eq!(town.runs.count(), 0);
    assert!(town.assistant.pending().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_code_is_worth_nothing_after_two_minutes_a_stop_or_a_lost_key() {
    for what in ["time", "stop", "key", "forget"] {
        let town = Town::start().await;
        let code = town.code(1).await;
        match what {
            "time" => town.bench.pass(120).await,
            "stop" => drop(town.ana(2, "!ai stop").await),
            "forget" => {
                town.ana(2, "!ai forget").await;
                town.ana(3, "!ai forget").await;
            }
            _ => {
                let without = MeshConfig { allowed_contacts: Vec::new(), ..trusted() };
                for config in [without, trusted()] {
                    let airtime = crate::config::AirtimeConfig::default();
                    town.bench.handle.reconfigure(config, airtime).await.unwrap();
                    town.bench.settle().await;
                }
            }
        }
        let told = town.ana(9, &format!("!ai ok {code}")).await;
        assert_eq!(text_of(&told), commands::NOTHING_TO_CONFIRM, "{what}");
        assert_eq!(town.runs.count(), 0, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_the_operator_is_told_and_done_when_the_operator_says_so() {
    for (decision, last) in [
        (Some(true), "system_write did it"),
        (Some(false), "The operator said no: nothing was done."),
        (None, "Nobody confirmed it in time: nothing was done."),
    ] {
        let town = Town::start().await;
        let told = town.ana(1, "!ai system_write it").await;
        assert!(text_of(&told).contains("needs the operator"), "{}", text_of(&told));
        assert_eq!(told.reply_id, Some(PacketId(1)));
        // No word of the peer's is a yes.
        assert_eq!(text_of(&town.ana(2, "!ai ok SYSTE").await), commands::NOTHING_TO_CONFIRM);
        let pending = town.assistant.pending();
        assert_eq!((pending[0].name.as_str(), pending[0].code_for_peer), ("Ana", false));
        assert_eq!(pending[0].arguments, json!({"text": "it"}));
        let before = town.bench.sent().len();
        if let Some(approve) = decision {
            let taken = town.assistant.take(&pending[0].id).unwrap();
            town.assistant.settle(taken, approve, true).await;
        }
        town.bench.until("the end is told", |b| b.sent().len() > before).await;
        town.bench.pass(300).await;
        let sent = town.bench.sent().split_off(before);
        assert_eq!(sent.iter().map(text_of).collect::<Vec<_>>(), [last]);
        assert_eq!((sent[0].to, sent[0].pki_key), (ANA, Some(KEY_A)));
        assert_eq!(town.runs.count(), usize::from(decision == Some(true)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_drops_what_waited_and_says_so_to_whom_was_not_asked_yet() {
    let town = Town::start().await;
    let code = town.code(1).await;
    let town = town.restart().await;
    assert_eq!(
        text_of(&town.ana(2, &format!("!ai ok {code}")).await),
        commands::NOTHING_TO_CONFIRM
    );
    assert_eq!(town.runs.count(), 0);

    // The radio takes nothing, and the node is killed before the question left.
    town.bench.radio.refuses.store(true, Ordering::Relaxed);
    town.bench.ana(3, &format!("!ai notes_write {CANARY}")).await;
    town.bench.settle().await;
    assert_eq!(town.assistant.pending().len(), 1);
    let town = town.restart().await;
    town.bench.until("told", |b| !b.sent().is_empty()).await;
    town.bench.pass(300).await;
    assert_eq!(town.bench.texts(), [commands::DROPPED_BY_RESTART]);
    assert_eq!(town.bench.sent()[0].reply_id, Some(PacketId(3)));
    assert_eq!(town.runs.count(), 0);
    // Asked again it is asked back again.
    town.code(4).await;
}

#[tokio::test(start_paused = true)]
async fn a_code_that_could_not_leave_in_its_time_does_not_leave_late() {
    let town = Town::start().await;
    town.bench.radio.refuses.store(true, Ordering::Relaxed);
    town.bench.ana(1, &format!("!ai notes_write {CANARY}")).await;
    town.bench.pass(121).await;
    town.bench.radio.refuses.store(false, Ordering::Relaxed);
    town.bench.pass(600).await;
    assert_eq!(town.bench.texts(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_views_say_what_counts_and_from_where() {
    let town = Town::start().await;
    let contacts = town.bench.handle.answering().await.unwrap().allowed_contacts;
    assert_eq!(
        (contacts[0].grants.join(" "), contacts[0].grants_source),
        ("system notes".into(), "grants.json")
    );
    let who = text_of(&town.ana(1, "!ai who").await);
    assert!(who.contains("May use: system notes."), "{who}");
    let mut config = trusted();
    config.allowed_contacts[0].grants = Some(vec![PermissionCategory::Network]);
    let town = Town::on(tempfile::tempdir().unwrap(), config, Runs::default());
    let contacts = town.bench.handle.answering().await.unwrap().allowed_contacts;
    assert_eq!(
        (contacts[0].grants.join(" "), contacts[0].grants_source),
        ("network".into(), "configuration")
    );
    assert_eq!(
        (contacts[1].grants.join(" "), contacts[1].grants_source),
        ("system".into(), "default")
    );
}
