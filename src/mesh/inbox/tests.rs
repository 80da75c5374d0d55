//! What of a packet counts as a text, and what is left of its characters.

use proptest::prelude::*;

use super::*;
use crate::mesh::packets::{KEY_A, text_packet};

const ME: NodeNum = NodeNum(0x70b0_1001);
const ANA: NodeNum = NodeNum(0xa1b2_c3d4);

fn read_it(packet: &Inbound) -> Option<Result<Letter, (Ignored, String)>> {
    let radio = Receiver {
        my_node: ME,
        tags_transport: true,
        licensed: false,
        channel_name: &|index| format!("ch{index}"),
        key_of: &|_| Some(KEY_A),
    };
    read(packet, &radio)
}

fn reason(packet: &Inbound) -> Option<Ignored> {
    read_it(packet)?.err().map(|(reason, _)| reason)
}

#[test]
fn only_texts_to_us_or_to_everybody_are_read() {
    let good = text_packet(ANA, ME, "!ai hi");
    let letter = read_it(&good).unwrap().unwrap();
    assert_eq!((letter.text.as_str(), letter.envelope.channel), ("!ai hi", None));

    let broadcast = Inbound { to: NodeNum::BROADCAST, channel: 1, ..good.clone() };
    let letter = read_it(&broadcast).unwrap().unwrap();
    assert_eq!(letter.envelope.channel, Some(ChannelRef { index: 1, name: "ch1".to_owned() }));

    let elsewhere = Inbound { to: NodeNum(0xb0b0_b0b2), ..good.clone() };
    assert_eq!(reason(&elsewhere), Some(Ignored::NotForUs));
    for from in [ME, NodeNum(0), NodeNum(3), NodeNum::BROADCAST] {
        let spoofed = Inbound { from, ..good.clone() };
        assert_eq!(reason(&spoofed), Some(Ignored::SpoofedSender), "{from}");
    }
    assert!(read_it(&Inbound { from: NodeNum(4), ..good.clone() }).unwrap().is_ok());
    assert_eq!(reason(&text_packet(ANA, ME, " \u{200b}\n")), Some(Ignored::Empty));

    for payload in [
        Payload::Encrypted { len: 20 },
        Payload::Empty,
        Payload::Data(Data { port: 256, bytes: b"!ai hi".to_vec(), ..Data::default() }),
    ] {
        assert!(read_it(&Inbound { payload, ..good.clone() }).is_none());
    }
    let mut reaction = good;
    if let Payload::Data(data) = &mut reaction.payload {
        data.emoji = 1;
    }
    assert_eq!(reason(&reaction), Some(Ignored::Reaction));
}

#[test]
fn hops_are_told_only_where_the_packet_says() {
    let packet = text_packet(ANA, ME, "x");
    for (start, limit, hops) in
        [(3, 3, Some(0)), (3, 1, Some(2)), (0, 0, None), (1, 3, None), (u32::MAX, 1, None)]
    {
        let packet = Inbound { hop_start: start, hop_limit: limit, ..packet.clone() };
        assert_eq!(Signal::of(&packet).hops, hops, "{start} {limit}");
    }
}

#[test]
fn a_text_loses_what_cannot_be_seen() {
    for (bytes, text) in [
        ("  a\tb\r\nc\rd\u{2028}e  ".as_bytes(), "a b\nc\nd\ne"),
        (b"a\x1b[31mb\x00c", "a[31mbc"),
        ("a\u{202e}b\u{2066}c\u{200f}d\u{feff}".as_bytes(), "abcd"),
        ("a\u{e0041}\u{e007f}b\u{fe0f}\u{ad}".as_bytes(), "ab"),
        ("p\u{200d}q \u{200c}x".as_bytes(), "pq x"),
        ("می\u{200c}خواهم".as_bytes(), "می\u{200c}خواهم"),
        ("می\u{200c}".as_bytes(), "می"),
        (b"ok \xff\xc3", "ok \u{fffd}\u{fffd}"),
        ("🔔é! —".as_bytes(), "🔔é! —"),
    ] {
        assert_eq!(clean(bytes), text);
    }
    assert_eq!(clean_name("a\nb\u{202e}cd", 3), "a b");
}

#[test]
fn a_text_is_bounded() {
    assert_eq!(clean(&[b'x'; MAX_TEXT]).len(), MAX_TEXT);
    assert_eq!(clean(&[b'x'; MAX_TEXT + 1]).len(), MAX_TEXT);
    assert!(clean(&[0xff; 4000]).len() <= MAX_TEXT);
}

proptest! {
    #[test]
    fn cleaning_is_final_and_leaves_nothing_invisible(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let once = clean(&bytes);
        prop_assert_eq!(clean(once.as_bytes()), once.clone());
        prop_assert!(once.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn any_text_is_cleaned_once_and_for_all(text in "\\PC*|[\u{600}-\u{610}\u{200c}\u{200d}a ]{0,40}") {
        let once = clean(text.as_bytes());
        prop_assert_eq!(clean(once.as_bytes()), once.clone());
    }
}
