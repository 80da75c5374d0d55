//! Firmware 2.8, where it differs from 2.7.

use super::*;

fn newer() -> SimConfig {
    SimConfig { firmware: "2.8.0.7754068".to_owned(), ..exact() }
}

fn kinds(frames: &[from_radio::PayloadVariant]) -> Vec<String> {
    frames.iter().map(kind).collect()
}

/// All bytes that come within a second.
async fn bytes(client: &mut Client) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(Ok(count @ 1..)) =
        timeout(Duration::from_secs(1), client.stream.read(&mut chunk)).await
    {
        bytes.extend_from_slice(&chunk[..count]);
    }
    bytes
}

#[tokio::test(start_paused = true)]
async fn the_handshake_has_the_regions_presets_behind_the_metadata_and_one_module_more() {
    let old = Client::new(&Sim::start(exact())).want_config(7).await;
    let sim = Sim::start(newer());
    let mut client = Client::new(&sim);
    client.send(to_radio::PayloadVariant::WantConfigId(7)).await;
    let raw = bytes(&mut client).await;
    let presets: [u8; 7] = [0x94, 0xc3, 0, 3, 0x9a, 0x01, 0];
    let at = raw.windows(7).position(|window| window == presets).expect("field 19");
    // Before it the metadata (field 13), behind it the first channel (field 10).
    assert_eq!(raw[at + 7 + 4], 10 << 3 | 2);

    let frames = Client::new(&sim).want_config(8).await;
    let modules = |frames: &[_]| kinds(frames).iter().filter(|k| k.contains("Module")).count();
    assert_eq!((modules(&old), modules(&frames)), (16, 17));
    assert_eq!(frames.len(), old.len() + 1);
}

#[tokio::test(start_paused = true)]
async fn after_the_handshake_old_telemetry_of_others_comes_again_and_looks_received_by_nobody() {
    for (config, again) in [(exact(), 0), (newer(), 1)] {
        let mut config = config;
        config.peers[1].beacon = Some(Duration::from_secs(200)); // Ben
        let sim = Sim::start(config);
        let mut client = Client::ready(&sim).await;
        while client.packet_and_telemetry(LONG * 10).await.from != BEN {}
        let mut client = Client::new(&sim);
        client.want_config(9).await;
        let mut replayed = Vec::new();
        while let Some(from_radio::PayloadVariant::Packet(packet)) =
            client.next(Duration::from_millis(1)).await
        {
            replayed.push(packet);
        }
        let ben: Vec<_> = replayed.iter().filter(|packet| packet.from == BEN).collect();
        assert_eq!(ben.len(), again);
        for packet in ben {
            assert_eq!((packet.rx_rssi, packet.transport_mechanism, packet.hop_start), (0, 0, 0));
        }
        // Not when only the settings were asked for.
        let mut client = Client::new(&sim);
        client.want_config(device::ONLY_CONFIG).await;
        assert_eq!(client.next(Duration::from_millis(1)).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn its_log_text_ends_with_the_clients_first_word() {
    for (config, text) in [(exact(), true), (newer(), false)] {
        let sim = Sim::start(SimConfig { debug_text: true, ..config });
        let mut client = Client::new(&sim);
        sim.say("Ben", SayTo::Channel(0), "before anybody spoke");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(String::from_utf8_lossy(&bytes(&mut client).await).contains("Lora RX"));
        client.send(to_radio::PayloadVariant::Heartbeat(Heartbeat::default())).await;
        sim.say("Ben", SayTo::Channel(0), "after");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let said = String::from_utf8_lossy(&bytes(&mut client).await).into_owned();
        assert_eq!(said.contains("Lora RX"), text, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_signs_broadcasts_while_a_signature_fits_and_never_direct_messages() {
    // 16 of header, 7 of `Data`; 66 of a signature, up to 255 in all.
    for (config, len, bytes) in [
        (exact(), 10, 16 + 6 + 10),
        (newer(), 10, 16 + 6 + 10 + 66),
        (newer(), 166, 255),
        (newer(), 167, 16 + 7 + 167),
    ] {
        let sim = Sim::start(config);
        let mut client = Client::ready(&sim).await;
        client.send_text(u32::MAX, &"x".repeat(len)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(sim.transmissions()[0].bytes, bytes, "{len}");
    }
    let sim = Sim::start(newer());
    let mut client = Client::ready(&sim).await;
    client.send_text(BEN, "0123456789").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(sim.transmissions()[0].bytes, 16 + 12 + 6 + 10);
}

#[tokio::test(start_paused = true)]
async fn a_coding_rate_below_the_presets_is_not_used() {
    // LONG_SLOW is 4/8.
    let airtime = async |mut config: SimConfig| {
        (config.lora.preset, config.lora.coding_rate) = (1, 5);
        let sim = Sim::start(config);
        let mut client = Client::ready(&sim).await;
        client.send_text(BEN, "hello").await;
        tokio::time::sleep(LONG).await;
        sim.transmissions()[0].airtime_us
    };
    assert!(airtime(newer()).await > airtime(exact()).await);
}

#[tokio::test]
async fn on_a_serial_line_2_7_says_that_it_has_restarted_and_2_8_does_not() {
    for (config, told) in [(exact(), true), (newer(), false)] {
        let sim = Sim::start(SimConfig { reboot_closes: false, ..config });
        let path = sim.serve_pty(CancellationToken::new()).unwrap();
        sim.wait_attached(true, Duration::from_secs(30)).await.unwrap();
        let mut port =
            tokio_serial::SerialStream::open(&tokio_serial::new(path.to_string_lossy(), 115_200))
                .unwrap();
        sim.reboot(Duration::from_millis(1));
        let mut said = Vec::new();
        let mut chunk = [0; 256];
        while !said.windows(4).any(|window| window == b"boot") {
            let count = timeout(Duration::from_secs(30), port.read(&mut chunk)).await.unwrap();
            said.extend_from_slice(&chunk[..count.unwrap()]);
        }
        // The frame follows at once, if it does: ask for a heartbeat's answer, which comes behind it.
        port.write_all(&framed(to_radio::PayloadVariant::Heartbeat(Heartbeat::default())))
            .await
            .unwrap();
        let status = [0x94, 0xc3, 0];
        while said.windows(3).filter(|window| *window == status).count() < usize::from(told) + 1 {
            let count = timeout(Duration::from_secs(30), port.read(&mut chunk)).await.unwrap();
            said.extend_from_slice(&chunk[..count.unwrap()]);
        }
        let rebooted = [0x94, 0xc3, 0, 2, 0x40, 1];
        assert_eq!(said.windows(6).any(|window| window == rebooted), told, "{said:02x?}");
    }
}
