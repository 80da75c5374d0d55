//! Names of strangers in results, and which node is meant.

use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_000_000;

fn node(number: u32, long_name: &str, contact: Option<&str>) -> KnownNode {
    KnownNode {
        number,
        long_name: long_name.to_owned(),
        short_name: "XY".to_owned(),
        contact: contact.map(str::to_owned),
        last_heard: NOW - 300,
        snr: Some(6.25),
        hops: Some(1),
        battery: Some(80),
    }
}

#[test]
fn a_node_is_told_with_what_is_known_of_it() {
    assert_eq!(
        words(&node(0xa1b2_c3d4, "Hilltop", Some("Ana")), NOW),
        "!a1b2c3d4 contact \"Ana\" calls itself \"Hilltop\" (\"XY\"), heard 5 min ago, 1 hop, SNR 6.2 dB, battery 80 %"
    );
    let bare = KnownNode { number: 7, ..KnownNode::default() };
    assert_eq!(words(&bare, NOW), "!00000007, never heard");
    for (battery, end) in [(0, "battery 0 %"), (100, "battery 100 %"), (101, "on mains")] {
        assert!(words(&KnownNode { battery: Some(battery), ..bare.clone() }, NOW).ends_with(end));
    }
    let odd = KnownNode { snr: Some(f32::NAN), last_heard: NOW + 50, hops: Some(0), ..bare };
    assert_eq!(words(&odd, NOW), "!00000007, heard 0 s ago, direct");
}

#[test]
fn the_list_is_bounded_and_sorted_whatever_comes() {
    let mut nodes: Vec<KnownNode> = (0..60).map(|i| node(1000 + i, "n", None)).collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        node.last_heard = u64::try_from(index).unwrap() * 7 % 60 + 1;
    }
    let text = list(&nodes, 500, NOW);
    assert_eq!(text.lines().count(), MAX_NODES + 1);
    assert!(text.ends_with("[20 more]"), "{text}");
    let first = list(&nodes, 1, NOW);
    let newest = nodes.iter().max_by_key(|node| node.last_heard).unwrap();
    assert!(first.starts_with(&NodeNum(newest.number).to_string()), "{first}");
    assert_eq!(list(&nodes[..1], 1, NOW).lines().count(), 1);
    assert_eq!(list(&[], 5, NOW), "no other node is known");
}

#[test]
fn the_node_that_is_meant_is_found_and_a_doubt_is_told() {
    let nodes = [
        node(0xa1b2_c3d4, "Hilltop", Some("Ana")),
        node(0xb0b0_b0b2, "Ana", None), // calls itself like the contact
        node(0xc0c0_c0c1, "Harbour east", None),
        node(0xc0c0_c0c2, "Harbour west", None),
    ];
    for (wanted, id) in [
        ("!a1b2c3d4", "!a1b2c3d4"),
        ("A1B2C3D4", "!a1b2c3d4"),
        ("ana", "!a1b2c3d4"), // the operator's word counts more than a claim
        (" hilltop ", "!a1b2c3d4"),
        ("east", "!c0c0c0c1"),
        ("Harbour west", "!c0c0c0c2"),
    ] {
        assert!(one(&nodes, wanted, NOW).unwrap().starts_with(id), "{wanted}");
    }
    let doubt = one(&nodes, "harbour", NOW).unwrap_err();
    assert!(
        doubt.starts_with("2 nodes") && doubt.contains("!c0c0c0c1") && doubt.contains("!c0c0c0c2")
    );
    assert!(one(&nodes, "!00000009", NOW).unwrap_err().contains("never heard"));
    assert!(one(&nodes, "nobody", NOW).unwrap_err().contains("no node"));
    assert!(one(&nodes, " ", NOW).unwrap_err().contains("expected an id"));
}

#[test]
fn airtime_is_told_in_seconds() {
    let figures = Airtime {
        used_ms: 12_340,
        limit_ms: Some(360_000),
        share_ms: Some(180_000),
        channel_percent: Some(12.4),
        paused: Some("the channel is busy".to_owned()),
    };
    assert_eq!(
        air(&figures),
        "sent in the last hour: 12.3 s\nleft for replies: 167.6 s of 180.0 s (the law allows 360.0 s)\n\
         channel busy: 12 %\npaused: the channel is busy"
    );
    assert!(air(&Airtime::default()).contains("region is not set"));
}

proptest! {
    #[test]
    fn a_name_stays_one_quoted_word(name in "\\PC{0,80}|[\"\\n\\u{202e}\\u{200b}A-z]{0,80}") {
        let shown = quoted(&name);
        prop_assert!(shown.starts_with('"') && shown.ends_with('"'));
        let inside = &shown[1..shown.len() - 1];
        let breaks_out = inside.contains(['"', '\n', '\u{202e}', '\u{200b}']);
        prop_assert!(!breaks_out, "{}", inside);
        prop_assert!(inside.chars().count() <= MAX_NAME);
    }
}
