//! What the radio does with a packet of its client before anything goes on air.

use super::*;
use meshtastic::protobufs::ClientNotification;

/// The answer to one packet: what `QueueStatus` said, and the verdict that came within 2 s.
async fn answer(
    client: &mut Client,
    packet: MeshPacket,
) -> (Option<i32>, Option<(u32, routing::Error)>) {
    while client.next(Duration::from_millis(50)).await.is_some() {}
    let id = client.send_packet(packet).await;
    let mut status = None;
    let mut verdict = None;
    // Long enough for the radio's own word, too short for anything from the air.
    while let Some(frame) = client.next(Duration::from_millis(300)).await {
        match frame {
            from_radio::PayloadVariant::QueueStatus(s) if s.mesh_packet_id == id => {
                status = Some(s.res);
            }
            from_radio::PayloadVariant::Packet(p) if data(&p).request_id == id => {
                let said = Routing::decode(data(&p).payload.as_slice()).unwrap();
                let Some(routing::Variant::ErrorReason(reason)) = said.variant else { panic!() };
                assert_eq!((p.to, p.priority), (OURS, 120));
                verdict = Some((p.from, routing::Error::try_from(reason).unwrap()));
            }
            _ => {}
        }
    }
    (status, verdict)
}

fn refused(res: i32, why: routing::Error) -> (Option<i32>, Option<(u32, routing::Error)>) {
    (Some(res), Some((OURS, why)))
}

#[tokio::test(start_paused = true)]
async fn the_longest_texts_pass_and_one_byte_more_does_not() {
    let reply = |mut packet: MeshPacket| {
        if let Some(mesh_packet::PayloadVariant::Decoded(data)) = &mut packet.payload_variant {
            data.reply_id = 77;
        }
        packet
    };
    for (to, with_reply, most) in
        [(u32::MAX, false, 232), (u32::MAX, true, 227), (BEN, false, 220), (BEN, true, 215)]
    {
        let sim = Sim::start(exact());
        let mut client = Client::ready(&sim).await;
        for (len, expected) in [
            (most, (Some(0), None)),
            (most + 1, refused(7, routing::Error::TooLarge)),
            (234, refused(7, routing::Error::TooLarge)),
            (235, (None, None)),
            (240, (None, None)),
        ] {
            let text = vec![b'x'; len];
            let packet = client.text(to, &text);
            let packet = if with_reply { reply(packet) } else { packet };
            assert_eq!(answer(&mut client, packet).await, expected, "{len} bytes to {to:08x}");
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(answer_to_heartbeat(&mut client).await, 0, "the connection stays");
    }
}

async fn answer_to_heartbeat(client: &mut Client) -> u32 {
    client.send(to_radio::PayloadVariant::Heartbeat(Heartbeat::default())).await;
    loop {
        if let Some(from_radio::PayloadVariant::QueueStatus(s)) = client.next(LONG).await
            && s.mesh_packet_id == 0
        {
            return s.mesh_packet_id;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_text_passes() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let packet = client.text(BEN, b"");
    assert_eq!(answer(&mut client, packet).await.0, Some(0));
    assert_eq!(sim.wait_heard("Ben", 1, LONG).await.unwrap()[0].text, "");
}

#[tokio::test(start_paused = true)]
async fn texts_two_seconds_apart_pass_and_closer_ones_look_accepted_but_are_not() {
    for (gap_ms, passes) in [(2000, true), (1999, false)] {
        let sim = Sim::start(exact());
        let mut client = Client::ready(&sim).await;
        client.send_text(BEN, "first").await;
        tokio::time::sleep(Duration::from_millis(gap_ms)).await;
        let second = client.send_text(BEN, "second").await;
        loop {
            let status = client.queue_status().await;
            assert_eq!(status.res, 0);
            if status.mesh_packet_id == second {
                break;
            }
        }
        tokio::time::sleep(LONG).await;
        assert_eq!(sim.heard("Ben").len(), if passes { 2 } else { 1 }, "{gap_ms} ms");
        let mut refusals = 0;
        while let Some((from, about, reason)) = client.verdict_within(Duration::from_secs(1)).await
        {
            if reason == routing::Error::RateLimitExceeded {
                assert_eq!((from, about), (OURS, second));
                refusals += 1;
            }
        }
        assert_eq!(refusals, if passes { 0 } else { 1 }, "{gap_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_texts_at_once_one_goes_and_the_small_queues_lose_most_answers() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    while client.next(Duration::from_secs(1)).await.is_some() {} // the status of the boot
    let packets = (0..10).map(|n| client.text(u32::MAX, format!("burst {n}").as_bytes())).collect();
    client.send_at_once(packets).await;
    let (mut statuses, mut refusals) = (0, 0);
    while let Some(frame) = client.next(Duration::from_secs(2)).await {
        match frame {
            from_radio::PayloadVariant::QueueStatus(s) => {
                assert_eq!((s.res, s.free, s.maxlen), (0, 15, 16));
                statuses += 1;
            }
            from_radio::PayloadVariant::Packet(p) => {
                assert_eq!((p.from, p.to), (OURS, OURS));
                refusals += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    // As captured: three QueueStatus, four refusals.
    assert_eq!((statuses, refusals), (3, 4));
    assert_eq!(sim.transmissions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_from_the_refusal_goes_over_the_air_to_nobody() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    for _ in 0..2 {
        let packet = MeshPacket { from: 0, want_ack: false, ..client.text(BEN, b"hello") };
        client.send_packet(packet).await;
    }
    assert!(client.verdict_within(Duration::from_secs(10)).await.is_none());
    let sent: Vec<_> = sim.transmissions().iter().map(|t| (t.to.0, t.port, t.bytes)).collect();
    assert!(sent.contains(&(0, PortNum::RoutingApp as i32, 29)), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn with_the_measured_jitter_2_05_s_is_refused_now_and_then_and_2_3_s_never() {
    for (gap_ms, all) in [(2300, true), (2050, false)] {
        let sim = Sim::start(SimConfig::default());
        let mut client = Client::ready(&sim).await;
        for n in 0..10 {
            let packet = MeshPacket { want_ack: false, ..client.text(BEN, &[b'a' + n]) };
            client.send_packet(packet).await;
            tokio::time::sleep(Duration::from_millis(gap_ms)).await;
        }
        tokio::time::sleep(LONG).await;
        assert_eq!(sim.heard("Ben").len() == 10, all, "{gap_ms} ms");
        assert!(sim.heard("Ben").len() >= 5);
    }
}

#[tokio::test(start_paused = true)]
async fn only_texts_are_paced_so_tightly_and_the_queue_of_16_overflows() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let packets: Vec<_> = (0..30u8)
        .map(|n| {
            let mut packet = client.text(u32::MAX, &[n; 20]);
            if let Some(mesh_packet::PayloadVariant::Decoded(data)) = &mut packet.payload_variant {
                data.portnum = PortNum::PrivateApp as i32;
            }
            packet
        })
        .collect();
    let ids: Vec<u32> = packets.iter().map(|p| p.id).collect();
    client.send_at_once(packets).await;
    let last = loop {
        let status = client.queue_status().await;
        if status.mesh_packet_id == ids[29] {
            break status;
        }
    };
    assert_eq!((last.res, last.free), (32, 0));
    tokio::time::sleep(LONG).await;
    let sent: Vec<u32> = sim.transmissions().iter().map(|t| t.id.0).collect();
    assert_eq!(sent, ids[..16]);
}

#[tokio::test(start_paused = true)]
async fn the_same_id_is_ignored_on_one_connection_for_twenty_packets() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let position = |id| MeshPacket {
        from: OURS,
        to: u32::MAX,
        id,
        payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
            portnum: PortNum::PrivateApp as i32,
            ..Data::default()
        })),
        ..MeshPacket::default()
    };
    for id in 1..=20 {
        client.send_packet(position(id)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(answer(&mut client, position(1)).await, (None, None), "still among the last 20");
    assert_eq!(answer(&mut client, position(21)).await.0, Some(0));
    assert_eq!(answer(&mut client, position(1)).await.0, Some(0), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn on_a_new_connection_the_same_id_is_sent_again_and_the_peer_drops_it() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let packet = client.text(BEN, b"once");
    client.send_packet(packet.clone()).await;
    sim.wait_heard("Ben", 1, LONG).await.unwrap();
    sim.drop_link();
    let mut client = Client::ready(&sim).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    client.send_packet(packet.clone()).await;
    tokio::time::sleep(LONG).await;
    let sent = sim.transmissions().iter().filter(|t| t.id.0 == packet.id).count();
    assert_eq!((sent, sim.heard("Ben").len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn keys_are_checked_before_sending() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    sim.learn_key(NodeNum(0x1234_5678), None);
    let key = key_for("Ben").0.to_vec();
    let cases = [
        (
            "no such node",
            0x0102_0304,
            false,
            vec![],
            refused(39, routing::Error::PkiSendFailPublicKey),
        ),
        ("no key", 0x1234_5678, false, vec![], refused(39, routing::Error::PkiSendFailPublicKey)),
        ("on a broadcast", u32::MAX, true, vec![], refused(34, routing::Error::PkiFailed)),
        ("another key", BEN, true, vec![9; 32], refused(34, routing::Error::PkiFailed)),
        ("the right key", BEN, true, key, (Some(0), None)),
    ];
    for (name, to, pki_encrypted, public_key, expected) in cases {
        let packet = MeshPacket { pki_encrypted, public_key, ..client.text(to, b"hello") };
        assert_eq!(answer(&mut client, packet).await, expected, "{name}");
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(sim.wait_heard("Ben", 1, LONG).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_channel_is_refused() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    for (channel, expected) in [
        (1, (Some(0), None)),
        (2, refused(6, routing::Error::NoChannel)),
        (8, refused(6, routing::Error::NoChannel)),
    ] {
        let packet = MeshPacket { channel, ..client.text(u32::MAX, b"hello") };
        assert_eq!(answer(&mut client, packet).await, expected, "channel {channel}");
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let heard = sim.wait_heard("Ana", 1, LONG).await.unwrap();
    assert_eq!((heard[0].channel, heard[0].pki), (Some(1), false));
}

#[tokio::test(start_paused = true)]
async fn without_a_region_or_a_transmitter_nothing_is_sent() {
    let mut unset = exact();
    unset.lora.region = 0;
    let mut off = exact();
    off.lora.tx_enabled = false;
    for config in [unset, off] {
        let sim = Sim::start(config);
        let mut client = Client::ready(&sim).await;
        let packet = client.text(u32::MAX, b"to nobody");
        assert_eq!(answer(&mut client, packet).await, (Some(34), None));
        tokio::time::sleep(Duration::from_secs(3)).await;
        // Only one that wants an ack is told, when its tries are over.
        let id = client.send_text(BEN, "to nobody").await;
        let begun = sim.now_ms();
        assert_eq!(client.verdict().await, (OURS, id, routing::Error::MaxRetransmit));
        let took = (sim.now_ms() - begun) / 1000;
        assert!((20..=24).contains(&took), "{took} s");
        assert!(sim.transmissions().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_duty_cycle_refuses_the_41st_long_frame_and_says_for_how_long() {
    let mut config = exact();
    config.lora.preset = tombolo_hw::preset::Preset::LongSlow.code();
    config.lora.coding_rate = 5;
    let sim = Sim::start(config);
    let mut client = Client::ready(&sim).await;
    let mut accepted = 0;
    // Measured with frames of 9.0 s: 360 s are 40 of them, and the limit is looked at before.
    let (status, notice, verdict) = loop {
        let packet = client.text(u32::MAX, &[b'x'; 224]);
        let id = client.send_packet(packet).await;
        let status = client.queue_status().await;
        if status.res == 0 {
            accepted += 1;
            // Relays repeat it, and our radio waits for them.
            tokio::time::sleep(Duration::from_secs(30)).await;
            continue;
        }
        let Some(from_radio::PayloadVariant::ClientNotification(notice)) = client.next(LONG).await
        else {
            panic!("no notification")
        };
        assert_eq!(status.mesh_packet_id, id);
        break (status, notice, client.verdict().await);
    };
    let airtime: u64 = sim.transmissions().iter().map(|t| u64::from(t.airtime_us)).sum();
    let each = u64::from(sim.transmissions()[0].airtime_us);
    assert!(airtime > 360_000_000 && airtime - each <= 360_000_000, "{airtime}");
    assert_eq!(accepted as u64, 360_000_000 / each + 1);
    assert_eq!(status.res, 9);
    let ClientNotification { reply_id, message, .. } = notice;
    assert_eq!(reply_id, Some(status.mesh_packet_id));
    let minutes = message
        .strip_prefix("Duty cycle limit exceeded. You can send again in ")
        .and_then(|rest| rest.strip_suffix(" mins"))
        .and_then(|n| n.parse::<u64>().ok());
    let elapsed = sim.now_ms() / 60_000;
    assert!(minutes.is_some_and(|m| m.abs_diff(60 - elapsed) <= 2), "{message} after {elapsed}");
    assert_eq!(verdict, (OURS, status.mesh_packet_id, routing::Error::DutyCycleLimit));
}

#[tokio::test(start_paused = true)]
async fn the_duty_override_lifts_the_refusal() {
    let mut config = exact();
    config.lora.override_duty_cycle = true;
    let sim = Sim::start(config);
    sim.set_air_util(10.1);
    let mut client = Client::ready(&sim).await;
    let packet = client.text(u32::MAX, b"hello");
    assert_eq!(answer(&mut client, packet).await, (Some(0), None));

    for (percent, expected) in
        [(10.0, (Some(0), None)), (10.1, refused(9, routing::Error::DutyCycleLimit))]
    {
        let sim = Sim::start(exact());
        sim.set_air_util(percent);
        let mut client = Client::ready(&sim).await;
        let packet = client.text(u32::MAX, b"hello");
        assert_eq!(answer(&mut client, packet).await, expected, "{percent} %");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unset_hop_limit_means_no_hop_unless_an_ack_is_wanted() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    // Ana is one hop away.
    let packet = MeshPacket { hop_limit: 0, want_ack: false, ..client.text(ANA, b"too far") };
    client.send_packet(packet).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let packet = MeshPacket { hop_limit: 0, want_ack: true, ..client.text(ANA, b"in reach") };
    client.send_packet(packet).await;
    tokio::time::sleep(LONG).await;
    let texts: Vec<_> = sim.heard("Ana").into_iter().map(|h| h.text).collect();
    assert_eq!(texts, ["in reach"]);
}

#[tokio::test(start_paused = true)]
async fn a_text_to_our_own_node_is_acked_and_never_shown() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let packet = client.text(OURS, b"me");
    assert_eq!(answer(&mut client, packet).await, (Some(0), Some((OURS, routing::Error::None))));
    assert!(sim.transmissions().is_empty());
}
