//! Relays, ours and others'; the radio's own counters; distance.

use super::*;
use meshtastic::protobufs::{LocalStats, Telemetry, telemetry};

/// The next `LocalStats`. Each packet is followed by a heartbeat, for the radio ends the session of a
/// client that is silent for as long as it waits itself between two of these.
async fn stats(client: &mut Client) -> LocalStats {
    for _ in 0..60 {
        let packet = client.packet_and_telemetry(LONG).await;
        client.send(to_radio::PayloadVariant::Heartbeat(Heartbeat::default())).await;
        if packet.from == OURS && data(&packet).portnum == PortNum::TelemetryApp as i32 {
            let said = Telemetry::decode(data(&packet).payload.as_slice()).unwrap();
            if let Some(telemetry::Variant::LocalStats(stats)) = said.variant {
                return stats;
            }
        }
    }
    panic!("no LocalStats in an hour")
}

#[tokio::test(start_paused = true)]
async fn own_counters_come_every_quarter_of_an_hour_and_a_reboot_begins_anew() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    client.send_text(BEN, "counted").await;
    let told = stats(&mut client).await;
    assert_eq!(sim.now_ms() / 1000, 900);
    // The text and the ack of Ben's ack; Ben's ack.
    assert_eq!((told.num_packets_tx, told.num_packets_rx, told.num_tx_relay), (2, 1, 0));
    assert!(told.air_util_tx > 0.0 && told.uptime_seconds == 900, "{told:?}");
    sim.reboot(Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut client = Client::ready(&sim).await;
    assert_eq!(stats(&mut client).await.num_packets_tx, 0);
}

#[tokio::test(start_paused = true)]
async fn a_radio_that_is_not_mute_passes_on_what_others_say_and_pays_for_it() {
    use meshtastic::protobufs::config::device_config::Role;
    for (role, passed_on) in [(Role::ClientMute, 0), (Role::Client, 1)] {
        let sim = Sim::start(SimConfig { role: role as i32, ..exact() });
        let mut client = Client::ready(&sim).await;
        sim.say("Ben", SayTo::Channel(0), "good morning");
        // For us, and so not passed on.
        sim.say("Ben", SayTo::Direct, "only you");
        tokio::time::sleep(LONG).await;
        let others: Vec<_> = sim.transmissions().into_iter().filter(|t| t.from.0 != OURS).collect();
        assert_eq!(others.len(), passed_on, "{role:?}");
        assert!(others.iter().all(|t| t.from.0 == BEN));
        let told = stats(&mut client).await;
        assert_eq!(told.num_tx_relay as usize, passed_on);
        assert!(sim.heard("Mallory").is_empty(), "what Ben says is not ours");
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_hears_nothing_of_the_next_one_repeats_once_where_it_knows_the_way() {
    for (routes, transmissions) in [(false, 1), (true, 2)] {
        let sim = Sim::start(SimConfig { routes, ..exact() });
        sim.set_peer("Ana", |ana| ana.reachable = false); // behind one relay
        let mut client = Client::ready(&sim).await;
        client.send_text(ANA, "hello").await;
        tokio::time::sleep(LONG).await;
        assert_eq!(sim.relayed().count, transmissions, "routes: {routes}");
        assert_eq!(sim.transmissions().len(), 1, "our own radio has heard the relay");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_again_over_a_relay_is_shown_and_acked_once() {
    let sim = Sim::start(SimConfig { duplicates: 1.0, ..exact() });
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(ANA, "hello").await;
    let mut acks = 0;
    while let Some((from, about, _)) = client.verdict_within(LONG).await {
        acks += usize::from((from, about) == (ANA, id));
    }
    assert_eq!((sim.heard("Ana").len(), acks), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_beacon_is_heard_by_the_client_at_its_times() {
    let mut config = exact();
    config.peers[1].beacon = Some(Duration::from_secs(200)); // Ben
    let sim = Sim::start(config);
    let mut client = Client::ready(&sim).await;
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let packet = client.packet_and_telemetry(LONG).await;
        if packet.from == BEN {
            assert_eq!(data(&packet).portnum, PortNum::TelemetryApp as i32);
            heard.push(sim.now_ms() / 1000);
        }
    }
    assert!(heard.windows(2).all(|pair| (195..=205).contains(&(pair[1] - pair[0]))), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn the_texts_at_the_door_are_on_record_with_what_became_of_them() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let first = client.send_text(BEN, "one").await;
    tokio::time::sleep(Duration::from_millis(1_999)).await;
    let early = client.send_text(BEN, "two").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let late = client.send_text(BEN, "three").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let door: Vec<_> = sim.door().iter().map(|text| (text.id.0, text.taken)).collect();
    assert_eq!(door, [(first, true), (early, false), (late, true)]);
}
