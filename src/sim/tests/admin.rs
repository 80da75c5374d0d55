//! Settings, clock, contacts.

use super::*;
use meshtastic::protobufs::{
    AdminMessage, SharedContact, admin_message::PayloadVariant as Admin, config,
};

impl Client {
    async fn admin(&mut self, request: Admin) -> u32 {
        let message = AdminMessage { payload_variant: Some(request), ..AdminMessage::default() };
        let packet = MeshPacket {
            want_ack: true,
            payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
                portnum: PortNum::AdminApp as i32,
                payload: message.encode_to_vec(),
                want_response: true,
                ..Data::default()
            })),
            ..self.text(OURS, b"")
        };
        self.send_packet(packet).await
    }

    async fn admin_answer(&mut self, request: Admin) -> Admin {
        let id = self.admin(request).await;
        let packet = self.packet().await;
        assert_eq!(data(&packet).request_id, id);
        assert_eq!(data(&packet).portnum, PortNum::AdminApp as i32);
        AdminMessage::decode(data(&packet).payload.as_slice()).unwrap().payload_variant.unwrap()
    }

    async fn admin_done(&mut self, request: Admin) {
        let id = self.admin(request).await;
        assert_eq!(self.verdict().await, (OURS, id, routing::Error::None));
    }
}

fn lora(sim: &Sim) -> config::LoRaConfig {
    sim.shared.with(|w| w.device.lora())
}

fn set_lora(lora: config::LoRaConfig) -> Admin {
    Admin::SetConfig(meshtastic::protobufs::Config {
        payload_variant: Some(config::PayloadVariant::Lora(lora)),
    })
}

#[tokio::test(start_paused = true)]
async fn getters_answer_with_what_the_handshake_said() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    let Admin::GetOwnerResponse(owner) = client.admin_answer(Admin::GetOwnerRequest(true)).await
    else {
        panic!()
    };
    assert_eq!((owner.id.as_str(), owner.long_name.as_str()), ("!70b01001", "Tombolo Node"));
    let Admin::GetChannelResponse(channel) = client.admin_answer(Admin::GetChannelRequest(2)).await
    else {
        panic!()
    };
    assert_eq!((channel.index, channel.settings.unwrap().name.as_str()), (1, "bots"));
    let Admin::GetConfigResponse(config) = client.admin_answer(Admin::GetConfigRequest(5)).await
    else {
        panic!()
    };
    assert_eq!(config.payload_variant, Some(config::PayloadVariant::Lora(lora(&sim))));
    let Admin::GetDeviceMetadataResponse(metadata) =
        client.admin_answer(Admin::GetDeviceMetadataRequest(true)).await
    else {
        panic!()
    };
    assert_eq!(metadata.firmware_version, "2.7.26.54e0d8d");
    let id = client.admin(Admin::GetChannelRequest(9)).await;
    assert_eq!(client.verdict().await, (OURS, id, routing::Error::BadRequest));
}

#[tokio::test(start_paused = true)]
async fn times_are_zero_until_a_client_sets_the_clock() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    sim.say("Ben", SayTo::Channel(0), "before");
    assert_eq!(client.packet().await.rx_time, 0);
    client.admin_done(Admin::SetTimeOnly(1_800_000_000)).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    sim.say("Ben", SayTo::Channel(0), "after");
    let at = client.packet().await.rx_time;
    assert!((1_800_000_100..1_800_000_110).contains(&at), "{at}");
}

#[tokio::test(start_paused = true)]
async fn a_contact_given_by_the_client_can_be_written_to() {
    let sim = Sim::start(exact());
    sim.add_peer(SimPeer::new("Newcomer", NodeNum(0x5151_5151)));
    let mut client = Client::ready(&sim).await;
    let id = client.send_text(0x5151_5151, "hello").await;
    assert_eq!(client.verdict().await, (OURS, id, routing::Error::PkiSendFailPublicKey));
    let key = key_for("Newcomer");
    client
        .admin_done(Admin::AddContact(SharedContact {
            node_num: 0x5151_5151,
            user: Some(device::user(0x5151_5151, "Newcomer", "NEW", Some(key))),
            ..SharedContact::default()
        }))
        .await;
    assert_eq!(sim.known_key(NodeNum(0x5151_5151)), Some(key));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let id = client.send_text(0x5151_5151, "hello").await;
    assert_eq!(client.verdict().await, (0x5151_5151, id, routing::Error::None));
}

#[tokio::test(start_paused = true)]
async fn a_modem_setting_reboots_after_seven_seconds_and_a_hop_limit_does_not() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    client.admin_done(set_lora(config::LoRaConfig { hop_limit: 5, ..lora(&sim) })).await;
    assert!(!client.ends(Duration::from_secs(60)).await);
    let mut client = Client::ready(&sim).await;
    client.admin_done(set_lora(config::LoRaConfig { modem_preset: 4, ..lora(&sim) })).await;
    assert!(!client.ends(Duration::from_millis(6900)).await);
    assert!(client.ends(Duration::from_millis(200)).await);
    tokio::time::sleep(Duration::from_secs(4)).await;
    Client::ready(&sim).await;
    assert_eq!((lora(&sim).modem_preset, lora(&sim).hop_limit), (4, 5), "kept over the reboot");
}

#[tokio::test(start_paused = true)]
async fn between_begin_and_commit_nothing_reboots_and_the_commit_does() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    client.admin_done(Admin::BeginEditSettings(true)).await;
    client.admin_done(set_lora(config::LoRaConfig { region: 1, ..lora(&sim) })).await;
    let mut owner = device::user(OURS, "Hilltop", "HILL", None);
    owner.public_key.clear();
    client.admin_done(Admin::SetOwner(owner)).await;
    assert!(!client.ends(Duration::from_secs(60)).await);
    let mut client = Client::ready(&sim).await;
    client.admin_done(Admin::CommitEditSettings(true)).await;
    assert!(client.ends(Duration::from_secs(8)).await);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut client = Client::ready(&sim).await;
    let Admin::GetOwnerResponse(owner) = client.admin_answer(Admin::GetOwnerRequest(true)).await
    else {
        panic!()
    };
    assert_eq!((owner.long_name.as_str(), lora(&sim).region), ("Hilltop", 1));
    assert_eq!(owner.public_key, key_for("Tombolo Node").0);
}

#[tokio::test(start_paused = true)]
async fn reboot_seconds_is_acked_and_then_the_link_ends() {
    let sim = Sim::start(exact());
    let mut client = Client::ready(&sim).await;
    client.admin_done(Admin::RebootSeconds(2)).await;
    let begun = sim.now_ms();
    assert!(client.ends(Duration::from_secs(5)).await);
    let took = sim.now_ms() - begun;
    assert!((1900..=2010).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn a_node_learnt_in_the_last_minute_is_forgotten_by_a_reboot() {
    for (seconds, kept) in [(30, false), (70, true)] {
        let sim = Sim::start(exact());
        tokio::time::sleep(Duration::from_secs(5)).await;
        sim.learn_key(NodeNum(77), Some(key_for("Late")));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        sim.reboot(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(sim.known_key(NodeNum(77)).is_some(), kept, "{seconds} s");
    }
}
