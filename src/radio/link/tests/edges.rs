//! The link where it is easily wrong: boot text that is quoted, a radio that hides its settings, packets
//! between two sessions, clocks, full channels, half-written frames, a second client.

use meshtastic::protobufs as radio;
use prost::Message as _;
use radio::from_radio::PayloadVariant as From;
use radio::to_radio::PayloadVariant as To;

use super::*;

impl Scripted {
    async fn sent(&mut self) -> To {
        let frame = self.frame().await;
        radio::ToRadio::decode(frame.as_slice()).unwrap().payload_variant.unwrap()
    }

    async fn packet(&mut self, id: u32, text: &str) {
        self.say(From::Packet(packet(id, text))).await;
    }

    /// Waits for the question and answers it.
    async fn greeted(&mut self) {
        let nonce = self.asked().await;
        self.greet(nonce).await;
    }
}

pub(super) fn packet(id: u32, text: &str) -> radio::MeshPacket {
    let inner = radio::Data {
        portnum: port::TEXT_MESSAGE,
        payload: text.as_bytes().to_vec(),
        ..Default::default()
    };
    radio::MeshPacket {
        from: 99,
        to: 77,
        id,
        payload_variant: Some(radio::mesh_packet::PayloadVariant::Decoded(inner)),
        ..Default::default()
    }
}

async fn opened(opened: &mut tokio::sync::mpsc::Receiver<Scripted>) -> Scripted {
    opened.recv().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn boot_text_that_a_peer_is_quoted_with_restarts_nothing() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    rig.up().await;
    let quoted = b"\x1b[32mINFO \x1b[0m| 12:00:00 7 [Router] msg=rst:0x1 ESP-ROM: #rst:0x1\r\n";
    radio.stream.write_all(quoted).await.unwrap();
    radio.packet(1, "still the same session").await;
    let event = rig.next().await;
    assert!(matches!(event, LinkEvent::Packet(_)), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn boot_text_before_the_radio_has_named_itself_is_no_new_reason_to_ask() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    let nonce = radio.asked().await;
    let asked = tokio::time::Instant::now();
    radio.stream.write_all(b"ESP-ROM:esp32s3-20210327\r\nrst:0x1 (POWERON)\r\n").await.unwrap();
    assert_eq!(radio.asked().await, nonce);
    assert_eq!(asked.elapsed(), Duration::from_secs(5));
    // But once it has, what it has told is void.
    radio.say(From::MyInfo(radio::MyNodeInfo { my_node_num: 77, ..Default::default() })).await;
    radio.stream.write_all(b"rst:0x1 (POWERON)\r\n").await.unwrap();
    let again = radio.asked().await;
    assert_ne!(again, nonce);
    assert_eq!(asked.elapsed(), Duration::from_secs(5));
    radio.greet(again).await;
    assert_eq!(rig.up().await.session, 1);
}

#[tokio::test(start_paused = true)]
async fn a_radio_that_hides_its_settings_is_up_and_left_alone() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    let nonce = radio.asked().await;
    radio.say(From::MyInfo(radio::MyNodeInfo { my_node_num: 77, ..Default::default() })).await;
    radio.say(From::ConfigCompleteId(nonce)).await;
    assert_eq!(rig.up().await.lora.region, 0);
    assert_eq!(radio.sent().await, To::Heartbeat(radio::Heartbeat { nonce: 0 }));
}

#[tokio::test(start_paused = true)]
async fn a_message_between_two_sessions_is_told_in_the_next_one() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    rig.up().await;
    radio.stream.write_all(b"rst:0x1\r\n").await.unwrap();
    radio.asked().await;
    radio.packet(1, "on its way while we asked").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(radio); // and then the link goes
    let mut radio = opened(&mut radios).await;
    let nonce = radio.asked().await;
    radio.packet(2, "before the answer").await;
    radio.greet(nonce).await;
    let second = rig.up().await.session;
    assert_eq!(second, 2);
    assert_eq!(rig.text().await.1, "on its way while we asked");
    assert_eq!(rig.text().await.1, "before the answer");
}

#[tokio::test(start_paused = true)]
async fn a_message_to_another_radio_is_not_told_as_ours() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    rig.up().await;
    radio.stream.write_all(b"rst:0x1\r\n").await.unwrap();
    radio.asked().await;
    radio.packet(1, "for the first radio").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(radio);
    let mut radio = opened(&mut radios).await;
    let nonce = radio.asked().await;
    radio.say(From::MyInfo(radio::MyNodeInfo { my_node_num: 78, ..Default::default() })).await;
    radio.say(From::ConfigCompleteId(nonce)).await;
    assert_eq!(rig.up().await.my_node, NodeNum(78));
    radio.packet(2, "for the second").await;
    assert_eq!(rig.text().await.1, "for the second");
}

fn time_set_by(sent: To) -> Option<u32> {
    let To::Packet(packet) = sent else { return None };
    let Some(radio::mesh_packet::PayloadVariant::Decoded(data)) = packet.payload_variant else {
        panic!("not decoded")
    };
    assert_eq!((packet.from, packet.to, data.portnum), (77, 77, port::ADMIN));
    match radio::AdminMessage::decode(data.payload.as_slice()).unwrap().payload_variant {
        Some(radio::admin_message::PayloadVariant::SetTimeOnly(seconds)) => Some(seconds),
        other => panic!("not a time: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_radio_s_clock_is_set_once_a_session_and_only_from_a_right_one() {
    static RIGHT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let (connector, mut radios) = Scripted::pair();
    let mut rig =
        Rig::with_time(connector, || Some(RIGHT.load(Ordering::Relaxed)).filter(|t| *t != 0));
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    rig.up().await;
    // Not right yet: the next thing is a heartbeat; then it is.
    assert!(matches!(radio.sent().await, To::Heartbeat(_)));
    RIGHT.store(1_700_000_000, Ordering::Relaxed);
    assert!(matches!(radio.sent().await, To::Heartbeat(_)));
    assert_eq!(time_set_by(radio.sent().await), Some(1_700_000_000));
    radio.packet(1, "a sign of life").await;
    for _ in 0..2 {
        assert!(matches!(radio.sent().await, To::Heartbeat(_)), "once is enough");
    }
    // The next session tells it at once: on the same stream after a restart, and on another.
    radio.stream.write_all(b"rst:0x1\r\n").await.unwrap();
    radio.greeted().await;
    assert_eq!(time_set_by(radio.sent().await), Some(1_700_000_000));
    drop(radio);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    assert_eq!(time_set_by(radio.sent().await), Some(1_700_000_000));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_behind_loses_nothing() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    rig.up().await;
    let writing = tokio::spawn(async move {
        for id in 1..=400 {
            radio.packet(id, "one of many").await;
        }
        radio
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!writing.is_finished(), "the radio is held up: the test fills the channel");
    for id in 1..=400 {
        assert_eq!(rig.text().await.0.id, PacketId(id));
    }
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_is_begun_is_finished_before_the_goodbye() {
    let (connector, mut radios) = Scripted::pair_with_room(64);
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    let session = rig.up().await.session;
    let text = "x".repeat(200);
    rig.link.handle.send(session, text_to(NodeNum(9), PublicKey([1; 32]), 5, &text)).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await; // 64 bytes of it are written
    rig.cancel.cancel();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let To::Packet(packet) = radio.sent().await else { panic!("not the packet") };
    assert_eq!(packet.id, 5);
    assert_eq!(radio.sent().await, To::Disconnect(true));
    rig.tracker.close();
    rig.tracker.wait().await;
    assert_eq!(radio.stream.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_radio_that_takes_no_bytes_is_given_up() {
    let (connector, mut radios) = Scripted::pair_with_room(64);
    let begun = tokio::time::Instant::now();
    let mut rig = Rig::on(connector);
    let _radio = opened(&mut radios).await;
    let reason = rig.down().await;
    assert!(reason.contains("takes no bytes"), "{reason}");
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_short_life_ends_within_thirty_seconds_of_the_first_success() {
    for (lived, short) in [(29_999, true), (30_000, false)] {
        let mut backoff = Backoff::default();
        for _ in 0..EVICTIONS {
            backoff.succeeded();
            tokio::time::advance(Duration::from_millis(lived)).await;
            backoff.ended(true);
        }
        assert_eq!(backoff.evicted(), short, "{lived} ms");
    }
    // A handshake that is repeated on the same stream doesn't make it younger.
    let mut backoff = Backoff::default();
    for _ in 0..EVICTIONS {
        backoff.succeeded();
        tokio::time::advance(Duration::from_secs(180)).await;
        backoff.succeeded();
        backoff.ended(true);
    }
    assert!(!backoff.evicted());
    // One long life, and all is forgotten.
    let mut backoff = Backoff::default();
    for seconds in [1, 1, 60, 1, 1] {
        backoff.succeeded();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        backoff.ended(true);
    }
    assert!(!backoff.evicted());
}

#[tokio::test]
async fn a_second_client_on_the_network_is_named_as_the_likely_cause() {
    let sim = Sim::start(SimConfig::default());
    let stop = CancellationToken::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(sim.clone().serve_tcp(listener, stop.clone()));
    let mut rig = Rig::on(Connector::tcp(address.to_string()));
    let mut reasons = Vec::new();
    for _ in 0..3 {
        rig.up().await;
        let other = tokio::net::TcpStream::connect(address).await.unwrap();
        reasons.push(rig.down().await);
        drop(other);
    }
    let named: Vec<bool> = reasons.iter().map(|r| r.contains("Another client")).collect();
    assert_eq!(named, [false, false, true], "{reasons:?}");
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_stops_is_given_up_after_two_seconds_and_a_slow_one_is_not() {
    let (connector, mut radios) = Scripted::pair();
    let mut rig = Rig::on(connector);
    let mut radio = opened(&mut radios).await;
    radio.greeted().await;
    rig.up().await;
    // Each byte comes just in time.
    let message = radio::FromRadio {
        payload_variant: Some(From::Packet(packet(1, "slow"))),
        ..Default::default()
    };
    let payload = message.encode_to_vec();
    let frame = [&[0x94, 0xC3, 0, u8::try_from(payload.len()).unwrap()][..], &payload].concat();
    let (first, last) = frame.split_at(frame.len() - 3);
    radio.stream.write_all(first).await.unwrap();
    for byte in last {
        tokio::time::sleep(Duration::from_millis(1999)).await;
        radio.stream.write_all(&[*byte]).await.unwrap();
    }
    assert_eq!(rig.text().await.1, "slow");
    // A length that lies: the next frame seems to be inside, and is found when nothing more comes.
    radio.stream.write_all(&[0x94, 0xC3, 1, 255]).await.unwrap();
    radio.packet(2, "found").await;
    let begun = tokio::time::Instant::now();
    assert_eq!(rig.text().await.1, "found");
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}
