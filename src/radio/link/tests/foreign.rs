//! Another radio on the port than the one used last: what is written to it, and how it becomes ours.

use meshtastic::protobufs as radio;
use prost::Message as _;
use radio::from_radio::PayloadVariant as From;
use radio::to_radio::PayloadVariant as To;
use std::sync::Mutex;
use tokio::sync::mpsc;

use super::*;
use crate::radio::known::{KnownRadio, NotAccepted};
use crate::sim::key_for;

/// The radio whose turn it is, behind a line that notes every byte that the client writes.
struct Port {
    plugged: Arc<Mutex<Sim>>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Port {
    fn with(sim: &Sim) -> (Connector, Port) {
        let port = Port { plugged: Arc::new(Mutex::new(sim.clone())), written: Arc::default() };
        let (plugged, written) = (port.plugged.clone(), port.written.clone());
        let connector = Connector::from_fn("the port", move || {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let radio = plugged.lock().unwrap().connect();
            tokio::spawn(carry(theirs, radio, written.clone()));
            ours
        });
        (connector, port)
    }

    fn plug(&self, sim: &Sim) {
        let before = std::mem::replace(&mut *self.plugged.lock().unwrap(), sim.clone());
        before.drop_link();
        self.written.lock().unwrap().clear();
    }

    /// The frames that were written since the last plug.
    fn frames(&self) -> Vec<To> {
        let mut decoder = tombolo_hw::frame::Decoder::new();
        let written = self.written.lock().unwrap().clone();
        let (mut rest, mut frames) = (written.as_slice(), Vec::new());
        while !rest.is_empty() {
            let taken = decoder.feed(rest);
            rest = &rest[taken..];
            let mut accept = |payload: &[u8]| {
                let frame = radio::ToRadio::decode(payload).unwrap();
                frames.extend(frame.payload_variant);
                true
            };
            while decoder.next(&mut accept).is_some() {}
        }
        frames
    }
}

async fn carry(client: DuplexStream, radio: DuplexStream, written: Arc<Mutex<Vec<u8>>>) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_radio, mut to_radio) = tokio::io::split(radio);
    let up = async {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            written.lock().unwrap().extend_from_slice(&buffer[..count]);
            if to_radio.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        let _ = tokio::io::copy(&mut from_radio, &mut to_client).await;
    };
    tokio::select! { () = up => {}, () = down => {} }
}

fn foreign() -> Sim {
    Sim::start(SimConfig {
        num: NodeNum(0x70b0_2002),
        name: "Foreign".to_owned(),
        key: key_for("Foreign"),
        ..SimConfig::default()
    })
}

fn settings() -> RadioSettings {
    RadioSettings { owner: Some("Hilltop".to_owned()), ..RadioSettings::default() }
}

fn rig(connector: Connector, folder: &std::path::Path, settings: RadioSettings) -> Rig {
    let known = Arc::new(KnownRadio::open(folder).unwrap());
    let right_time: system_clock::RightTime = Arc::new(|| Some(1_700_000_000));
    Rig::with(connector, |parts| LinkParts { known, settings, right_time, ..parts })
}

impl Rig {
    async fn refused(&mut self) -> RefusedRadio {
        loop {
            match self.next().await {
                LinkEvent::Refused(radio) => return radio,
                LinkEvent::Down { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn only_asked(frames: &[To]) -> bool {
    !frames.is_empty() && frames.iter().all(|frame| matches!(frame, To::WantConfigId(_)))
}

#[tokio::test(start_paused = true)]
async fn nothing_but_the_question_who_it_is_is_written_to_another_radio_whatever_is_wanted() {
    for apply in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (Sim::start(SimConfig::default()), foreign());
        let (connector, port) = Port::with(&ours);
        let mut link = rig(connector.clone(), folder.path(), settings());
        let session = link.up().await.session;
        other.say("Ana", SayTo::Direct, "!ai hello");
        port.plug(&other);
        let refused = link.refused().await;
        assert_eq!(refused.fingerprint, key_for("Foreign").fingerprint());
        assert_eq!((refused.node, refused.owner.as_str()), (NodeNum(0x70b0_2002), "Foreign"));
        let (node, key) = ana(&SimConfig::default());
        let packet = text_to(node, key, 5, "x");
        assert_eq!(link.link.handle.send(session, packet), Err(NotSent::Down));
        assert_eq!(link.link.handle.add_contact(session, node, "Ana", key), Err(NotSent::Down));
        // For hours: only looked at again, and no message of it is told.
        for _ in 0..100 {
            link.refused().await;
        }
        assert!(only_asked(&port.frames()), "{:?}", port.frames());

        // After a restart of the daemon, and with settings to be written at the start.
        link.cancel.cancel();
        port.plug(&other);
        let settings = RadioSettings { apply, ..settings() };
        let mut link = rig(connector, folder.path(), settings);
        link.refused().await;
        link.refused().await;
        assert!(only_asked(&port.frames()), "{:?}", port.frames());
        // Its own firmware acks by itself.
        assert!(other.transmissions().iter().all(|sent| sent.port == port::ROUTING));
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_radio_is_opened_at_once_and_is_ours_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Sim::start(SimConfig::default()), foreign());
    let (connector, port) = Port::with(&ours);
    let mut link = rig(connector, folder.path(), RadioSettings { apply: true, ..settings() });
    let handle = link.link.handle.clone();
    link.up().await;
    assert!(matches!(handle.accept_radio("x"), Err(NotAccepted::NoneRefused)));
    port.plug(&other);
    let refused = link.refused().await;
    let wrong = handle.accept_radio(&key_for("Tombolo Node").fingerprint()).unwrap_err();
    assert!(wrong.to_string().contains(&refused.fingerprint), "{wrong}");
    assert!(only_asked(&port.frames()));

    let before = tokio::time::Instant::now();
    handle.accept_radio(&refused.fingerprint).unwrap();
    let info = link.up().await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(info.public_key, Some(key_for("Foreign")));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(port.frames().iter().any(|frame| matches!(frame, To::Packet(_))), "its clock is set");
    // And the one before is the other one now.
    port.plug(&ours);
    assert_eq!(link.refused().await.fingerprint, key_for("Tombolo Node").fingerprint());
}

#[tokio::test(start_paused = true)]
async fn settings_are_written_once_the_radio_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Sim::start(SimConfig::default()), foreign());
    let (connector, port) = Port::with(&ours);
    let mut first = rig(connector.clone(), folder.path(), RadioSettings::default());
    first.up().await;
    first.cancel.cancel();
    port.plug(&other);
    let mut link = rig(connector, folder.path(), RadioSettings { apply: true, ..settings() });
    let refused = link.refused().await;
    link.link.handle.accept_radio(&refused.fingerprint).unwrap();
    assert_eq!(link.up().await.owner.long_name, "Hilltop");
}

#[tokio::test(start_paused = true)]
async fn the_right_radio_is_used_again_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Sim::start(SimConfig::default()), foreign());
    let (connector, port) = Port::with(&ours);
    let mut link = rig(connector, folder.path(), RadioSettings::default());
    link.up().await;
    port.plug(&other);
    let refused = link.refused().await;
    port.plug(&ours);
    assert_eq!(link.up().await.public_key, Some(key_for("Tombolo Node")));
    let late = link.link.handle.accept_radio(&refused.fingerprint);
    assert!(matches!(late, Err(NotAccepted::NoneRefused)), "it is gone: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn another_key_on_the_same_stream_ends_the_stream_and_its_messages_are_nobodys() {
    let folder = tempfile::tempdir().unwrap();
    let known = Arc::new(KnownRadio::open(folder.path()).unwrap());
    let (connector, mut radios): (_, mpsc::Receiver<Scripted>) = Scripted::pair();
    let mut link = Rig::with(connector, |parts| LinkParts { known, ..parts });
    let greet = async |radio: &mut Scripted, key: u8| {
        let nonce = radio.asked().await;
        let mine = radio::MyNodeInfo { my_node_num: 77, ..Default::default() };
        radio.say(From::MyInfo(mine)).await;
        radio.say(From::Packet(super::edges::packet(u32::from(key), "for the one who asks"))).await;
        let security =
            radio::config::SecurityConfig { public_key: vec![key; 32], ..Default::default() };
        let security = radio::config::PayloadVariant::Security(security);
        radio.say(From::Config(radio::Config { payload_variant: Some(security) })).await;
        radio.say(From::ConfigCompleteId(nonce)).await;
    };
    let mut radio = radios.recv().await.unwrap();
    greet(&mut radio, 1).await;
    link.up().await;
    assert_eq!(link.text().await.0.id, PacketId(1));
    radio.stream.write_all(b"rst:0x1 (POWERON)\r\n").await.unwrap();
    greet(&mut radio, 2).await;
    link.refused().await;
    assert_eq!(radio.stream.read(&mut [0; 1]).await.unwrap(), 0, "closed, without a goodbye");
    let mut radio = radios.recv().await.unwrap();
    greet(&mut radio, 1).await;
    link.up().await;
    assert_eq!(link.text().await.0.id, PacketId(1), "the one of the other radio is not told");
}

#[tokio::test(start_paused = true)]
async fn a_radio_that_is_gone_is_no_longer_the_one_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let known = Arc::new(KnownRadio::open(folder.path()).unwrap());
    let (ours, other) = (Sim::start(SimConfig::default()), foreign());
    let (connector, port) = Port::with(&ours);
    let mut link = Rig::with(connector, |parts| LinkParts { known: known.clone(), ..parts });
    link.up().await;
    port.plug(&other);
    let refused = link.refused().await;
    other.reboot(Duration::from_secs(3600));
    link.down().await;
    assert!(matches!(known.accept(&refused.fingerprint), Err(NotAccepted::NoneRefused)));
}
