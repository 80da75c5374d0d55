//! What real firmware sent, decoded; and what no firmware should send.

use meshtastic::protobufs as radio;
use proptest::prelude::*;
use prost::Message as _;
use tombolo_hw::frame::{Decoder, Item};

use super::*;
use crate::radio::{Outbound, routing};

const ALPHA: NodeNum = NodeNum(0x9c41_d7e0);
const BRAVO: NodeNum = NodeNum(0x51b8_a6f3);
const CHARLIE: NodeNum = NodeNum(0xe377_6c19);
const ALPHA_KEY: &str = "3cbab229bed669421072a04b8b00f1bb94047d122afe30d7c2f74ba2ad0bd863";
const BRAVO_KEY: &str = "88f2cfb5b7fb12bcfeea7ebd829500ccc5109bf115749618023695c3daecee4c";
const CHARLIE_KEY: &str = "4fe74f6831a0e7cd38b25d176001152de7e32ff708dfe3a176b9d1a381897b05";

macro_rules! capture {
    ($name:literal) => {
        messages(include_bytes!(concat!("../../../tests/captures/", $name, ".bin")))
    };
}

/// Every frame of a recorded stream; the stream must hold nothing else.
fn messages(stream: &[u8]) -> Vec<FromRadio> {
    let mut decoder = Decoder::new();
    let (mut rest, mut found) = (stream, Vec::new());
    loop {
        let mut decoded = None;
        let item = decoder.next(&mut |payload| {
            decoded = decode(payload).ok();
            decoded.is_some()
        });
        match item {
            Some(Item::Frame(_)) => found.push(decoded.unwrap()),
            Some(Item::Log(line)) => panic!("text between frames: {line:?}"),
            None if rest.is_empty() => break,
            None => {
                let taken = decoder.feed(rest);
                rest = &rest[taken..];
            }
        }
    }
    assert!(!decoder.in_frame() && decoder.rejected() == 0);
    found
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn key(text: &str) -> Option<PublicKey> {
    PublicKey::from_slice(&unhex(text))
}

fn packet_of(message: &FromRadio) -> &Inbound {
    match message {
        FromRadio::Packet(packet) => packet,
        other => panic!("expected a packet, got {other:?}"),
    }
}

fn data_of(message: &FromRadio) -> &Data {
    match &packet_of(message).payload {
        Payload::Data(data) => data,
        other => panic!("expected decoded data, got {other:?}"),
    }
}

fn queue_status(res: i32, free: u32, id: u32) -> FromRadio {
    FromRadio::QueueStatus(QueueStatus { res, free, maxlen: 16, id: PacketId(id) })
}

#[test]
fn the_handshake_of_real_firmware() {
    let all = capture!("want_config_handshake");
    assert_eq!(all.len(), 47);
    assert_eq!(all[0], FromRadio::MyInfo(ALPHA));
    let nodes: Vec<_> = all
        .iter()
        .filter_map(|message| match message {
            FromRadio::NodeInfo(node) => {
                Some((NodeNum(node.num), node.long_name.as_str(), node.public_key))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        nodes,
        [
            (ALPHA, "Rig Alpha", key(ALPHA_KEY)),
            (BRAVO, "Rig Bravo", key(BRAVO_KEY)),
            (CHARLIE, "Rig Charlie", key(CHARLIE_KEY)),
        ]
    );
    assert_eq!(all[3], FromRadio::Metadata { firmware: "2.7.26.54e0d8d".to_owned() });
    assert_eq!(
        all[4..12],
        [
            FromRadio::Channel(Channel { index: 0, name: String::new(), primary: true }),
            FromRadio::Channel(Channel { index: 1, name: "rig".to_owned(), primary: false }),
            FromRadio::NoChannel(2),
            FromRadio::NoChannel(3),
            FromRadio::NoChannel(4),
            FromRadio::NoChannel(5),
            FromRadio::NoChannel(6),
            FromRadio::NoChannel(7),
        ]
    );
    assert_eq!(all[12], FromRadio::Device { role: 0, announces_every_s: 10_800 });
    assert_eq!(
        all[17],
        FromRadio::Lora(LoraSettings {
            region: 1,
            use_preset: true,
            preset: 0,
            bandwidth: 250,
            spread_factor: 11,
            coding_rate: 5,
            hop_limit: 3,
            tx_enabled: true,
            ..LoraSettings::default()
        })
    );
    assert_eq!(all[19], FromRadio::OwnKey(key(ALPHA_KEY)));
    assert_eq!(all[46], FromRadio::ConfigComplete(987_654_321));
}

#[test]
fn the_private_key_never_leaves_the_frame() {
    let stream = include_bytes!("../../../tests/captures/want_config_handshake.bin");
    // Config.security: field 2 of 32 bytes, behind the public key.
    let public = unhex(ALPHA_KEY);
    let security = stream.windows(34).filter(|w| w[..2] == [0x0A, 0x20] && w[2..] == public[..]);
    assert_eq!(security.count(), 1, "the one config that also holds the private key");
    let at = stream.windows(34).position(|w| w[..2] == [0x0A, 0x20] && w[2..] == public[..]);
    let private = &stream[at.unwrap() + 36..at.unwrap() + 68];
    let written = format!("{:?}", &private[..8]);
    let bytes = written.trim_matches(['[', ']']);
    let said = format!("{:?}", messages(stream));
    assert!(!said.contains(bytes));
    assert!(
        said.contains(&key(ALPHA_KEY).unwrap().fingerprint()),
        "the test looks at the right form"
    );
}

#[test]
fn the_special_nonces_give_less() {
    let settings = capture!("want_config_only_config");
    assert_eq!(settings.len(), 45);
    assert_eq!(settings.iter().filter(|m| matches!(m, FromRadio::NodeInfo(_))).count(), 1);
    assert_eq!(settings[44], FromRadio::ConfigComplete(69_420));
    let nodes = capture!("want_config_only_nodes");
    assert_eq!(nodes.len(), 4);
    assert_eq!(nodes.iter().filter(|m| matches!(m, FromRadio::NodeInfo(_))).count(), 3);
    assert_eq!(nodes[3], FromRadio::ConfigComplete(69_421));
}

#[test]
fn a_direct_message_shows_the_key_that_the_radio_used() {
    let all = capture!("dm_received");
    let packet = packet_of(&all[0]);
    assert_eq!((packet.from, packet.to, packet.id), (BRAVO, ALPHA, PacketId(0x2072_44d0)));
    assert!(packet.pki_encrypted && packet.want_ack && !packet.xeddsa_signed && !packet.via_mqtt);
    assert_eq!((packet.public_key, packet.channel, packet.transport), (key(BRAVO_KEY), 0, 1));
    assert_eq!((packet.hop_limit, packet.hop_start), (3, 3));
    assert_eq!((packet.rx_snr, packet.rx_rssi, packet.rx_time), (6.25, -45, None));
    let data = data_of(&all[0]);
    assert_eq!((data.port, data.bytes.as_slice()), (1, &b"Ahoj, this is a direct message"[..]));
    // The ack of our radio's own ack: an id that we never sent.
    let ack = data_of(&all[1]);
    assert_eq!((ack.port, ack.request_id), (5, PacketId(0xf2bf_ab21)));
    assert_eq!(ack.routing_error, Some(routing::NONE));
    assert!(!packet_of(&all[1]).pki_encrypted);
}

#[test]
fn channel_texts_telemetry_and_what_cannot_be_read() {
    let first = capture!("channel_text_received");
    let packet = packet_of(&first[0]);
    assert_eq!((packet.to, packet.channel, packet.public_key), (NodeNum::BROADCAST, 0, None));
    assert_eq!(data_of(&first[0]).bytes, b"Hello primary channel");

    let second = capture!("channel1_text_received");
    assert_eq!(packet_of(&second[0]).channel, 1);
    assert_eq!(data_of(&second[0]).bytes, b"Hello secondary channel");
    assert_eq!(packet_of(&second[1]).from, ALPHA);
    let metrics = data_of(&second[1]).telemetry.unwrap();
    assert_eq!(metrics.battery_level, Some(101));
    assert!(metrics.channel_utilization.is_some_and(|u| (0.0..100.0).contains(&u)));
    assert!(metrics.air_util_tx.is_some_and(|u| (0.0..100.0).contains(&u)));

    let hidden = capture!("undecryptable_received");
    let packet = packet_of(&hidden[0]);
    assert_eq!((packet.channel, &packet.payload), (208, &Payload::Encrypted { len: 29 }));
}

/// The answer to a packet of ours: its fate in the queue, and who says what about it.
fn assert_fate(all: &[FromRadio], status: FromRadio, from: NodeNum, id: u32, reason: i32) {
    assert_eq!(all[0], status);
    let last = all.last().unwrap();
    assert_eq!(packet_of(last).from, from);
    let data = data_of(last);
    assert_eq!((data.port, data.request_id), (port::ROUTING, PacketId(id)));
    assert_eq!(data.routing_error, Some(reason));
}

#[test]
fn acks_and_refusals() {
    let all = capture!("dm_sender_queue_status_and_ack");
    assert_fate(&all, queue_status(0, 15, 0x2072_44d0), ALPHA, 0x2072_44d0, routing::NONE);
    let all = capture!("channel_text_sender_implicit_ack");
    assert_fate(&all, queue_status(0, 15, 0x795a_bfca), BRAVO, 0x795a_bfca, routing::NONE);
    let all = capture!("nak_max_retransmit");
    assert_fate(
        &all,
        queue_status(0, 15, 0xbaef_4302),
        BRAVO,
        0xbaef_4302,
        routing::MAX_RETRANSMIT,
    );
    let all = capture!("nak_no_channel_remote");
    assert_fate(&all, queue_status(0, 15, 0x6253_7399), CHARLIE, 0x6253_7399, routing::NO_CHANNEL);
    let all = capture!("disabled_channel");
    assert_fate(&all, queue_status(6, 16, 0xdfb3_7f21), BRAVO, 0xdfb3_7f21, routing::NO_CHANNEL);
    let all = capture!("text_rejected_too_large");
    assert_fate(&all, queue_status(7, 16, 0xdca5_c2db), BRAVO, 0xdca5_c2db, routing::TOO_LARGE);
    let all = capture!("nak_pki_failed");
    assert_fate(&all, queue_status(34, 16, 0x0c07_e2df), BRAVO, 0x0c07_e2df, routing::PKI_FAILED);
    let all = capture!("nak_pki_send_fail_public_key");
    let reason = routing::PKI_SEND_FAIL_PUBLIC_KEY;
    assert_fate(&all, queue_status(39, 16, 0x78df_bdb2), BRAVO, 0x78df_bdb2, reason);
    let all = capture!("nak_pki_unknown_pubkey");
    let reason = routing::PKI_UNKNOWN_PUBKEY;
    assert_fate(&all[..3], queue_status(0, 15, 0x5336_7f94), ALPHA, 0x5336_7f94, reason);
    let all = capture!("reboot_tail");
    assert_fate(&all, queue_status(0, 16, 0x433f_1227), ALPHA, 0x433f_1227, routing::NONE);
    assert_eq!(capture!("heartbeat_queue_status"), [queue_status(0, 16, 0)]);
}

#[test]
fn the_rate_limit_and_the_duty_cycle() {
    let all = capture!("burst10_rate_limited");
    assert_eq!(all[0], queue_status(0, 15, 0x8e90_24a2));
    let refused: Vec<u32> = all[3..7]
        .iter()
        .map(data_of)
        .filter(|data| data.routing_error == Some(routing::RATE_LIMIT_EXCEEDED))
        .map(|data| data.request_id.0)
        .collect();
    assert_eq!(refused, [0x2eca_9825, 0x59ac_7255, 0xe686_f0f0, 0x59ba_b227]);
    assert!(data_of(&all[7]).telemetry.is_some());

    let all = capture!("duty_cycle_limit");
    let own = NodeNum(0x5d90_b21c);
    assert_fate(
        &all,
        queue_status(9, 16, 0x60ad_4952),
        own,
        0x60ad_4952,
        routing::DUTY_CYCLE_LIMIT,
    );
    let text = "Duty cycle limit exceeded. You can send again in 51 mins".to_owned();
    assert_eq!(all[1], FromRadio::Notification { reply_id: PacketId(0x60ad_4952), text });
}

fn from_radio(variant: radio::from_radio::PayloadVariant) -> Vec<u8> {
    radio::FromRadio { id: 0, payload_variant: Some(variant) }.encode_to_vec()
}

fn packet_with(port: i32, payload: Vec<u8>) -> radio::MeshPacket {
    radio::MeshPacket {
        from: 0xa1b2_c3d4,
        to: ALPHA.0,
        id: 9,
        payload_variant: Some(radio::mesh_packet::PayloadVariant::Decoded(radio::Data {
            portnum: port,
            payload,
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// A field of bytes, by hand.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[test]
fn text_that_is_no_utf8_costs_no_frame() {
    let broken = b"a\xFFb";
    let user = [field(1, broken), field(2, broken), field(3, b"\xC3"), field(8, &[7; 32])].concat();
    let node = field(4, &[vec![0x08, 99], field(2, &user)].concat());
    let FromRadio::NodeInfo(node) = decode(&node).unwrap() else { panic!("no node") };
    assert_eq!(
        (node.num, node.long_name.as_str(), node.short_name.as_str()),
        (99, "a\u{fffd}b", "\u{fffd}")
    );
    assert_eq!(node.public_key, PublicKey::from_slice(&[7; 32]));

    let channel = field(10, &[vec![0x08, 1], field(2, &field(3, broken)), vec![0x18, 2]].concat());
    let name = "a\u{fffd}b".to_owned();
    assert_eq!(
        decode(&channel),
        Ok(FromRadio::Channel(Channel { index: 1, name, primary: false }))
    );
    let my_info = field(3, &[vec![0x08, 5], field(13, broken)].concat());
    assert_eq!(decode(&my_info), Ok(FromRadio::MyInfo(NodeNum(5))));
    let firmware = "a\u{fffd}b".to_owned();
    assert_eq!(decode(&field(13, &field(1, broken))), Ok(FromRadio::Metadata { firmware }));
    let log = field(6, &[field(1, broken), field(3, broken)].concat());
    assert!(matches!(decode(&log), Ok(FromRadio::Log(_))));
    // The names of files, which are of no use here, can't do it either.
    assert_eq!(decode(&field(15, &field(1, broken))), Ok(FromRadio::Other));
}

#[test]
fn an_announced_name_comes_without_a_key() {
    let user = [field(2, b"An\xFFa"), field(3, b"ANA"), vec![0x30, 1], field(8, &[7; 32])].concat();
    let mut packet = packet_with(port::NODEINFO, user);
    (packet.hop_start, packet.hop_limit, packet.rx_time) = (3, 1, 1_700_000_000);
    let announced_by = |packet: &radio::MeshPacket| {
        let frame = from_radio(radio::from_radio::PayloadVariant::Packet(packet.clone()));
        announced(packet_of(&decode(&frame).unwrap()))
    };
    let node = announced_by(&packet).unwrap();
    assert_eq!((node.num, node.long_name.as_str()), (0xa1b2_c3d4, "An\u{fffd}a"));
    assert_eq!((node.public_key, node.hops_away), (None, Some(2)));
    assert_eq!((node.licensed, node.last_heard), (true, 1_700_000_000));
    packet.hop_limit = 4; // more left than there were
    assert_eq!(announced_by(&packet).unwrap().hops_away, None);
    assert_eq!(announced_by(&radio::MeshPacket { from: u32::MAX, ..packet.clone() }), None);
    assert_eq!(announced_by(&packet_with(port::TEXT_MESSAGE, vec![])), None);
    assert_eq!(announced_by(&packet_with(port::NODEINFO, vec![0x12])), None);
}

#[test]
fn unknown_variants_ports_and_enum_values_are_no_errors() {
    for nothing in [&[][..], &[0x9A, 1, 0], &[0x92, 1, 0], &[0xF2, 1, 0], &[0x2A, 0], &[0x4A, 0]] {
        assert_eq!(decode(nothing), Ok(FromRadio::Other), "{nothing:02x?}");
    }
    for unknown in [13, 37, 78, 79, 300, -1] {
        let packet = packet_with(unknown, b"x".to_vec());
        let frame = from_radio(radio::from_radio::PayloadVariant::Packet(packet));
        assert_eq!(data_of(&decode(&frame).unwrap()).port, unknown);
    }
    let lora = radio::config::LoRaConfig {
        region: 40,
        modem_preset: 20,
        hop_limit: 9,
        ..Default::default()
    };
    let config = radio::Config { payload_variant: Some(radio::config::PayloadVariant::Lora(lora)) };
    let frame = from_radio(radio::from_radio::PayloadVariant::Config(config));
    let Ok(FromRadio::Lora(lora)) = decode(&frame) else { panic!("no settings") };
    assert_eq!((lora.region, lora.preset, lora.hop_limit), (40, 20, 7));
}

#[test]
fn newer_fields_are_read_and_broken_insides_cost_only_themselves() {
    // MeshPacket.xeddsa_signed = 22.
    let mut packet = packet_with(port::TEXT_MESSAGE, b"hi".to_vec()).encode_to_vec();
    packet.extend_from_slice(&[0xB0, 1, 1]);
    assert!(packet_of(&decode(&field(2, &packet)).unwrap()).xeddsa_signed);

    for (port, payload) in [(port::ROUTING, vec![0x1A]), (port::TELEMETRY, vec![0x12, 9, 1])] {
        let packet = packet_with(port, payload);
        let frame = from_radio(radio::from_radio::PayloadVariant::Packet(packet));
        let message = decode(&frame).unwrap();
        let data = data_of(&message);
        assert_eq!((data.routing_error, data.telemetry), (None, None));
    }
}

#[test]
fn figures_that_are_no_numbers_don_t_pass() {
    let stats =
        radio::LocalStats { channel_utilization: f32::NAN, air_util_tx: 2.5, ..Default::default() };
    let telemetry =
        radio::Telemetry { time: 0, variant: Some(radio::telemetry::Variant::LocalStats(stats)) };
    let mut packet = packet_with(port::TELEMETRY, telemetry.encode_to_vec());
    packet.rx_snr = f32::INFINITY;
    let frame = from_radio(radio::from_radio::PayloadVariant::Packet(packet));
    let message = decode(&frame).unwrap();
    assert_eq!(packet_of(&message).rx_snr, 0.0);
    let metrics = data_of(&message).telemetry.unwrap();
    assert_eq!((metrics.channel_utilization, metrics.air_util_tx), (None, Some(2.5)));
}

#[test]
fn a_packet_that_is_cut_short_or_padded_does_not_decode() {
    let packet = packet_with(port::TEXT_MESSAGE, b"hello".to_vec());
    let frame = from_radio(radio::from_radio::PayloadVariant::Packet(packet));
    assert!(decode(&frame).is_ok());
    for cut in 1..frame.len() {
        assert_eq!(decode(&frame[..cut]), Err(Undecodable), "cut after {cut} bytes");
    }
    // Cut after two bytes of the text, and filled up with the start of the next frame.
    let at = frame.windows(5).position(|w| w == b"hello").unwrap() + 2;
    let next = [0x94, 0xC3, 0, 60];
    let torn =
        [&frame[..at], &next.iter().cycle().take(frame.len() - at).copied().collect::<Vec<_>>()]
            .concat();
    assert_eq!(decode(&torn), Err(Undecodable));
}

#[test]
fn what_we_send_says_what_was_meant() {
    let outbound = Outbound {
        to: BRAVO,
        channel: 0,
        id: PacketId(5),
        port: port::TEXT_MESSAGE,
        bytes: "👍".as_bytes().to_vec(),
        want_ack: true,
        want_response: false,
        hop_limit: 3,
        reply_id: Some(PacketId(4)),
        emoji: true,
        pki_key: key(BRAVO_KEY),
    };
    let sent = |frame: Vec<u8>| {
        use radio::to_radio::PayloadVariant;
        match radio::ToRadio::decode(frame.as_slice()).unwrap().payload_variant {
            Some(PayloadVariant::Packet(packet)) => packet,
            other => panic!("expected a packet, got {other:?}"),
        }
    };
    let inside = |packet: &radio::MeshPacket| match packet.payload_variant.clone() {
        Some(radio::mesh_packet::PayloadVariant::Decoded(data)) => data,
        other => panic!("expected decoded data, got {other:?}"),
    };
    let direct = sent(packet(ALPHA, &outbound));
    assert_eq!((direct.from, direct.to, direct.id, direct.hop_limit), (ALPHA.0, BRAVO.0, 5, 3));
    assert!(direct.want_ack && direct.pki_encrypted && direct.priority == 0);
    assert_eq!(direct.public_key, unhex(BRAVO_KEY));
    let data = inside(&direct);
    assert_eq!((data.portnum, data.reply_id, data.emoji), (1, 4, 1));

    let plain = Outbound { pki_key: None, reply_id: None, emoji: false, channel: 1, ..outbound };
    let plain = sent(packet(ALPHA, &plain));
    assert!(!plain.pki_encrypted && plain.public_key.is_empty() && plain.channel == 1);
    assert_eq!((inside(&plain).reply_id, inside(&plain).emoji), (0, 0));

    let clock = sent(set_time(ALPHA, PacketId(6), 1_700_000_000));
    assert_eq!((clock.from, clock.to, clock.id), (ALPHA.0, ALPHA.0, 6));
    assert_eq!(inside(&clock).portnum, port::ADMIN);
    let admin = radio::AdminMessage::decode(inside(&clock).payload.as_slice()).unwrap();
    let wanted = radio::admin_message::PayloadVariant::SetTimeOnly(1_700_000_000);
    assert_eq!(admin.payload_variant, Some(wanted));

    let contact = sent(add_contact(ALPHA, PacketId(7), BRAVO, "Bravo", &key(BRAVO_KEY).unwrap()));
    let admin = radio::AdminMessage::decode(inside(&contact).payload.as_slice()).unwrap();
    let Some(radio::admin_message::PayloadVariant::AddContact(contact)) = admin.payload_variant
    else {
        panic!("no contact")
    };
    let user = contact.user.unwrap();
    assert_eq!((contact.node_num, user.id.as_str()), (BRAVO.0, "!51b8a6f3"));
    assert_eq!((user.long_name.as_str(), user.public_key), ("Bravo", unhex(BRAVO_KEY)));
}

proptest! {
    #[test]
    fn no_payload_is_too_strange(payload in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = decode(&payload);
    }

    #[test]
    fn a_text_of_any_bytes_arrives_as_it_is(text in prop::collection::vec(any::<u8>(), 0..233)) {
        let frame = from_radio(radio::from_radio::PayloadVariant::Packet(packet_with(1, text.clone())));
        let message = decode(&frame).unwrap();
        prop_assert_eq!(&data_of(&message).bytes, &text);
    }
}
