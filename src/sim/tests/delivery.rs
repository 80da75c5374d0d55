//! What comes back from the air: acks, refusals, retries, what peers say.

use super::*;

const NONE: routing::Error = routing::Error::None;

#[tokio::test(start_paused = true)]
async fn a_neighbours_ack_comes_from_the_destination() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let begun = sim.now_ms();
    let id = client.send_text(BEN, "13 bytes long").await;
    let packet = client.packet().await;
    let took = sim.now_ms() - begun;
    assert_eq!((packet.from, data(&packet).request_id), (BEN, id));
    // As captured.
    assert_eq!((packet.want_ack, packet.hop_limit, packet.hop_start), (true, 2, 2));
    assert_eq!(data(&packet).payload, [0x18, 0]);
    assert!((1000..=2000).contains(&took), "measured 1.4 s, here {took} ms");
    assert!(client.verdict_within(LONG).await.is_none());
    let heard = sim.heard("Ben");
    assert_eq!(heard.len(), 1);
    assert_eq!((heard[0].pki, heard[0].channel, heard[0].from.0), (true, None, OURS));
    // The text, and the ack of its ack.
    let sent: Vec<_> = sim.transmissions().iter().map(|t| (t.port, t.bytes, t.attempt)).collect();
    assert_eq!(sent, [(1, 16 + 12 + 6 + 13, 1), (5, 29, 1)]);
}

#[tokio::test(start_paused = true)]
async fn over_a_relay_our_own_radio_acks_first_and_the_destination_later() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(ANA, "hello").await;
    assert_eq!(client.verdict().await, (OURS, id, NONE));
    assert_eq!(client.verdict().await, (ANA, id, NONE));
    assert!(client.verdict_within(LONG).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn relayed_but_never_delivered_gives_only_the_implicit_ack() {
    let sim = Sim::start(exact());
    sim.set_peer("Ana", |ana| ana.reachable = false);
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(ANA, "hello").await;
    assert_eq!(client.verdict().await, (OURS, id, NONE));
    assert!(client.verdict_within(LONG).await.is_none());
    assert_eq!(sim.transmissions().len(), 1, "the implicit ack stops the retries");
}

#[tokio::test(start_paused = true)]
async fn unheard_is_tried_three_times_and_then_given_up() {
    let sim = Sim::start(exact());
    sim.set_peer("Ben", |ben| ben.reachable = false);
    let mut client = Client::ready(&sim).await;
    let begun = sim.now_ms();
    let id = client.send_text(BEN, "13 bytes long").await;
    assert_eq!(client.verdict().await, (OURS, id, routing::Error::MaxRetransmit));
    let took = (sim.now_ms() - begun) / 1000;
    assert!((20..=23).contains(&took), "measured 20.8 and 21.3 s, here {took}");
    let tries: Vec<_> = sim.transmissions().iter().map(|t| (t.id.0, t.attempt)).collect();
    assert_eq!(tries, [(id, 1), (id, 2), (id, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_that_wants_an_ack_gets_the_relays_or_none() {
    for (hops, expected) in [(1, NONE), (0, routing::Error::MaxRetransmit)] {
        let sim = Sim::start(exact());
        sim.set_peer("Ana", |ana| ana.hops = hops);
        let mut client = Client::ready(&sim).await;
        let packet = MeshPacket { want_ack: true, ..client.text(u32::MAX, b"everyone") };
        let id = client.send_packet(packet).await;
        assert_eq!(client.verdict().await, (OURS, id, expected));
        for peer in ["Ana", "Ben", "Mallory"] {
            assert_eq!(sim.heard(peer).len(), 1, "{peer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_ack_means_delivered_once_and_max_retransmit() {
    let sim = Sim::start(exact());
    sim.set_peer("Ben", |ben| ben.drop_acks = true);
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(BEN, "hello").await;
    assert_eq!(client.verdict().await, (OURS, id, routing::Error::MaxRetransmit));
    assert_eq!(sim.heard("Ben").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_lost_our_key_refuses_until_our_node_info_came() {
    let sim = Sim::start(exact());
    sim.set_peer("Ben", |ben| ben.forgets_our_key = true);
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(BEN, "hello").await;
    assert_eq!(client.queue_status().await.mesh_packet_id, id);
    // The radio introduces itself; the client sees a status for an id that it never used, then the
    // refusal, and later the ack of the introduction. This order was captured.
    let status = client.queue_status().await;
    assert_eq!(client.verdict().await, (BEN, id, routing::Error::PkiUnknownPubkey));
    let (from, about, reason) = client.verdict().await;
    assert_eq!((from, reason), (BEN, NONE));
    assert!(about == status.mesh_packet_id && about != id);
    let again = client.send_text(BEN, "hello again").await;
    assert_eq!(client.verdict().await, (BEN, again, NONE));
    assert_eq!(sim.heard("Ben").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_a_new_key_or_without_the_channel_answers_no_channel() {
    let sim = Sim::start(exact());
    sim.set_peer("Ben", |ben| ben.key = Some(key_for("another Ben")));
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(BEN, "hello").await;
    assert_eq!(client.verdict().await, (BEN, id, routing::Error::NoChannel));

    sim.set_peer("Ben", |ben| ben.channels = Some(vec!["bots".to_owned()]));
    let packet = MeshPacket {
        payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
            portnum: PortNum::NodeinfoApp as i32,
            ..Data::default()
        })),
        ..client.text(BEN, b"")
    };
    let id = client.send_packet(packet).await;
    assert_eq!(client.verdict().await, (BEN, id, routing::Error::NoChannel));
    assert!(sim.heard("Ben").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_direct_message_arrives_with_its_senders_key_and_is_acked_by_the_radio_alone() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let id = sim.say("Ben", SayTo::Direct, "hello");
    let packet = client.packet().await;
    assert_eq!((packet.from, packet.to, packet.id, packet.channel), (BEN, OURS, id.0, 0));
    assert!(packet.pki_encrypted && packet.want_ack);
    assert_eq!(packet.public_key, key_for("Ben").0);
    assert_eq!((packet.hop_limit, packet.hop_start, packet.relay_node), (3, 3, BEN & 0xff));
    assert_eq!((packet.rx_snr, packet.rx_rssi, packet.rx_time), (6.25, -45, 0));
    assert_eq!(packet.transport_mechanism, 1);
    // Our ack is acked in turn: about an id that the client never used.
    let (from, about, reason) = client.verdict().await;
    assert_eq!((from, reason), (BEN, NONE));
    let acks: Vec<_> = sim.transmissions().iter().map(|t| (t.id.0, t.port, t.to.0)).collect();
    assert_eq!(acks, [(about, PortNum::RoutingApp as i32, BEN)]);
    assert!(client.packet_within(LONG).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_came_over_relays_has_fewer_hops_left_and_shows_once() {
    let sim = Sim::start(SimConfig { duplicates: 1.0, ..exact() });
    let mut client = Client::ready(&sim).await;
    sim.say("Ana", SayTo::Direct, "hello");
    let packet = client.packet().await;
    assert_eq!((packet.from, packet.hop_start, packet.hop_limit), (ANA, 3, 2));
    while let Some(packet) = client.packet_within(LONG).await {
        assert_eq!(data(&packet).portnum, PortNum::RoutingApp as i32);
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_key_under_a_known_number_cannot_be_opened_until_the_radio_holds_it() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    sim.say_as("Mallory", NodeNum(ANA), SayTo::Direct, "I am Ana");
    let packet = client.packet().await;
    assert_eq!((packet.from, packet.pki_encrypted), (ANA, false));
    assert!(matches!(
        packet.payload_variant,
        Some(mesh_packet::PayloadVariant::Encrypted(bytes)) if !bytes.is_empty()
    ));
    // As after a reset of the radio's table, when Mallory was there first.
    sim.learn_key(NodeNum(ANA), Some(key_for("Mallory")));
    let mut client = Client::ready(&sim).await;
    sim.say_as("Mallory", NodeNum(ANA), SayTo::Direct, "I am Ana");
    loop {
        let packet = client.packet().await;
        if data(&packet).payload == b"I am Ana" {
            assert_eq!((packet.from, packet.pki_encrypted), (ANA, true));
            assert_eq!(packet.public_key, key_for("Mallory").0);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_text_may_claim_any_number() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    sim.say_as("Mallory", NodeNum(ANA), SayTo::Channel(1), "I am Ana");
    let packet = client.packet().await;
    assert_eq!((packet.from, packet.to, packet.channel), (ANA, u32::MAX, 1));
    assert!(!packet.pki_encrypted && packet.public_key.is_empty());
    assert!(sim.transmissions().is_empty(), "a broadcast is not acked");
}

#[tokio::test(start_paused = true)]
async fn a_direct_text_in_the_open_and_a_foreign_channel_stay_closed() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let open = Saying { in_the_open: true, ..Saying::new(SayTo::Direct, "legacy") };
    sim.say_with("Ben", open);
    let packet = client.packet().await;
    assert!(matches!(packet.payload_variant, Some(mesh_packet::PayloadVariant::Encrypted(_))));
    let mut client = Client::ready(&sim).await;
    sim.say("Mallory", SayTo::Channel(5), "elsewhere");
    loop {
        let packet = client.packet().await;
        if packet.to == u32::MAX {
            assert!(matches!(
                packet.payload_variant,
                Some(mesh_packet::PayloadVariant::Encrypted(_))
            ));
            assert_ne!(packet.channel, 5, "a hash, not an index");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_packet_is_shown_once_but_again_after_a_reboot() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let saying = Saying { id: Some(PacketId(4711)), ..Saying::new(SayTo::Channel(0), "again") };
    for _ in 0..2 {
        sim.say_with("Ben", saying.clone());
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(client.packet().await.id, 4711);
    assert!(client.packet_within(Duration::from_secs(30)).await.is_none());
    sim.reboot(Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut client = Client::ready(&sim).await;
    sim.say_with("Ben", saying);
    assert_eq!(client.packet().await.id, 4711);
}

#[tokio::test(start_paused = true)]
async fn a_peer_repeats_what_our_radio_did_not_hear() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    sim.set_peer("Ben", |ben| ben.reachable = false);
    sim.say("Ben", SayTo::Direct, "three tries");
    tokio::time::sleep(Duration::from_secs(5)).await;
    sim.set_peer("Ben", |ben| ben.reachable = true);
    assert_eq!(data(&client.packet().await).payload, b"three tries");
}

#[tokio::test(start_paused = true)]
async fn injected_packets_and_bytes_reach_the_client_as_they_are() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    client.next(Duration::from_secs(1)).await;
    let packet = MeshPacket { from: 5, to: OURS, id: 9, channel: 200, ..MeshPacket::default() };
    sim.inject(packet.clone());
    assert_eq!(client.packet().await, packet);
    sim.inject_raw(b"\x94\x94 not a frame".to_vec());
    let mut bytes = [0; 32];
    let count = client.stream.read(&mut bytes).await.unwrap();
    assert_eq!(&bytes[..count], b"\x94\x94 not a frame");
}

#[tokio::test(start_paused = true)]
async fn loss_follows_the_seed() {
    let count = async |seed| {
        let sim = Sim::start(SimConfig { seed, ..exact() });
        sim.set_peer("Ben", |ben| ben.loss = 0.5);
        let mut client = Client::ready(&sim).await;
        for n in 0..40u8 {
            let packet = MeshPacket { want_ack: false, ..client.text(BEN, &[n]) };
            client.send_packet(packet).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        sim.heard("Ben").into_iter().map(|h| h.text).collect::<Vec<_>>()
    };
    let (once, again, other) = (count(1).await, count(1).await, count(2).await);
    assert_eq!(once, again);
    assert_ne!(once, other);
    assert!((10..=30).contains(&once.len()), "{}", once.len());
}

#[tokio::test(start_paused = true)]
async fn airtime_of_each_transmission_is_accounted() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let packet = MeshPacket { want_ack: false, ..client.text(u32::MAX, &[b'x'; 100]) };
    client.send_packet(packet).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let sent = sim.transmissions();
    // The table of LONG_FAST says 1173 ms for 100 bytes.
    assert_eq!(sent[0].airtime_us / 1000, 1173);
    let metrics = sim.shared.with(|w| w.metrics());
    let expected = sent[0].airtime_us as f32 / 3_600_000_000f32 * 100.0;
    assert!((metrics.air_util_tx.unwrap() - expected).abs() < 1e-6);
    // An hour later it is forgotten.
    tokio::time::sleep(Duration::from_secs(3660)).await;
    assert_eq!(sim.shared.with(|w| w.metrics()).air_util_tx, Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_traffic_keeps_everything_bounded() {
    let sim = Sim::start(SimConfig { duplicates: 0.3, hop_loss: 0.2, ..exact() });
    for n in 0..600 {
        sim.say("Ana", SayTo::Direct, &format!("nobody reads {n}"));
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    let mut client = Client::ready(&sim).await;
    let mut count = 0;
    while client.packet_within(Duration::from_millis(100)).await.is_some() {
        count += 1;
    }
    assert!((1..=8).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_and_our_radio_introduce_themselves() {
    let sim = Sim::start(exact());
    sim.add_peer(SimPeer { known: false, ..SimPeer::new("Newcomer", NodeNum(0x5151_5151)) });
    let mut client = Client::ready(&sim).await;
    sim.say("Newcomer", SayTo::Direct, "hello");
    let packet = client.packet().await;
    assert!(matches!(packet.payload_variant, Some(mesh_packet::PayloadVariant::Encrypted(_))));
    let packet = client.packet().await;
    assert_eq!(data(&packet).portnum, PortNum::NodeinfoApp as i32);
    assert_eq!(sim.known_key(NodeNum(0x5151_5151)), Some(key_for("Newcomer")));
    // A NodeInfo with another key does not take its place.
    sim.set_peer("Newcomer", |peer| peer.key = Some(key_for("somebody else")));
    let mut request = client.text(0x5151_5151, b"");
    request.payload_variant = Some(mesh_packet::PayloadVariant::Decoded(Data {
        portnum: PortNum::NodeinfoApp as i32,
        want_response: true,
        ..Data::default()
    }));
    let id = client.send_packet(request).await;
    loop {
        let packet = client.packet().await;
        if data(&packet).portnum == PortNum::NodeinfoApp as i32 {
            assert_eq!(data(&packet).request_id, id);
            break;
        }
    }
    assert_eq!(sim.known_key(NodeNum(0x5151_5151)), Some(key_for("Newcomer")));
}

#[tokio::test(start_paused = true)]
async fn a_checked_signature_is_field_22_of_the_packet() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    while client.next(Duration::from_secs(1)).await.is_some() {}
    let said = |signed| Saying { signed, ..Saying::new(SayTo::Channel(0), "who am I") };
    let mut frames = Vec::new();
    for signed in [false, true] {
        sim.say_with("Ben", Saying { id: Some(PacketId(1 + u32::from(signed))), ..said(signed) });
        let mut bytes = [0; 512];
        let count = client.stream.read(&mut bytes).await.unwrap();
        frames.push(bytes[..count].to_vec());
    }
    assert!(frames[1].ends_with(&[0xb0, 0x01, 0x01]) && !frames[0].ends_with(&[0xb0, 0x01, 0x01]));
    assert_eq!(frames[1].len(), frames[0].len() + 3);
    // What does not know the field reads the rest.
    let read = FromRadio::decode(&frames[1][4..]).unwrap().payload_variant.unwrap();
    let from_radio::PayloadVariant::Packet(packet) = read else { panic!("{read:?}") };
    assert_eq!((packet.from, data(&packet).payload), (BEN, b"who am I".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn what_meets_on_the_air_is_lost_where_that_is_wanted() {
    for (collisions, shown) in [(false, 2), (true, 1)] {
        let sim = Sim::start(SimConfig { collisions, ..exact() });
        let mut client = Client::ready(&sim).await;
        sim.say("Ben", SayTo::Channel(0), "one");
        sim.say("Mallory", SayTo::Channel(0), "two");
        let mut count = 0;
        while client.packet_within(LONG).await.is_some() {
            count += 1;
        }
        assert_eq!(count, shown, "collisions: {collisions}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_client_may_steal_packets() {
    let sim = Sim::start(SimConfig { stolen: 0.5, ..exact() });
    let mut client = Client::ready(&sim).await;
    for n in 0..30 {
        sim.say("Ben", SayTo::Channel(0), &format!("text {n}"));
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let mut count = 0;
    while client.packet_within(LONG).await.is_some() {
        count += 1;
    }
    assert!((5..=25).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn with_relays_that_lose_a_fifth_most_arrives_and_nothing_twice() {
    let sim = Sim::start(SimConfig { hop_loss: 0.2, duplicates: 0.5, ..exact() });
    sim.set_peer("Ana", |ana| (ana.hops, ana.loss) = (2, 0.2));
    let mut client = Client::ready(&sim).await;
    for n in 0..50u8 {
        client.send_text(ANA, &format!("text {n}")).await;
        tokio::time::sleep(Duration::from_secs(40)).await;
    }
    let heard: Vec<_> = sim.heard("Ana").into_iter().map(|h| h.text).collect();
    let distinct: std::collections::BTreeSet<_> = heard.iter().collect();
    assert_eq!(distinct.len(), heard.len());
    // Lossless it would be 50; the implicit ack of the first relay ends the retries.
    assert!((20..50).contains(&heard.len()), "{}", heard.len());
}
