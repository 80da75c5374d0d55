//! The operator's decisions in a running service: they take effect at once, and outlive a restart and a new reading of the
//! configuration.

use std::time::Duration;

use super::bench::{ANA, Act, BEN, Bench, MALLORY, ME, open, radio_info, trusted};
use crate::assistant::PeerId;
use crate::config::{AirtimeConfig, Asker, MeshConfig};
use crate::mesh::operator::{Change, Changed, Refusal, Why, Wish};
use crate::mesh::packets::{KEY_A, KEY_B, KEY_M, pki_packet};
use crate::mesh::view::MeshEvent;
use crate::node::NodeNum;
use crate::radio::{LinkEvent, NodeInfo};

const EVE: NodeNum = NodeNum(0x00e0_e0e0);

impl Bench {
    async fn change(&self, change: Change) -> Result<Changed, Refusal> {
        let wish = Wish { by: "operator 01234567".to_owned(), what: change };
        self.handle.change(wish).await.unwrap()
    }

    async fn eve(&self, id: u32, text: &str) {
        self.hear(pki_packet(EVE, ME, KEY_M, id, text)).await;
    }

    fn recorded(&self) -> Vec<serde_json::Value> {
        let path = self.folder.path().join("changes.log");
        let lines = crate::store::journal_lines(&path).unwrap();
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn add_eve() -> Change {
    Change::AddContact { id: EVE, key: Some(KEY_M), name: Some("Eve".to_owned()) }
}

#[tokio::test(start_paused = true)]
async fn a_contact_that_is_added_is_answered_from_then_on() {
    let mut bench = Bench::start(trusted()).await;
    bench.eve(1, "!ai hello").await;
    bench.settle().await;
    assert!(bench.asked().is_empty());
    let changed = bench.change(add_eve()).await.unwrap();
    assert_eq!(changed.answering.allowed_contacts.len(), 3);
    bench.eve(2, "!ai hello").await;
    bench.until("answered", |b| b.sent().len() == 1).await;
    assert_eq!(bench.sent()[0].pki_key, Some(KEY_M));
    assert_eq!(bench.asked()[0].scope.granted_categories().len(), 1);
    assert_eq!(bench.radio.contacts.lock().unwrap()[..], [(EVE, KEY_M)], "the radio knows it too");
    let events = bench.events();
    assert!(events.iter().any(|event| matches!(event, MeshEvent::Changed { by, what }
        if by == "operator 01234567" && what.contains("contact added: Eve"))));
    let recorded = bench.recorded();
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0]["by"], "operator 01234567");
    assert!(recorded[0]["at"].as_u64().unwrap() > 1_600_000_000_000);
    // A new reading of the configuration takes nothing of it back, and a restart neither.
    bench.handle.reconfigure(trusted(), AirtimeConfig::default()).await.unwrap();
    bench.eve(3, "!ai and now").await;
    bench.until("answered", |b| b.asked().len() == 2).await;
    let bench = Bench::on(bench.end().await, trusted(), |_| Act::Say("fine".to_owned())).await;
    bench.eve(4, "!ai and after a restart").await;
    bench.until("answered", |b| b.asked().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_contact_meets_silence_and_what_was_on_its_way_is_withdrawn() {
    for config in [trusted(), open()] {
        let bench = Bench::start(config.clone()).await;
        bench.rule(|text| match text {
            "long" => Act::Say("word ".repeat(250)),
            _ => Act::After(Duration::from_secs(10), "late".to_owned()),
        });
        bench.ana(1, "!ai long").await;
        bench.until("the first part", |b| b.sent().len() == 1).await;
        bench.ana(2, "!ai slow").await;
        bench.handle.status().await.unwrap();
        bench.change(Change::Suspend { id: ANA, suspended: true }).await.unwrap();
        for (id, text) in [(3, "!ai hello"), (4, "!ai help"), (5, "!ai stop"), (6, "more")] {
            bench.ana(id, text).await;
        }
        bench.ben(7, "!ai ping").await;
        bench.pass(600).await;
        let to_ana = bench.sent().iter().filter(|packet| packet.to == ANA).count();
        assert_eq!((to_ana, bench.journalled()), (1, 0));
        assert_eq!(bench.sent().len(), 2, "Ben is served");
        assert_eq!(bench.ignored().await[1..6], vec!["suspended"; 5]);
        let id = PeerId(format!("key:{KEY_A}"));
        assert!(bench.script.changed.lock().unwrap().contains(&id));

        let bench = Bench::on(bench.end().await, config, |_| Act::Say("fine".to_owned())).await;
        bench.ana(8, "!ai hello?").await;
        bench.pass(60).await;
        assert!(bench.asked().is_empty());
        bench.change(Change::Suspend { id: ANA, suspended: false }).await.unwrap();
        bench.ana(9, "!ai hello?").await;
        bench.until("answered", |b| b.texts() == ["fine"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn denial_wins_over_everything() {
    let bench = Bench::start(open()).await;
    bench.change(add_eve()).await.unwrap();
    let deny = |asker, denied| Change::Deny { asker, denied };
    bench.change(deny(Asker::Key(KEY_M), true)).await.unwrap();
    bench.eve(1, "!ai hello").await;
    bench.hear(pki_packet(MALLORY, ME, KEY_M, 2, "!ai hello")).await;
    bench.change(deny(Asker::Node(ANA), true)).await.unwrap();
    bench.ana(3, "!ai hello").await;
    bench.channel(ANA, 4, "!ai hello").await;
    bench.pass(60).await;
    assert!(bench.asked().is_empty() && bench.sent().is_empty());
    assert_eq!(bench.ignored().await, vec!["denied"; 4]);
    bench.handle.reconfigure(open(), AirtimeConfig::default()).await.unwrap();
    bench.ana(5, "!ai hello").await;
    bench.pass(60).await;
    assert!(bench.asked().is_empty(), "nor does a new reading lift it");
    bench.change(deny(Asker::Node(ANA), false)).await.unwrap();
    bench.ana(6, "!ai hello").await;
    bench.until("answered", |b| b.sent().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn trust_and_service_are_switched_at_once() {
    let bench = Bench::start(trusted()).await;
    let stranger = |id| pki_packet(MALLORY, ME, KEY_M, id, "!ai hello");
    bench.hear(stranger(1)).await;
    bench.change(Change::TrustedOnly(false)).await.unwrap();
    bench.hear(stranger(2)).await;
    bench.until("a stranger is answered", |b| b.sent().len() == 1).await;
    bench.change(Change::Enabled(false)).await.unwrap();
    bench.ana(3, "!ai hello").await;
    bench.pass(60).await;
    assert_eq!(bench.sent().len(), 1);
    bench.change(Change::Enabled(true)).await.unwrap();
    bench.change(Change::TrustedOnly(true)).await.unwrap();
    bench.hear(stranger(4)).await;
    bench.ana(5, "!ai hello").await;
    bench.until("Ana is", |b| b.sent().len() == 2).await;
    let ignored = bench.ignored().await;
    assert_eq!(
        ignored,
        ["not a verified contact", "", "answering is off", "not a verified contact", ""]
    );
    assert_eq!(bench.recorded().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_key_that_is_accepted_takes_over_and_voids_what_the_old_one_was_to_confirm() {
    let bench = Bench::start(trusted()).await;
    bench.ana(1, "!ai hello").await;
    bench.until("answered", |b| b.sent().len() == 1).await;
    bench.hear(pki_packet(ANA, ME, KEY_M, 2, "!ai hello")).await;
    bench.settle().await;
    let key = |accept| Change::Key {
        id: ANA,
        fingerprint: KEY_M.fingerprint(),
        pinned: Some(KEY_A.fingerprint()),
        accept,
    };
    assert!(bench.script.changed.lock().unwrap().is_empty());
    bench.change(key(true)).await.unwrap();
    assert_eq!(bench.script.changed.lock().unwrap()[0], PeerId(format!("key:{KEY_A}")));
    bench.hear(pki_packet(ANA, ME, KEY_M, 3, "!ai hello again")).await;
    bench.until("answered", |b| b.sent().len() == 2).await;
    assert_eq!(bench.sent()[1].pki_key, Some(KEY_M));
    bench.ana(4, "!ai hello from the old key").await;
    bench.pass(60).await;
    assert_eq!(bench.sent().len(), 2);
    let twice = bench.change(key(true)).await.unwrap_err();
    assert_eq!((twice.why, twice.field), (Why::Wrong, "pinned"));
}

#[tokio::test(start_paused = true)]
async fn a_name_like_that_of_a_heard_node_is_warned_about() {
    let bench = Bench::start(trusted()).await;
    let info = NodeInfo {
        num: MALLORY.0,
        long_name: "Hilltop".to_owned(),
        short_name: "HT".to_owned(),
        ..NodeInfo::default()
    };
    bench.tell(LinkEvent::Node(info)).await;
    bench.settle().await;
    for (name, warned) in [("Hi1ltop", true), ("ht", true), ("Valley", false)] {
        let changed =
            bench.change(Change::Rename { id: BEN, name: name.to_owned() }).await.unwrap();
        assert_eq!(changed.warnings.len(), usize::from(warned), "{:?}", changed.warnings);
    }
    // Its own node may be called like it.
    let add =
        Change::AddContact { id: MALLORY, key: Some(KEY_M), name: Some("Hilltop".to_owned()) };
    assert_eq!(bench.change(add).await.unwrap().warnings, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_stored_is_refused_and_changes_nothing() {
    let bench = Bench::start(trusted()).await;
    let blocked = bench.folder.path().join("contacts.json.tmp");
    std::fs::create_dir(&blocked).unwrap();
    let refusal = bench.change(Change::Suspend { id: ANA, suspended: true }).await.unwrap_err();
    assert_eq!(refusal.why, Why::Storage);
    assert!(!refusal.reason.contains('/'), "no path: {}", refusal.reason);
    bench.ana(1, "!ai hello").await;
    bench.until("answered", |b| b.sent().len() == 1).await;
    let recorded = bench.recorded();
    assert_eq!(recorded.len(), 2, "that it was wanted, and that it was not done");
    assert!(recorded[1]["what"].as_str().unwrap().starts_with("not done"));
    std::fs::remove_dir(&blocked).unwrap();
    bench.change(Change::Suspend { id: ANA, suspended: true }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_and_nothing_twice_is_recorded() {
    let bench = Bench::start(trusted()).await;
    bench.change(add_eve()).await.unwrap();
    for _ in 0..2 {
        bench.change(Change::Suspend { id: EVE, suspended: true }).await.unwrap();
    }
    bench.change(Change::Deny { asker: Asker::Key(KEY_B), denied: true }).await.unwrap();
    let refused = bench.change(Change::Suspend { id: MALLORY, suspended: true }).await;
    assert_eq!(refused.unwrap_err().field, "id");
    assert_eq!(bench.recorded().len(), 3);
    let text = std::fs::read_to_string(bench.folder.path().join("changes.log")).unwrap();
    for key in [KEY_B, KEY_M] {
        assert!(text.contains(&key.fingerprint()) && !text.contains(&key.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_tells_the_radio_of_contacts_that_were_added() {
    let bench = Bench::start(MeshConfig::default()).await;
    bench.change(add_eve()).await.unwrap();
    bench.up(radio_info()).await;
    bench.settle().await;
    assert_eq!(*bench.radio.contacts.lock().unwrap(), [(EVE, KEY_M), (EVE, KEY_M)]);
}
