//! The operator's stop, and licensed mode: when nobody, or nobody in particular, is answered.

use super::bench::{ANA, Act, Bench, ME, open, radio_info, trusted};
use crate::mesh::packets::{KEY_A, pki_packet, text_packet};
use crate::mesh::view::StopView;
use crate::node::PacketId;
use crate::radio::{Inbound, RadioInfo};

#[tokio::test(start_paused = true)]
async fn stop_all_ends_every_turn_and_silences_everything_until_it_is_resumed_across_a_restart() {
    let bench = Bench::start(open()).await;
    bench.rule(|text| match text {
        "hang" | "wait" => Act::Hang,
        _ => Act::Say("word ".repeat(250)),
    });
    bench.ana(1, "!ai long").await;
    bench.until("the first part", |b| b.sent().len() == 1).await;
    bench.ben(1, "!ai hang").await;
    bench.ben(2, "!ai wait").await;
    bench.handle.status().await.unwrap();
    let stopped = bench.handle.stop_all(false).await.unwrap();
    assert_eq!(stopped, StopView { stopped: true, turns: 2, parts: 6 });
    for (id, text) in [(10, "!ai hello"), (11, "!ai ping"), (12, "!ai again"), (13, "!ai stop")] {
        bench.ana(id, text).await;
    }
    bench.channel(ANA, 14, "!ai hello").await;
    bench.pass(600).await;
    assert_eq!((bench.sent().len(), bench.asked().len(), bench.journalled()), (1, 2, 0));
    let ignored = bench.ignored().await;
    assert_eq!(ignored[3..], ["stopped by the operator"; 5]);
    let status = bench.handle.status().await.unwrap();
    assert!(status.stopped && status.warnings[0].contains("stopped"), "{:?}", status.warnings);
    assert!(status.airtime.paused.unwrap().contains("operator"));

    let bench = Bench::on(bench.end().await, open(), |_| Act::Say("fine".to_owned())).await;
    bench.ana(20, "!ai hello?").await;
    bench.pass(60).await;
    assert!(bench.sent().is_empty(), "a restart does not take it back");
    let resumed = bench.handle.stop_all(true).await.unwrap();
    assert_eq!(resumed, StopView { stopped: false, turns: 0, parts: 0 });
    bench.pass(60).await;
    assert!(bench.sent().is_empty(), "what was withdrawn does not come by itself");
    bench.ana(21, "!ai again").await;
    bench.until("the kept answer", |b| b.sent().len() == 3).await;
    bench.ana(22, "!ai hello?").await;
    bench.until("answered", |b| b.texts().contains(&"fine".to_owned())).await;
    assert!(!bench.handle.status().await.unwrap().stopped);
    let bench = Bench::on(bench.end().await, open(), |_| Act::Say("fine".to_owned())).await;
    assert!(!bench.handle.status().await.unwrap().stopped, "nor does one bring it back");
}

fn ham() -> RadioInfo {
    let mut info = radio_info();
    info.owner.licensed = true;
    info.owner.long_name = "N0CALL Hilltop".to_owned();
    info.announces_every_s = 600;
    info.public_key = None;
    info
}

#[tokio::test(start_paused = true)]
async fn in_licensed_mode_nobody_is_verified_and_everything_is_in_the_clear() {
    let bench = Bench::start(open()).await;
    bench.up(ham()).await;
    // Whatever a packet says of a key, nothing was encrypted.
    bench.hear(pki_packet(ANA, ME, KEY_A, 1, "!ai what may I?")).await;
    bench.hear(Inbound { id: PacketId(2), ..text_packet(ANA, ME, "!ai and now?") }).await;
    bench.until("both", |b| b.sent().len() == 2).await;
    for asked in bench.asked() {
        assert!(asked.scope.granted_categories().is_empty() && asked.scope.history_key().is_none());
    }
    assert!(bench.sent().iter().all(|sent| sent.pki_key.is_none() && sent.to == ANA));
    let warnings = bench.handle.status().await.unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("licensed mode: everything is sent in the clear"), "{warnings:?}");
    assert!(bench.radio.contacts.lock().unwrap().is_empty());

    // With contacts only there is silence.
    let bench = Bench::start(trusted()).await;
    bench.up(ham()).await;
    bench.hear(pki_packet(ANA, ME, KEY_A, 1, "!ai what may I?")).await;
    bench.settle().await;
    assert!(bench.sent().is_empty() && bench.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_encrypted_is_not_answered_once_the_radio_is_licensed() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|_| Act::After(std::time::Duration::from_secs(30), "a secret".to_owned()));
    bench.ana(1, "!ai tell me").await;
    bench.ana(2, "!ai and more").await;
    bench.settle().await;
    bench.up(ham()).await;
    bench.pass(120).await;
    assert!(bench.texts().iter().all(|text| text != "a secret"), "{:?}", bench.texts());
    assert_eq!((bench.asked().len(), bench.journalled()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_duty_cycle_override_silences_a_licensed_radio_outside_amateur_bands() {
    let bench = Bench::start(open()).await;
    for (region, sent) in [(3, 0), (34, 1)] {
        let mut info = ham();
        (info.lora.region, info.lora.override_duty_cycle) = (region, true);
        bench.up(info).await;
        let text = text_packet(ANA, ME, &format!("!ai in {region}"));
        bench.hear(Inbound { id: PacketId(region.unsigned_abs()), ..text }).await;
        bench.pass(10).await;
        let status = bench.handle.status().await.unwrap();
        assert_eq!(status.warnings.iter().any(|w| w.contains("override")), sent == 0);
        if sent == 0 {
            assert!(bench.sent().is_empty());
        } else {
            bench.until("now it may", |b| !b.sent().is_empty()).await;
        }
    }
}
