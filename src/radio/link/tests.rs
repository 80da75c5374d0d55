//! The link against the simulated radio, in memory under a paused clock, and against a scripted one.

mod edges;
mod foreign;
mod replug;

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;

use super::*;
use crate::node::PacketId;
use crate::radio::transport::Connector;
use crate::radio::{Inbound, Payload, RadioInfo, port};
use crate::sim::{SayTo, Sim, SimConfig};

const LONG: Duration = Duration::from_secs(3600);

struct Rig {
    link: Link,
    cancel: CancellationToken,
    tracker: TaskTracker,
}

impl Rig {
    fn on(connector: Connector) -> Rig {
        Rig::with_time(connector, || None)
    }

    fn with_time(connector: Connector, right_time: fn() -> Option<u32>) -> Rig {
        Rig::with(connector, |parts| LinkParts { right_time: Arc::new(right_time), ..parts })
    }

    fn with(connector: Connector, change: impl FnOnce(LinkParts) -> LinkParts) -> Rig {
        let (cancel, tracker) = (CancellationToken::new(), TaskTracker::new());
        let link = start(change(LinkParts::plain(connector, cancel.clone(), &tracker)));
        Rig { link, cancel, tracker }
    }

    fn sim(sim: &Sim) -> Rig {
        let sim = sim.clone();
        Rig::on(Connector::from_fn("sim", move || sim.connect()))
    }

    async fn next(&mut self) -> LinkEvent {
        timeout(LONG, self.link.events.recv()).await.expect("an event").expect("a link")
    }

    async fn up(&mut self) -> Arc<RadioInfo> {
        loop {
            if let LinkEvent::Up(info) = self.next().await {
                return info;
            }
        }
    }

    async fn down(&mut self) -> String {
        loop {
            if let LinkEvent::Down { reason } = self.next().await {
                return reason;
            }
        }
    }

    async fn text(&mut self) -> (Inbound, String) {
        loop {
            if let LinkEvent::Packet(packet) = self.next().await
                && let Payload::Data(data) = &packet.payload
                && data.port == port::TEXT_MESSAGE
            {
                let text = String::from_utf8_lossy(&data.bytes).into_owned();
                return (packet, text);
            }
        }
    }
}

fn text_to(node: NodeNum, key: PublicKey, id: u32, text: &str) -> Outbound {
    Outbound {
        to: node,
        channel: 0,
        id: PacketId(id),
        port: port::TEXT_MESSAGE,
        bytes: text.as_bytes().to_vec(),
        want_ack: true,
        want_response: false,
        hop_limit: 3,
        reply_id: None,
        emoji: false,
        pki_key: Some(key),
    }
}

fn ana(config: &SimConfig) -> (NodeNum, PublicKey) {
    let ana = config.peers.iter().find(|peer| peer.name == "Ana").unwrap();
    (ana.num, ana.key.unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_handshake_tells_who_the_radio_is() {
    let config = SimConfig::default();
    let sim = Sim::start(config.clone());
    let mut rig = Rig::sim(&sim);
    let info = rig.up().await;
    assert_eq!(info.my_node, config.num);
    assert_eq!(info.public_key, Some(config.key));
    assert_eq!(info.owner.long_name, config.name);
    assert_eq!(info.firmware, config.firmware);
    assert_eq!((info.lora.region, info.lora.hop_limit), (3, 3));
    assert_eq!(info.channels.len(), 2);
    assert!(info.channels[0].primary && info.channels[1].name == "bots");
    let (ana_num, ana_key) = ana(&config);
    let known = info.nodes.iter().find(|node| node.num == ana_num.0).unwrap();
    assert_eq!(known.public_key, Some(ana_key));
}

#[tokio::test(start_paused = true)]
async fn a_question_comes_in_and_an_answer_is_acknowledged() {
    let config = SimConfig::default();
    let (node, key) = ana(&config);
    let sim = Sim::start(config);
    let mut rig = Rig::sim(&sim);
    let session = rig.up().await.session;
    sim.say("Ana", SayTo::Direct, "!ai hi");
    let (packet, text) = rig.text().await;
    assert_eq!(text, "!ai hi");
    assert!(packet.pki_encrypted && packet.public_key == Some(key) && packet.transport == 1);

    rig.link.handle.send(session, text_to(node, key, 77, "hello")).unwrap();
    let mut taken = false;
    loop {
        match rig.next().await {
            LinkEvent::QueueStatus(status) if status.id == PacketId(77) => {
                taken = true;
                assert_eq!(status.res, 0);
            }
            LinkEvent::Packet(Inbound { from, payload: Payload::Data(data), .. })
                if data.request_id == PacketId(77) && from == node =>
            {
                assert_eq!(data.routing_error, Some(0));
                break;
            }
            _ => {}
        }
    }
    assert!(taken);
    assert_eq!(sim.heard("Ana")[0].text, "hello");
}

#[tokio::test(start_paused = true)]
async fn whatever_stands_between_frames_the_next_frame_is_read() {
    let sim = Sim::start(SimConfig::default());
    let mut rig = Rig::sim(&sim);
    rig.up().await;
    let garbage: [&[u8]; 9] = [
        b"\x1b[34mDEBUG \x1b[0m| 12:34:56 123 [Router] \x1b[34mrx\n\x1b[0m",
        b"no newline at the end",
        &[0x94, 0xC3, 0xFF, 0xFF],
        &[0x94, 0xC3, 0x02, 0x01],
        &[0x94, 0x94, 0xC3],
        &[0x94, 0xC3, 0x00, 0x00],
        &[0x94, 0xC3, 0x00, 0x03, 0x9A, 0x01, 0x00], // a variant of newer firmware
        &[0x94, 0xC3, 0x00, 0x10, 0x08],             // cut off
        &[0xFF; 2000],
    ];
    for (round, bytes) in garbage.into_iter().enumerate() {
        sim.inject_raw(bytes.to_vec());
        tokio::time::sleep(Duration::from_secs(3)).await; // a cut frame is given up after two
        let words = format!("round {round} —é 🔔é!");
        sim.say("Ana", SayTo::Direct, &words);
        assert_eq!(rig.text().await.1, words);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_text_and_unknown_ports_cost_nobody_a_frame() {
    use meshtastic::protobufs as radio;
    use prost::Message as _;
    let sim = Sim::start(SimConfig::default());
    let mut rig = Rig::sim(&sim);
    rig.up().await;
    // node_info { num: 99, user { long_name: FF FE } }
    sim.inject_raw(vec![0x94, 0xC3, 0, 10, 0x22, 8, 0x08, 99, 0x12, 4, 0x12, 2, 0xFF, 0xFE]);
    let named = loop {
        if let LinkEvent::Node(node) = rig.next().await {
            break node;
        }
    };
    assert_eq!((named.num, named.long_name.as_str()), (99, "\u{fffd}\u{fffd}"));
    for unknown in [13, 37, 78, 300] {
        let inner = radio::Data { portnum: unknown, payload: vec![1], ..Default::default() };
        let packet = radio::MeshPacket {
            from: 8,
            to: u32::MAX,
            id: 1,
            payload_variant: Some(radio::mesh_packet::PayloadVariant::Decoded(inner)),
            ..Default::default()
        };
        assert!(radio::MeshPacket::decode(packet.encode_to_vec().as_slice()).is_ok());
        sim.inject(packet);
    }
    sim.say("Ana", SayTo::Direct, "still here");
    assert_eq!(rig.text().await.1, "still here");
}

#[tokio::test(start_paused = true)]
async fn a_lost_link_comes_back_after_half_a_second_as_another_session() {
    let config = SimConfig::default();
    let (node, key) = ana(&config);
    let sim = Sim::start(config);
    let mut rig = Rig::sim(&sim);
    let first = rig.up().await.session;
    let before = tokio::time::Instant::now();
    sim.drop_link();
    rig.down().await;
    let handle = rig.link.handle.clone();
    assert_eq!(handle.send(first, text_to(node, key, 5, "x")), Err(NotSent::Down));
    let second = rig.up().await.session;
    assert!(second > first);
    let waited = before.elapsed();
    assert!(waited >= FIRST_RETRY && waited < 2 * FIRST_RETRY, "{waited:?}");
    assert_eq!(handle.send(first, text_to(node, key, 6, "x")), Err(NotSent::Down));
    handle.send(second, text_to(node, key, 7, "in the second session")).unwrap();
    let heard = sim.wait_heard("Ana", 1, LONG).await.unwrap();
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].text, "in the second session");
}

/// A radio by hand: it reads nothing but `want_config_id` and answers as told.
struct Scripted {
    stream: DuplexStream,
}

impl Scripted {
    fn pair() -> (Connector, tokio::sync::mpsc::Receiver<Scripted>) {
        Scripted::pair_with_room(4096)
    }

    /// The client can be so many bytes ahead of the radio.
    fn pair_with_room(room: usize) -> (Connector, tokio::sync::mpsc::Receiver<Scripted>) {
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        let connector = Connector::from_fn("scripted", move || {
            let (ours, theirs) = tokio::io::duplex(room);
            sender.try_send(Scripted { stream: theirs }).unwrap();
            ours
        });
        (connector, receiver)
    }

    /// The payload of the next frame from the client.
    async fn frame(&mut self) -> Vec<u8> {
        loop {
            while self.stream.read_u8().await.unwrap() != 0x94 {}
            if self.stream.read_u8().await.unwrap() == 0xC3 {
                let length = self.stream.read_u16().await.unwrap();
                let mut payload = vec![0; usize::from(length)];
                self.stream.read_exact(&mut payload).await.unwrap();
                return payload;
            }
        }
    }

    /// The nonce of the next `want_config_id`; whatever else comes is passed over.
    async fn asked(&mut self) -> u32 {
        use meshtastic::protobufs::{ToRadio, to_radio::PayloadVariant};
        use prost::Message as _;
        loop {
            let frame = ToRadio::decode(self.frame().await.as_slice()).unwrap();
            if let Some(PayloadVariant::WantConfigId(nonce)) = frame.payload_variant {
                return nonce;
            }
        }
    }

    async fn say(&mut self, variant: meshtastic::protobufs::from_radio::PayloadVariant) {
        use prost::Message as _;
        let message = meshtastic::protobufs::FromRadio {
            payload_variant: Some(variant),
            ..Default::default()
        };
        let payload = message.encode_to_vec();
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&[0x94, 0xC3][..], &length, &payload].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    async fn greet(&mut self, nonce: u32) {
        use meshtastic::protobufs::{
            Config, MyNodeInfo, config, from_radio::PayloadVariant as From,
        };
        self.say(From::MyInfo(MyNodeInfo { my_node_num: 77, ..Default::default() })).await;
        let lora = config::LoRaConfig { region: 3, ..Default::default() };
        let lora = Config { payload_variant: Some(config::PayloadVariant::Lora(lora)) };
        self.say(From::Config(lora)).await;
        self.say(From::ConfigCompleteId(nonce)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_handed_over_before_the_end_is_never_written_after_it() {
    use meshtastic::protobufs::{ToRadio, to_radio::PayloadVariant};
    use prost::Message as _;
    let (connector, mut opened) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened.recv().await.unwrap();
    let nonce = radio.asked().await;
    radio.greet(nonce).await;
    let session = rig.up().await.session;
    // Nothing runs between these two: the packet still waits when the link goes.
    rig.link.handle.send(session, text_to(NodeNum(9), PublicKey([1; 32]), 5, "old")).unwrap();
    drop(radio);
    let mut radio = opened.recv().await.unwrap();
    let nonce = radio.asked().await;
    radio.greet(nonce).await;
    let session = rig.up().await.session;
    rig.link.handle.send(session, text_to(NodeNum(9), PublicKey([1; 32]), 6, "new")).unwrap();
    loop {
        let frame = ToRadio::decode(radio.frame().await.as_slice()).unwrap();
        if let Some(PayloadVariant::Packet(packet)) = frame.payload_variant {
            assert_eq!(packet.id, 6, "the first packet of the new session is its own");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_radio_is_asked_every_five_seconds_and_given_up_after_sixty() {
    let (connector, mut opened) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened.recv().await.unwrap();
    let begun = tokio::time::Instant::now();
    let nonce = radio.asked().await;
    for round in 1..=3 {
        assert_eq!(radio.asked().await, nonce);
        assert_eq!(begun.elapsed(), Duration::from_secs(5 * round));
    }
    let reading = tokio::spawn(async move { while radio.stream.read_u8().await.is_ok() {} });
    let reason = rig.down().await;
    assert!(reason.contains("scripted opens and does not answer"), "{reason}");
    assert_eq!(begun.elapsed(), Duration::from_secs(60));
    reading.await.unwrap();
    assert!(opened.recv().await.is_some(), "it is opened again");
}

#[tokio::test(start_paused = true)]
async fn a_radio_that_answers_only_heartbeats_is_greeted_again() {
    let (connector, mut opened) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened.recv().await.unwrap();
    let nonce = radio.asked().await;
    radio.greet(nonce).await;
    rig.up().await;
    let up = tokio::time::Instant::now();
    let next = radio.asked().await;
    assert_eq!(up.elapsed(), Duration::from_secs(180));
    assert_ne!(next, nonce);
    assert!(rig.down().await.contains("silent"));
    radio.greet(nonce).await; // the old answer is not taken for the new one
    radio.greet(next).await;
    assert_eq!(rig.up().await.session, 2);
}

#[tokio::test(start_paused = true)]
async fn boot_text_and_another_number_are_greeted_at_once() {
    let (connector, mut opened) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened.recv().await.unwrap();
    let nonce = radio.asked().await;
    radio.greet(nonce).await;
    rig.up().await;
    radio.stream.write_all(b"rst:0x1 (POWERON),boot:0x13\r\n").await.unwrap();
    let nonce = radio.asked().await;
    assert!(rig.down().await.contains("restarted"));
    radio.greet(nonce).await;
    rig.up().await;
    let other = meshtastic::protobufs::MyNodeInfo { my_node_num: 78, ..Default::default() };
    radio.say(meshtastic::protobufs::from_radio::PayloadVariant::MyInfo(other)).await;
    radio.asked().await;
    assert!(rig.down().await.contains("another number"));
}

#[tokio::test(start_paused = true)]
async fn the_end_is_said_to_the_radio() {
    use meshtastic::protobufs::{ToRadio, to_radio::PayloadVariant};
    use prost::Message as _;
    let (connector, mut opened) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened.recv().await.unwrap();
    let nonce = radio.asked().await;
    radio.greet(nonce).await;
    rig.up().await;
    rig.cancel.cancel();
    rig.tracker.close();
    rig.tracker.wait().await;
    let last = ToRadio::decode(radio.frame().await.as_slice()).unwrap();
    assert_eq!(last.payload_variant, Some(PayloadVariant::Disconnect(true)));
    assert_eq!(radio.stream.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn tries_that_fail_come_later_and_later_but_not_later_than_thirty_seconds() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counter = opened.clone();
    let connector = Connector::from_fn("closed", move || {
        counter.fetch_add(1, Ordering::Relaxed);
        tokio::io::duplex(64).0
    });
    let mut rig = Rig::on(connector);
    let mut waits = Vec::new();
    let mut last = tokio::time::Instant::now();
    for _ in 0..10 {
        rig.down().await;
        waits.push(last.elapsed().as_millis());
        last = tokio::time::Instant::now();
    }
    assert_eq!(waits, [0, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    assert_eq!(opened.load(Ordering::Relaxed), 10);
}

#[test]
fn from_the_third_short_life_on_tcp_stands_back() {
    let mut backoff = Backoff::default();
    let life = |tcp: bool, backoff: &mut Backoff| {
        backoff.succeeded();
        backoff.ended(tcp);
        backoff.next()
    };
    assert_eq!(life(true, &mut backoff), FIRST_RETRY);
    assert_eq!(life(true, &mut backoff), FIRST_RETRY);
    assert!(!backoff.evicted());
    let third = life(true, &mut backoff);
    assert!(backoff.evicted());
    assert!(third >= Duration::from_secs(4), "{third:?}");
    assert!(life(true, &mut backoff) > third);
    let mut serial = Backoff::default();
    for _ in 0..5 {
        assert_eq!(life(false, &mut serial), FIRST_RETRY);
    }
}

#[tokio::test]
async fn a_real_pseudo_terminal_is_opened_as_a_serial_port() {
    let sim = Sim::start(SimConfig::default());
    let stop = CancellationToken::new();
    let path = sim.serve_pty(stop.clone()).unwrap();
    let mut rig = Rig::on(Connector::serial(path));
    assert_eq!(rig.up().await.my_node, NodeNum(0x70b0_1001));
    sim.say("Ana", SayTo::Direct, "over the wire 🔔é!");
    assert_eq!(rig.text().await.1, "over the wire 🔔é!");
    stop.cancel();
}
