//! What is answered without a model, what is answered once, and what not at all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::bench::{ANA, Act, Bench, ME, open, trusted};
use crate::mesh::commands;
use crate::mesh::packets::{KEY_A, pki_packet, text_packet};
use crate::mesh::view::MeshEvent;
use crate::node::{NodeNum, PacketId};
use crate::radio::{Data, Inbound, Payload, port};

#[tokio::test(start_paused = true)]
async fn commands_need_no_model() {
    let bench = Bench::start(trusted()).await;
    for (id, text, answer) in [
        (1, "!ai", commands::help("!ai")),
        (2, "!AI: Help", commands::help("!ai")),
        (3, "!ai ping", "pong: SNR 6.2 dB, RSSI -45 dBm, heard directly".to_owned()),
        (4, "!ai more", "Nothing more.".to_owned()),
        (5, "!ai stop", "Nothing to stop.".to_owned()),
        (6, "!ai ok 7KQ2M", "Nothing to confirm.".to_owned()),
        (7, "!ai no 7KQ2M", "Nothing to confirm.".to_owned()),
    ] {
        let before = bench.sent().len();
        bench.ana(id, text).await;
        bench.until("a reply", |b| b.sent().len() > before).await;
        assert_eq!(bench.texts().last(), Some(&answer), "{text}");
        assert_eq!(bench.sent().last().unwrap().reply_id, Some(PacketId(id)));
    }
    assert!(bench.asked().is_empty());
    let shown = bench.handle.messages(500).await.unwrap();
    assert!(shown.iter().all(|message| !message.text.contains("7KQ2M")), "codes are masked");
}

#[tokio::test(start_paused = true)]
async fn a_command_without_trigger_is_one_word_of_a_verified_peer_in_a_conversation() {
    let bench = Bench::start(open()).await;
    bench.ana(1, "ping").await;
    bench.settle().await;
    assert!(bench.sent().is_empty(), "no conversation yet");
    bench.ana(2, "!ai hello").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    bench.ana(3, "what about this?").await;
    bench.ana(4, "hello").await;
    bench.channel(ANA, 5, "ping").await;
    bench.hear(Inbound { id: PacketId(6), ..text_packet(ANA, ME, "ping") }).await;
    bench.ben(7, "ping").await;
    bench.settle().await;
    assert_eq!(bench.sent().len(), 1);
    bench.ana(8, "Ping").await;
    bench.until("pong", |b| b.sent().len() == 2).await;
    assert!(bench.texts()[1].starts_with("pong"));
    bench.pass(600).await;
    bench.ana(9, "ping").await;
    bench.settle().await;
    assert_eq!(bench.sent().len(), 2, "ten minutes later it takes the trigger again");
    assert_eq!(bench.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_question_is_never_answered() {
    let bench = Bench::start(open()).await;
    bench.ana(1, "!airport timetable").await;
    bench.ana(2, "hello").await;
    bench.ana(3, "2/3 !ai and so on").await;
    bench.ana(4, "\u{200b}").await;
    bench.channel(ANA, 5, "nice weather").await;
    let elsewhere = text_packet(ANA, NodeNum(0xb0b0_b0b2), "!ai hi");
    bench.hear(Inbound { id: PacketId(6), ..elsewhere }).await;
    let mut reaction = pki_packet(ANA, ME, KEY_A, 7, "!ai");
    if let Payload::Data(data) = &mut reaction.payload {
        data.emoji = 1;
    }
    bench.hear(reaction).await;
    bench
        .hear(Inbound { payload: Payload::Encrypted { len: 9 }, ..text_packet(ANA, ME, "") })
        .await;
    let unknown = Data { port: 300, bytes: b"!ai hi".to_vec(), ..Data::default() };
    bench.hear(Inbound { payload: Payload::Data(unknown), ..text_packet(ANA, ME, "") }).await;
    bench.settle().await;
    assert!(bench.sent().is_empty() && bench.asked().is_empty());
    assert_eq!(
        bench.ignored().await,
        ["no trigger", "no trigger", "a part of an answer", "empty", "no trigger", "a reaction"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_packet_is_answered_once_and_the_same_words_are_answered_again_once() {
    let mut bench = Bench::start(trusted()).await;
    bench.rule(|_| Act::After(Duration::from_secs(5), "the answer".to_owned()));
    bench.ana(1, "!ai how much?").await;
    bench.ana(1, "!ai how much?").await;
    bench.ana(1, "!ai other words under the same id").await;
    bench.settle().await;
    bench.ana(2, "!ai HOW  much?").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    bench.ana(1, "!ai how much?").await;
    bench.settle().await;
    assert_eq!(bench.sent().len(), 1);
    assert_eq!(bench.security(), ["replay"]);
    bench.ana(3, "!ai how much?").await;
    bench.until("once more", |b| b.sent().len() == 2).await;
    assert_eq!(bench.texts()[1], "the answer");
    bench.settle().await;
    bench.ana(4, "!ai how much?").await;
    bench.pass(60).await;
    assert_eq!((bench.sent().len(), bench.asked().len()), (2, 1));
    assert_eq!(
        bench.ignored().await,
        [
            "",
            "already being answered",
            "already being answered",
            "already being answered",
            "replay",
            "repeated: answer sent once more",
            "repeated"
        ]
    );
    bench.pass(600).await;
    bench.ana(5, "!ai how much?").await;
    bench.until("asked anew after ten minutes", |b| b.asked().len() == 2).await;
    bench.pass(600).await;
    // But a packet whose words were answered by a repetition stays answered.
    bench.ana(3, "!ai how much?").await;
    bench.settle().await;
    assert_eq!(bench.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_packet_without_id_is_known_by_its_words() {
    let bench = Bench::start(trusted()).await;
    bench.ana(0, "!ai one").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    assert_eq!(bench.sent()[0].reply_id, None);
    bench.pass(3600).await;
    bench.ana(0, "!ai one").await;
    bench.ana(0, "!ai two").await;
    bench.until("the other answer", |b| b.sent().len() == 2).await;
    let asked: Vec<_> = bench.asked().into_iter().map(|asked| asked.text).collect();
    assert_eq!(asked, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_the_budget_and_the_question_is_whole() {
    let bench = Bench::start(open()).await;
    bench.ana(1, "!ai: first\nsecond line \u{202e}end").await;
    bench.channel(ANA, 2, "!ai on the channel").await;
    bench.until("both", |b| b.asked().len() == 2).await;
    let asked = bench.asked();
    assert_eq!(asked[0].text, "first\nsecond line end");
    assert_eq!(asked[0].answer_bytes, Some(195));
    assert_eq!(asked[1].answer_bytes, Some(160));
}

#[tokio::test(start_paused = true)]
async fn whatever_a_model_does_the_peer_gets_one_honest_line() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|text| match text {
        "panic" => Act::Panic,
        "empty" => Act::Say(" \n".to_owned()),
        "invisible" => Act::Say("\u{200b}\u{202e}".to_owned()),
        "brief" => Act::Fail("No model is reachable now.".to_owned()),
        "raw" => Act::Fail("error 500\nat http://127.0.0.1".to_owned()),
        "long" => Act::Fail("x".repeat(161)),
        _ => Act::Deaf,
    });
    for (id, question, answer) in [
        (1, "panic", commands::NO_ANSWER),
        (2, "empty", commands::NO_ANSWER),
        (3, "brief", "No model is reachable now."),
        (4, "raw", commands::NO_ANSWER),
        (5, "long", commands::NO_ANSWER),
        (6, "for ever", commands::NO_ANSWER),
        (7, "invisible", commands::NO_ANSWER),
    ] {
        bench.ana(id, &format!("!ai {question}")).await;
        let texts = |b: &Bench| -> Vec<String> {
            let texts = b.sent().into_iter().filter(|p| !p.emoji);
            texts.map(|p| String::from_utf8_lossy(&p.bytes).into_owned()).collect()
        };
        bench.until(question, |b| texts(b).len() == id as usize).await;
        assert_eq!(texts(&bench).last().unwrap(), answer, "{question}");
        assert_eq!(bench.journalled(), 0, "{question}");
    }
    // A failure is no answer that could be repeated: the same words are asked again.
    bench.rule(|_| Act::Say("now".to_owned()));
    bench.ana(8, "!ai brief").await;
    bench.until("answered", |b| b.texts().contains(&"now".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_running_and_the_waiting_turn() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|text| if text == "deaf" { Act::Deaf } else { Act::Hang });
    for (id, first) in [(1, "one"), (10, "deaf")] {
        bench.ana(id, &format!("!ai {first}")).await;
        bench.ana(id + 1, &format!("!ai waiting {first}")).await;
        bench.ben(id, &format!("!ai of Ben {id}")).await;
        bench.settle().await;
        let before = bench.sent().len();
        bench.ana(id + 2, "!ai stop").await;
        bench.until("confirmed", |b| b.sent().len() == before + 1).await;
        assert_eq!(bench.texts().last().unwrap(), "Stopped.");
        bench.ben(id + 2, "!ai stop").await;
        bench.until("confirmed", |b| b.sent().len() == before + 2).await;
        bench.pass(10).await;
        let status = bench.handle.status().await.unwrap();
        assert_eq!((status.turns_running, status.turns_waiting, bench.journalled()), (0, 0, 0));
    }
    assert!(!bench.asked().iter().any(|asked| asked.text.starts_with("waiting")));
    // The model is free again, and the peer has its place.
    bench.rule(|_| Act::Say("free".to_owned()));
    bench.ana(20, "!ai next").await;
    bench.until("answered", |b| b.texts().contains(&"free".to_owned())).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_is_shown_by_a_reaction_and_a_fast_one_is_not() {
    let bench = Bench::start(trusted()).await;
    bench.rule(|text| Act::After(Duration::from_secs(text.parse().unwrap()), "done".to_owned()));
    bench.ana(1, "!ai 14").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    assert!(!bench.sent()[0].emoji);
    bench.ana(2, "!ai 40").await;
    bench.until("the answer", |b| b.sent().len() == 3).await;
    let reaction = &bench.sent()[1];
    assert!(reaction.emoji);
    assert_eq!(
        (reaction.reply_id, reaction.bytes.as_slice()),
        (Some(PacketId(2)), "⏳".as_bytes())
    );
    assert_eq!(bench.texts()[2], "done");
}

#[tokio::test(start_paused = true)]
async fn what_the_link_does_not_take_leaves_later() {
    let mut bench = Bench::start(trusted()).await;
    bench.radio.refuses.store(true, Ordering::Relaxed);
    bench.ana(1, "!ai one").await;
    bench.pass(30).await;
    assert!(bench.sent().is_empty());
    assert_eq!(bench.handle.status().await.unwrap().parts_waiting, 1);
    bench.radio.refuses.store(false, Ordering::Relaxed);
    bench.up(super::bench::radio_info()).await;
    bench.until("the answer", |b| b.texts() == ["fine"]).await;
    let mut sent = bench.events().into_iter().filter_map(|event| match event {
        MeshEvent::PartSent { text, name, .. } => Some((text, name)),
        _ => None,
    });
    assert_eq!(sent.next_back(), Some(("fine".to_owned(), "Ana".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_part_is_shown_with_what_became_of_it() {
    let bench = Bench::start(trusted()).await;
    bench.ana(1, "!ai one").await;
    bench.until("the answer", |b| b.sent().len() == 1).await;
    bench.settle().await;
    let shown = bench.handle.messages(10).await.unwrap();
    assert_eq!(shown.len(), 2);
    assert_eq!((shown[0].direction, shown[0].text.as_str()), ("in", "!ai one"));
    assert_eq!((shown[1].direction, shown[1].node, shown[1].name.as_str()), ("out", ANA, "Ana"));
    assert_eq!(shown[1].delivery, Some(crate::mesh::view::Delivery::Delivered));
    let nodes = bench.handle.nodes().await.unwrap();
    assert_eq!(nodes[0].node, ANA);
    assert_eq!((nodes[0].standing, nodes[0].contact.as_deref()), ("pinned", Some("Ana")));
    assert_eq!(port::TEXT_MESSAGE, bench.sent()[0].port);
}
