//! Pairing in a running service: who may try a code, what a right one does, and what strangers learn of it.

use std::time::Duration;

use super::bench::{Act, BEN, Bench, MALLORY, ME, open, radio_info, trusted};
use crate::config::{Asker, Contact, MeshConfig};
use crate::mesh::commands;
use crate::mesh::operator::{Change, Opened, Why, Wish};
use crate::mesh::packets::{KEY_M, pki_packet, text_packet};
use crate::mesh::pairing::{OPEN_MS, TRIES};
use crate::mesh::view::MeshEvent;
use crate::node::{NodeNum, PacketId};
use crate::radio::{Data, Inbound, Payload, port};

impl Bench {
    async fn open_pairing(&self, name: &str) -> Opened {
        let wish = Wish { by: "operator 0".to_owned(), what: Some(name.to_owned()) };
        self.handle.pair(wish).await.unwrap().unwrap()
    }

    /// Opens a code for Eve; gives its text.
    async fn code(&self) -> String {
        self.open_pairing("Eve").await.code.unwrap().text()
    }

    async fn mallory(&self, id: u32, text: &str) {
        self.hear(pki_packet(MALLORY, ME, KEY_M, id, text)).await;
    }

    async fn is_paired(&self) -> bool {
        let answering = self.handle.answering().await.unwrap();
        answering.allowed_contacts.iter().any(|contact| contact.name == "Eve")
    }
}

/// A code that is surely another.
fn wrong(code: &str) -> String {
    let last = if code.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &code[..4])
}

#[tokio::test(start_paused = true)]
async fn who_sends_the_code_is_a_contact_and_is_answered_from_then_on() {
    let mut bench = Bench::start(trusted()).await;
    let opened = bench.open_pairing("Eve").await;
    assert_eq!((opened.expires_in_s, opened.warnings.len()), (600, 0));
    let code = opened.code.unwrap().text();
    let shown = bench.handle.answering().await.unwrap().pairing.unwrap();
    assert_eq!((shown.name.as_str(), shown.expires_in_s, shown.tries_left), ("Eve", 600, 5));
    bench.mallory(1, &format!("!ai pair {}", code.to_lowercase())).await;
    bench.until("told", |b| b.sent().len() == 1).await;
    bench.settle().await;
    assert_eq!(bench.texts(), ["Paired as Eve. Send: !ai help"]);
    assert_eq!(bench.sent()[0].pki_key, Some(KEY_M));
    bench.mallory(2, "!ai hello").await;
    bench.until("answered", |b| b.sent().len() == 2).await;
    assert_eq!(bench.asked()[0].scope.granted_categories().len(), 1, "confirmed, so with grants");
    let paired = MeshEvent::Paired {
        node: MALLORY,
        name: "Eve".to_owned(),
        fingerprint: KEY_M.fingerprint(),
    };
    assert!(bench.events().contains(&paired));
    assert_eq!(bench.handle.answering().await.unwrap().pairing, None, "used once");
    let bench = Bench::on(bench.end().await, trusted(), |_| Act::Say("fine".to_owned())).await;
    bench.mallory(3, "!ai after a restart").await;
    bench.until("answered", |b| b.asked().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_code_pairs_once() {
    let bench = Bench::start(trusted()).await;
    let code = bench.code().await;
    bench.mallory(1, &format!("!ai pair {code}")).await;
    bench.settle().await;
    bench.hear(pki_packet(NodeNum(0x5555), ME, KEY_B_OTHER, 2, &format!("!ai pair {code}"))).await;
    bench.pass(60).await;
    assert_eq!(bench.sent().len(), 1, "the second meets silence");
    assert_eq!(bench.handle.answering().await.unwrap().allowed_contacts.len(), 3);
}

const KEY_B_OTHER: crate::node::PublicKey = crate::node::PublicKey([0x5b; 32]);

#[tokio::test(start_paused = true)]
async fn a_code_lasts_ten_minutes_and_four_wrong_tries_and_no_more() {
    for (wait_ms, wrongs, paired) in
        [(0, TRIES - 1, true), (0, TRIES, false), (OPEN_MS - 1, 0, true), (OPEN_MS, 0, false)]
    {
        let mut bench = Bench::start(trusted()).await;
        let code = bench.code().await;
        for id in 0..wrongs {
            bench.mallory(10 + u32::from(id), &format!("!ai pair {}", wrong(&code))).await;
        }
        bench.handle.status().await.unwrap();
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        bench.mallory(1, &format!("!ai pair {code}")).await;
        bench.pass(30).await;
        assert_eq!(bench.is_paired().await, paired, "{wait_ms} ms, {wrongs} wrong");
        assert_eq!(bench.sent().len(), usize::from(paired), "a stranger hears nothing else");
        if wrongs > 0 {
            assert!(bench.security().contains(&"pairing".to_owned()), "the operator is told");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_wrong_packet_counts_once() {
    let bench = Bench::start(trusted()).await;
    let code = bench.code().await;
    for _ in 0..2 * TRIES {
        bench.mallory(10, &format!("!ai pair {}", wrong(&code))).await;
    }
    // What no code looks like is no try.
    for id in 20..30 {
        bench.mallory(id, "!ai pair 7KQ").await;
    }
    bench.mallory(1, &format!("!ai pair {code}")).await;
    bench.settle().await;
    assert!(bench.is_paired().await);
}

#[tokio::test(start_paused = true)]
async fn only_an_encrypted_direct_message_by_lora_pairs_and_nothing_else_costs_a_try() {
    let bench = Bench::start(open()).await;
    let code = bench.code().await;
    let text = format!("!ai pair {code}");
    let good = pki_packet(MALLORY, ME, KEY_M, 1, &text);
    let other = |id: u32, packet: Inbound| Inbound { id: PacketId(id), ..packet };
    for (id, what, packet) in [
        (2, "in the clear", text_packet(MALLORY, ME, &text)),
        (3, "by MQTT", Inbound { transport: 5, ..good.clone() }),
        (4, "by UDP", Inbound { transport: 6, ..good.clone() }),
        (5, "by another client", Inbound { transport: 7, ..good.clone() }),
        (6, "through the internet at some hop", Inbound { via_mqtt: true, ..good.clone() }),
        (
            7,
            "on a channel",
            Inbound { channel: 1, ..text_packet(MALLORY, NodeNum::BROADCAST, &text) },
        ),
        (
            8,
            "signed on a channel",
            Inbound {
                xeddsa_signed: true,
                channel: 1,
                ..text_packet(MALLORY, NodeNum::BROADCAST, &text)
            },
        ),
        (9, "without its key", Inbound { public_key: None, ..good.clone() }),
    ] {
        bench.hear(other(id, packet)).await;
        bench.settle().await;
        assert!(!bench.is_paired().await, "{what}");
    }
    let left = bench.handle.answering().await.unwrap().pairing.unwrap().tries_left;
    assert_eq!(left, TRIES);
    bench.hear(good).await;
    bench.settle().await;
    assert!(bench.is_paired().await);
}

#[tokio::test(start_paused = true)]
async fn a_licensed_radio_pairs_nobody() {
    let bench = Bench::start(trusted()).await;
    let mut ham = radio_info();
    ham.owner.licensed = true;
    let code = bench.code().await;
    bench.up(ham).await;
    bench.mallory(1, &format!("!ai pair {code}")).await;
    bench.settle().await;
    assert!(!bench.is_paired().await);
    let wish = Wish { by: String::new(), what: Some("Eve".to_owned()) };
    let refusal = bench.handle.pair(wish).await.unwrap().unwrap_err();
    assert_eq!(refusal.why, Why::State);
}

#[tokio::test(start_paused = true)]
async fn who_is_denied_or_suspended_cannot_pair_nor_void_the_code() {
    let denied = MeshConfig { denied_askers: vec![Asker::Key(KEY_M)], ..trusted() };
    let by_number = MeshConfig { denied_askers: vec![Asker::Node(MALLORY)], ..trusted() };
    let known = Contact { id: MALLORY, key: Some(KEY_M), name: Some("M".to_owned()), grants: None };
    let suspended = MeshConfig { allowed_contacts: vec![known], ..MeshConfig::default() };
    for (config, why) in [(denied, "denied"), (by_number, "denied"), (suspended, "suspended")] {
        let bench = Bench::start(config).await;
        if why == "suspended" {
            let what = Change::Suspend { id: MALLORY, suspended: true };
            bench.handle.change(Wish { by: String::new(), what }).await.unwrap().unwrap();
        }
        let code = bench.code().await;
        for id in 1..=u32::from(TRIES) {
            bench.mallory(id, &format!("!ai pair {}", wrong(&code))).await;
        }
        bench.mallory(20, &format!("!ai pair {code}")).await;
        bench.settle().await;
        assert!(!bench.is_paired().await && bench.sent().is_empty());
        assert_eq!(bench.ignored().await, vec![why; 6]);
        bench.hear(pki_packet(BEN, ME, KEY_B_OTHER, 1, &format!("!ai pair {code}"))).await;
        bench.settle().await;
        assert!(bench.is_paired().await, "the code is still good");
    }
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_answered_nobody_pairs() {
    let bench = Bench::start(MeshConfig { enabled: false, ..trusted() }).await;
    let opened = bench.open_pairing("Eve").await;
    assert!(opened.warnings[0].contains("switched off"));
    let code = opened.code.unwrap().text();
    bench.mallory(1, &format!("!ai pair {code}")).await;
    bench.settle().await;
    assert_eq!(bench.ignored().await, ["answering is off"]);
    let bench = Bench::start(trusted()).await;
    let code = bench.code().await;
    bench.handle.stop_all(false).await.unwrap();
    bench.mallory(1, &format!("!ai pair {code}")).await;
    bench.settle().await;
    assert!(!bench.is_paired().await && bench.sent().is_empty());
    bench.handle.stop_all(true).await.unwrap();
    bench.mallory(2, &format!("!ai pair {code}")).await;
    bench.settle().await;
    assert!(bench.is_paired().await);
}

#[tokio::test(start_paused = true)]
async fn a_code_that_is_none_says_the_same_whatever_is_wrong() {
    let bench = Bench::start(open()).await;
    bench.mallory(1, "!ai pair 7KQ2M").await; // nothing is open
    bench.until("answered", |b| b.sent().len() == 1).await;
    bench.pass(10).await;
    let code = bench.code().await;
    bench.mallory(2, &format!("!ai pair {}", wrong(&code))).await;
    bench.until("answered", |b| b.sent().len() == 2).await;
    bench.pass(OPEN_MS / 1000).await;
    bench.mallory(3, &format!("!ai pair {code}")).await; // too late
    bench.until("answered", |b| b.sent().len() == 3).await;
    assert_eq!(bench.texts(), [commands::NO_SUCH_CODE; 3]);
    // Strangers share one small budget; then there is silence.
    bench.pass(10).await;
    for id in 10..30 {
        bench.mallory(id, "!ai pair 7KQ2M").await;
    }
    bench.pass(300).await;
    // Six an hour, one that came back meanwhile, and one notice.
    assert!(bench.sent().len() <= 8, "{:?}", bench.texts());
    // A contact is told that it is one.
    bench.ana(40, "!ai pair 7KQ2M").await;
    bench.pass(30).await;
    assert_eq!(bench.texts().last().unwrap(), "Paired as Ana. Send: !ai help");
    assert!(bench.asked().is_empty(), "no model sees any of it");
}

#[tokio::test(start_paused = true)]
async fn the_code_is_nowhere_but_in_the_answer_to_the_operator() {
    let mut bench = Bench::start(open()).await;
    let code = bench.code().await;
    bench.channel(BEN, 1, &format!("!ai pair {code}")).await;
    bench.channel(BEN, 2, &format!("pair {code}")).await;
    bench.channel(BEN, 3, &format!("the code is {}", code.to_lowercase())).await;
    bench.mallory(4, &format!("pair {code}")).await;
    let reaction = Inbound {
        payload: Payload::Data(Data {
            port: port::TEXT_MESSAGE,
            bytes: format!("!ai pair {code}").into_bytes(),
            emoji: 1,
            ..Data::default()
        }),
        ..pki_packet(MALLORY, ME, KEY_M, 5, "")
    };
    bench.hear(reaction).await;
    bench.mallory(6, &format!("!ai pair {code}")).await;
    bench.pass(60).await;
    assert!(bench.is_paired().await);
    let messages = format!("{:?}", bench.handle.messages(100).await.unwrap());
    let events = format!("{:?}", bench.events());
    let answering = format!("{:?}", bench.handle.answering().await.unwrap());
    assert!(messages.contains("pair …"), "{messages}");
    for (place, text) in [("messages", &messages), ("events", &events), ("status", &answering)] {
        assert!(!text.to_uppercase().contains(&code), "the code is in the {place}: {text}");
    }
    let folder = bench.end().await;
    let mut files = vec![folder.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).to_uppercase();
            assert!(!text.contains(&code), "the code is in {}", path.display());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_code_or_a_cancel_voids_the_old_and_so_does_a_restart() {
    let bench = Bench::start(trusted()).await;
    let first = bench.code().await;
    let second = bench.code().await;
    bench.mallory(1, &format!("!ai pair {first}")).await;
    bench.settle().await;
    assert!(!bench.is_paired().await);
    let closed = bench.handle.pair(Wish { by: String::new(), what: None }).await.unwrap().unwrap();
    assert_eq!((closed.code, closed.expires_in_s), (None, 0));
    bench.mallory(2, &format!("!ai pair {second}")).await;
    bench.settle().await;
    assert!(!bench.is_paired().await);
    let third = bench.code().await;
    let bench = Bench::on(bench.end().await, trusted(), |_| Act::Hang).await;
    bench.mallory(3, &format!("!ai pair {third}")).await;
    bench.settle().await;
    assert!(!bench.is_paired().await && bench.sent().is_empty());
    let wish = Wish { by: String::new(), what: Some("E\u{202e}ve".to_owned()) };
    let refusal = bench.handle.pair(wish).await.unwrap().unwrap_err();
    assert_eq!((refusal.why, refusal.field), (Why::Wrong, "name"));
}

#[tokio::test(start_paused = true)]
async fn a_known_contact_that_uses_anothers_code_is_told_who_it_is() {
    let mut bench = Bench::start(trusted()).await;
    let code = bench.code().await;
    bench.ana(1, &format!("!ai pair {code}")).await;
    bench.settle().await;
    assert_eq!(bench.texts(), ["Paired as Ana. Send: !ai help"]);
    assert!(!bench.is_paired().await);
    assert_eq!(bench.security(), ["pairing"]);
    assert_eq!(bench.handle.answering().await.unwrap().pairing, None, "used all the same");
}

#[tokio::test(start_paused = true)]
async fn a_kill_while_pairing_leaves_a_contact_who_is_told_when_it_asks_again() {
    let bench = Bench::start(trusted()).await;
    let code = bench.code().await;
    let text = format!("!ai pair {code}");
    bench.mallory(1, &text).await;
    bench.until("told", |b| b.sent().len() == 1).await;
    bench.settle().await;
    for (reply_stored, recorded) in [(false, false), (true, false), (true, true)] {
        let killed = bench.snapshot();
        if !recorded {
            std::fs::remove_file(killed.path().join("seen.log")).unwrap();
        }
        if !reply_stored {
            std::fs::remove_dir_all(killed.path().join("replies")).unwrap();
        }
        let bench = Bench::on(killed, trusted(), |_| Act::Hang).await;
        bench.mallory(1, &text).await; // its radio repeats it
        bench.pass(60).await;
        let told: Vec<&str> =
            if reply_stored { vec![] } else { vec!["Paired as Eve. Send: !ai help"] };
        assert_eq!(bench.texts(), told, "{reply_stored} {recorded}");
        assert!(bench.is_paired().await);
    }
}
