//! Which radio is on the port, and which keys it is told.

use super::bench::{ANA, BEN, Bench, ME, radio_info, trusted};
use crate::config::{Contact, MeshConfig};
use crate::mesh::packets::{KEY_A, KEY_B, text_packet};
use crate::node::{NodeNum, PublicKey};
use crate::radio::known::{NotAccepted, RefusedRadio};
use crate::radio::{Data, Inbound, LinkEvent, NodeInfo, Payload, port, routing};

fn refused() -> RefusedRadio {
    RefusedRadio {
        fingerprint: "0000 1111 2222 3333".to_owned(),
        owner: "Foreign".to_owned(),
        node: NodeNum(0x70b0_2002),
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_radio_is_shown_until_it_is_gone_or_another_is_up() {
    let bench = Bench::start(trusted()).await;
    for end in
        [LinkEvent::Down { reason: "unplugged".to_owned() }, LinkEvent::Up(radio_info().into())]
    {
        bench.tell(LinkEvent::Refused(refused())).await;
        bench.settle().await;
        let status = bench.handle.status().await.unwrap();
        assert!(!status.connected);
        assert_eq!(status.refused_radio, Some(refused()));
        assert_eq!(status.my_node, Some(ME), "what was known of ours is still shown");
        let warned = status.warnings.iter().filter(|w| w.contains("0000 1111 2222 3333"));
        assert_eq!(warned.count(), 1, "{:?}", status.warnings);
        assert!(status.link.contains("another radio"), "{}", status.link);
        bench.tell(end).await;
        bench.settle().await;
        let status = bench.handle.status().await.unwrap();
        assert_eq!((status.refused_radio, status.warnings), (None, vec![]));
    }
    let accepted = bench.handle.accept_radio("0000 1111 2222 3333".to_owned()).await.unwrap();
    assert!(matches!(accepted, Err(NotAccepted::NoneRefused)));
}

#[tokio::test(start_paused = true)]
async fn many_contacts_are_told_in_batches_and_none_twice() {
    let contact = |number: u32| Contact {
        id: NodeNum(0x1000 + number),
        key: PublicKey::from_slice(&[u8::try_from(number).unwrap(); 32]),
        name: None,
        grants: None,
    };
    let contacts: Vec<Contact> = (1..=70).map(contact).collect();
    let bench = Bench::start(MeshConfig { allowed_contacts: contacts.clone(), ..trusted() }).await;
    let told = || bench.radio.contacts.lock().unwrap().clone();
    bench.settle().await;
    assert_eq!(told().len(), 32);
    bench.pass(26).await;
    assert_eq!(told().len(), 32);
    bench.pass(2).await;
    assert_eq!(told().len(), 64);
    bench.pass(3600).await;
    let all: Vec<(NodeNum, PublicKey)> =
        contacts.iter().map(|contact| (contact.id, contact.key.unwrap())).collect();
    assert_eq!(told(), all);
    // The next handshake shows what the radio holds: nothing of that is told again.
    let mut info = radio_info();
    info.nodes = all[1..]
        .iter()
        .map(|(num, key)| NodeInfo { num: num.0, public_key: Some(*key), ..NodeInfo::default() })
        .collect();
    bench.up(info).await;
    bench.pass(3600).await;
    assert_eq!(told()[70..], all[..1]);
}

#[tokio::test(start_paused = true)]
async fn an_announcement_does_not_make_the_radio_forget_a_key() {
    let bench = Bench::start(trusted()).await;
    bench.settle().await;
    let announced = NodeInfo { num: ANA.0, long_name: "Ana".to_owned(), ..NodeInfo::default() };
    bench.tell(LinkEvent::Node(announced)).await;
    bench.ana(1, "!ai ping").await;
    bench.settle().await;
    let nodes = bench.handle.nodes().await.unwrap();
    let ana = nodes.iter().find(|node| node.node == ANA).unwrap();
    assert_eq!(ana.fingerprint, Some(KEY_A.fingerprint()));
    assert!(bench.radio.contacts.lock().unwrap().is_empty());
}

/// A refusal of the last packet that left, as it came from there.
async fn refuse(bench: &Bench, from: NodeNum, by_lora: bool) {
    let refusal = Data {
        port: port::ROUTING,
        request_id: bench.sent().last().unwrap().id,
        routing_error: Some(routing::PKI_SEND_FAIL_PUBLIC_KEY),
        ..Data::default()
    };
    let packet = text_packet(from, ME, "");
    let payload = Payload::Data(refusal);
    let (transport, rx_rssi) = if by_lora { (1, -45) } else { (0, 0) };
    bench.hear(Inbound { payload, transport, rx_rssi, ..packet }).await;
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_radio_has_lost_is_told_again_once_and_the_part_has_one_clear_end() {
    let bench = Bench::start(trusted()).await;
    bench.settle().await;
    for round in 1..=3 {
        bench.ben(round, "!ai ping").await;
        let sent = usize::try_from(round).unwrap();
        bench.until("the answer", |b| b.sent().len() == sent).await;
        refuse(&bench, ME, false).await;
        assert_eq!(bench.sent().len(), sent, "no retry");
        assert_eq!(*bench.radio.contacts.lock().unwrap(), [(BEN, KEY_B)], "round {round}");
        bench.pass(1200).await; // the same words again count as a question of their own
    }
    // A refusal from the air, whoever it claims to be from, tells nothing of our radio.
    for from in [BEN, ME] {
        let bench = Bench::start(trusted()).await;
        bench.ben(1, "!ai ping").await;
        bench.until("the answer", |b| b.sent().len() == 1).await;
        refuse(&bench, from, true).await;
        assert!(bench.radio.contacts.lock().unwrap().is_empty());
    }
}
