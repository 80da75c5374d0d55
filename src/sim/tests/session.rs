//! Sessions: handshake, heartbeat, waiting packets, eviction, idle, reboot.

use super::*;

fn capture(name: &str) -> Vec<from_radio::PayloadVariant> {
    let path = format!("{}/tests/captures/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut frames = Vec::new();
    while let [0x94, 0xc3, high, low, tail @ ..] = rest {
        let (payload, after) = tail.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        frames.push(FromRadio::decode(payload).unwrap().payload_variant.unwrap());
        rest = after;
    }
    assert!(rest.is_empty());
    frames
}

/// Which settings variant, without its values.
fn shape(frames: &[from_radio::PayloadVariant]) -> Vec<String> {
    frames
        .iter()
        .map(|f| match f {
            from_radio::PayloadVariant::Config(c) => {
                format!("config {:?}", c.payload_variant.as_ref().map(std::mem::discriminant))
            }
            from_radio::PayloadVariant::ModuleConfig(m) => {
                format!("module {:?}", m.payload_variant.as_ref().map(std::mem::discriminant))
            }
            other => kind(other),
        })
        .collect()
}

/// The captured radio knew two peers.
fn two_peers() -> SimConfig {
    let mut config = exact();
    config.peers.truncate(2);
    config
}

#[tokio::test(start_paused = true)]
async fn the_handshake_has_the_shape_of_the_captured_one() {
    let sim = Sim::start(two_peers());
    for (nonce, name, count) in [
        (987_654_321, "want_config_handshake.bin", 47),
        (device::ONLY_CONFIG, "want_config_only_config.bin", 45),
        (device::ONLY_NODES, "want_config_only_nodes.bin", 4),
    ] {
        let real = capture(name);
        assert_eq!(real.len(), count);
        let mut client = Client::new(&sim);
        let ours = client.want_config(nonce).await;
        assert_eq!(shape(&ours), shape(&real), "{name}");
        assert_eq!(ours.last(), Some(&from_radio::PayloadVariant::ConfigCompleteId(nonce)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_handshake_says_who_we_are() {
    let sim = Sim::start(exact());
    let mut client = Client::new(&sim);
    let frames = client.want_config(7).await;
    let from_radio::PayloadVariant::MyInfo(my_info) = &frames[0] else { panic!("{frames:?}") };
    assert_eq!(my_info.my_node_num, OURS);
    let nodes: Vec<(u32, Vec<u8>)> = frames
        .iter()
        .filter_map(|f| match f {
            from_radio::PayloadVariant::NodeInfo(n) => {
                Some((n.num, n.user.clone().unwrap().public_key))
            }
            _ => None,
        })
        .collect();
    let key = |name| key_for(name).0.to_vec();
    let expected = [
        (OURS, key("Tombolo Node")),
        (ANA, key("Ana")),
        (BEN, key("Ben")),
        (0x0bad_cafe, key("Mallory")),
    ];
    assert_eq!(nodes, expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_comes_before_want_config_but_packets_are_sent() {
    let sim = Sim::start(exact());
    let mut client = Client::new(&sim);
    client.send_text(BEN, "early").await;
    assert_eq!(client.next(Duration::from_secs(90)).await, None);
    let heard = sim.wait_heard("Ben", 1, LONG).await.unwrap();
    assert_eq!(heard[0].text, "early");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_answered_even_before_the_handshake() {
    let sim = Sim::start(exact());
    let mut client = Client::new(&sim);
    client.send(to_radio::PayloadVariant::Heartbeat(Heartbeat::default())).await;
    let status = QueueStatus { res: 0, free: 16, maxlen: 16, mesh_packet_id: 0 };
    assert_eq!(client.next(LONG).await, Some(from_radio::PayloadVariant::QueueStatus(status)));
}

#[tokio::test(start_paused = true)]
async fn what_waited_follows_the_handshake_oldest_first_and_eight_are_kept() {
    for (said, kept) in [(8, 0..8), (9, 1..9)] {
        let sim = Sim::start(exact());
        for n in 0..said {
            sim.say("Ben", SayTo::Direct, &format!("text {n}"));
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let mut client = Client::ready(&sim).await;
        let mut texts = Vec::new();
        while let Some(packet) = client.packet_within(Duration::from_secs(1)).await {
            let data = data(&packet);
            if data.portnum == PortNum::TextMessageApp as i32 {
                texts.push(String::from_utf8(data.payload).unwrap());
            }
        }
        // The radio's own telemetry and the acks of our acks take places too; what is left of the
        // texts are the newest, in order.
        let expected: Vec<String> = kept.map(|n| format!("text {n}")).collect();
        assert!(expected.ends_with(&texts) && texts.len() >= 3, "{texts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn own_telemetry_comes_every_minute() {
    let sim = Sim::start(exact());
    sim.set_channel_utilization(26.5);
    let mut client = Client::ready(&sim).await;
    let mut at = Vec::new();
    while at.len() < 3 {
        if let Some(from_radio::PayloadVariant::Packet(packet)) = client.next(LONG).await {
            assert_eq!((packet.from, packet.to), (OURS, u32::MAX));
            assert_eq!(data(&packet).portnum, PortNum::TelemetryApp as i32);
            let said =
                meshtastic::protobufs::Telemetry::decode(data(&packet).payload.as_slice()).unwrap();
            let Some(meshtastic::protobufs::telemetry::Variant::DeviceMetrics(m)) = said.variant
            else {
                panic!("{said:?}")
            };
            assert_eq!((m.channel_utilization, m.air_util_tx), (Some(26.5), Some(0.0)));
            at.push(sim.now_ms() / 1000);
        }
    }
    assert_eq!(at, [60, 120, 180]);
    assert!(sim.transmissions().is_empty(), "telemetry is for the client, not for the air");
}

#[tokio::test(start_paused = true)]
async fn a_second_client_evicts_the_first() {
    let sim = Sim::start(exact());
    let mut first = Client::ready(&sim).await;
    let mut second = Client::ready(&sim).await;
    assert!(first.ends(Duration::from_millis(100)).await);
    second.send_text(BEN, "mine").await;
    assert_eq!(second.queue_status().await.res, 0);
}

#[tokio::test(start_paused = true)]
async fn fifteen_silent_minutes_end_it_and_any_word_keeps_it() {
    let sim = Sim::start(exact());
    let mut silent = Client::ready(&sim).await;
    assert!(!silent.ends(Duration::from_secs(899)).await);
    assert!(silent.ends(Duration::from_secs(2)).await);

    let mut talking = Client::ready(&sim).await;
    for _ in 0..3 {
        assert!(!talking.ends(Duration::from_secs(890)).await);
        talking.send(to_radio::PayloadVariant::Heartbeat(Heartbeat::default())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn disconnect_closes() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    client.send(to_radio::PayloadVariant::Disconnect(true)).await;
    assert!(client.ends(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_reboot_ends_the_link_and_forgets_what_waited() {
    let sim = Sim::start(exact());
    sim.say("Ben", SayTo::Channel(0), "lost in the reboot");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut client = Client::new(&sim);
    sim.reboot(Duration::from_secs(5));
    assert!(client.ends(Duration::from_millis(100)).await);
    assert!(Client::new(&sim).ends(Duration::from_secs(1)).await, "it is still down");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut client = Client::ready(&sim).await;
    // The first frame after a boot.
    let status = QueueStatus { res: 0, free: 16, maxlen: 16, mesh_packet_id: 0 };
    assert_eq!(client.next(LONG).await, Some(from_radio::PayloadVariant::QueueStatus(status)));
    assert_eq!(client.packet_within(Duration::from_secs(30)).await, None);
}

#[tokio::test(start_paused = true)]
async fn over_a_uart_bridge_a_reboot_shows_only_as_text_and_silence() {
    let sim = Sim::start(SimConfig { reboot_closes: false, ..exact() });
    let mut client = Client::ready(&sim).await;
    client.next(Duration::from_secs(1)).await;
    sim.reboot(Duration::from_secs(2));
    let mut bytes = [0; 64];
    let count = client.stream.read(&mut bytes).await.unwrap();
    assert!(String::from_utf8_lossy(&bytes[..count]).contains("rst:0x1"), "{bytes:?}");
    sim.say("Ben", SayTo::Channel(0), "nobody gets this before a handshake");
    assert!(timeout(LONG, client.stream.read(&mut bytes)).await.is_err());
    client.want_config(8).await;
    let packet = client.packet().await;
    assert_eq!(data(&packet).payload, b"nobody gets this before a handshake");
}

#[tokio::test(start_paused = true)]
async fn broken_bytes_between_frames_leave_the_stream_usable() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let junk = [&[0xc3; 516][..], b"hello\x94\xc3\xff\xff", &[0x94, 0xc3, 0, 2, 0xff, 0xff]];
    client.stream.write_all(&junk.concat()).await.unwrap();
    client.send(to_radio::PayloadVariant::Heartbeat(Heartbeat { nonce: 0 })).await;
    client.next(LONG).await;
    client.send_text(BEN, "still here").await;
    assert_eq!(client.queue_status().await.res, 0);
}

#[tokio::test(start_paused = true)]
async fn debug_text_stands_between_the_frames_never_in_them() {
    let sim = Sim::start(SimConfig { debug_text: true, ..exact() });
    let mut client = Client::ready(&sim).await;
    while client.next(Duration::from_secs(1)).await.is_some() {}
    client.send_text(BEN, "hello").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut bytes = vec![0; 4096];
    let count = client.stream.read(&mut bytes).await.unwrap();
    bytes.truncate(count);
    let mut frames = 0;
    let mut text = Vec::new();
    let mut rest = bytes.as_slice();
    while let [first, tail @ ..] = rest {
        if let [0x94, 0xc3, high, low, tail @ ..] = rest {
            let (payload, after) = tail.split_at(usize::from(u16::from_be_bytes([*high, *low])));
            FromRadio::decode(payload).unwrap();
            frames += 1;
            rest = after;
        } else {
            text.push(*first);
            rest = tail;
        }
    }
    let text = String::from_utf8(text).unwrap();
    assert!(frames >= 2 && text.contains("\x1b[34mDEBUG") && text.contains("Started Tx"), "{text}");
}

#[tokio::test]
async fn a_pseudo_terminal_goes_and_comes_back_under_the_same_name() {
    let sim = Sim::start(exact());
    let path = sim.serve_pty(CancellationToken::new()).unwrap();
    let old = std::fs::read_link(&path).unwrap();
    let soon = Duration::from_secs(30);
    sim.wait_attached(true, soon).await.unwrap();
    sim.drop_link();
    sim.wait_attached(false, soon).await.unwrap();
    sim.wait_attached(true, soon).await.unwrap();
    let new = std::fs::read_link(&path).unwrap();
    assert!(new.exists(), "{old:?} {new:?}");
    // A client opens it by its name and gets an answer.
    let mut port =
        tokio_serial::SerialStream::open(&tokio_serial::new(path.to_string_lossy(), 115_200))
            .unwrap();
    port.write_all(&framed(to_radio::PayloadVariant::WantConfigId(7))).await.unwrap();
    let mut header = [0; 2];
    timeout(soon, port.read_exact(&mut header)).await.unwrap().unwrap();
    assert_eq!(header, [0x94, 0xc3]);
}

#[tokio::test(start_paused = true)]
async fn the_world_ends_with_its_last_handle() {
    let sim = Sim::start(exact());
    let client = Client::ready(&sim).await;
    let world = Arc::downgrade(&sim.shared);
    drop(sim);
    assert!(world.upgrade().is_some(), "a connection still needs it");
    drop(client);
    tokio::time::sleep(LONG).await;
    assert!(world.upgrade().is_none());
}
