//! Everything that can go wrong, at once and in any order, in every region that has a duty cycle: what must hold all the
//! same.

use proptest::prelude::*;

use super::weather::{Faults, PEERS, Storm};
use super::*;
use crate::mesh::view::Delivery;
use tombolo_hw::preset::Preset;
use tombolo_hw::region::Region;

fn faults() -> impl Strategy<Value = Faults> {
    let own = (0u64..50, 0u64..50, 0u64..50, 0u64..40, 0u64..40, 0u64..40);
    let other = (0u64..30, 0u64..15, 0u64..10, 0u64..15, 0u64..6);
    (own, other).prop_map(|(own, other)| {
        let (text, ack, relay, stolen, late, twice) = own;
        let (refused, link, radio, kill, power) = other;
        Faults { text, ack, relay, stolen, late, twice, refused, link, radio, kill, power }
    })
}

/// Where much is repeated and the process dies again and again, for what a dead process cannot count.
fn crashes() -> impl Strategy<Value = Faults> {
    (faults(), 40u64..95, 0u64..70, 0u64..20).prop_map(|(faults, text, kill, power)| Faults {
        text,
        relay: faults.relay / 5,
        kill,
        power,
        ..faults
    })
}

/// The radios that may be used in a region: each preset that fits its band, either firmware, the roles that matter to
/// the law.
fn radios_in(region: &Region) -> Vec<RadioInfo> {
    let mut all = Vec::new();
    for preset in Preset::all() {
        for (firmware, role) in [("2.7.26.54e0d8d", 0), ("2.8.0", 0), ("2.8.0", 2)] {
            let mut info = radio();
            (info.lora.region, info.lora.preset) = (region.code, preset.code());
            (info.firmware, info.role) = (firmware.to_owned(), role);
            all.extend(Law::of(&info).is_ok().then_some(info));
        }
    }
    assert!(!all.is_empty(), "{}", region.name);
    all
}

fn with_duty_cycle() -> impl Iterator<Item = &'static Region> {
    Region::all().filter(|region| region.duty_permyriad < 10_000)
}

fn radios() -> impl Strategy<Value = RadioInfo> {
    proptest::sample::select(with_duty_cycle().flat_map(radios_in).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every answer ends with each of its parts delivered or with a reason; no part is shown more often than the radio's
    /// own uncertainty permits; texts keep their distance; no hour is over the law.
    #[test]
    fn whatever_happens_every_part_ends_and_the_law_is_kept(seed: u64, faults in faults(), radio in radios()) {
        let mut storm = Storm::new(seed, faults, radio);
        for turn in 0..8u64 {
            for (place, peer) in PEERS.into_iter().enumerate() {
                let words = 10 + 40 * ((seed.wrapping_add(turn) as usize + place) % 3);
                let answer: String = (0..words).map(|w| format!("{place}t{turn}w{w} ")).collect();
                storm.answer(&format!("{place}.{turn}"), peer, ReplyKind::Answer, &answer);
                if turn % 3 == 0 {
                    storm.answer(&format!("{place}.{turn}c"), peer, ReplyKind::Command, "pong");
                }
            }
            storm.run(120_000);
        }
        storm.calm();
        storm.check_air();
        for reply in storm.outbox.replies.values() {
            for (index, part) in reply.parts.iter().take(reply.released).enumerate() {
                let ended = match &part.known {
                    Known::Delivered | Known::Relayed | Known::NotConfirmed | Known::Cancelled => part.stage == Stage::Settled,
                    Known::Failed(why) => part.stage == Stage::Settled && !why.is_empty(),
                    // For a peer that is away; here all are there.
                    Known::Waiting(why) => part.stage == Stage::Held && !why.is_empty(),
                    Known::Queued | Known::Sent => false,
                };
                prop_assert!(ended, "{} part {}: {:?} {:?}", reply.id.0, index + 1, part.stage, part.known);
                if let Some(told) = storm.told.get(&(reply.id.0.clone(), index + 1)) {
                    prop_assert_eq!(told, &Delivery::from(&part.known), "what was told last");
                }
            }
        }
        for (peer, text) in &storm.received {
            let times = storm.received.iter().filter(|other| *other == &(*peer, text.clone())).count();
            let permitted = 1 + storm.permitted.get(&(*peer, text.clone())).copied().unwrap_or(0);
            prop_assert!(times <= permitted || text == "pong", "{} times: {}", times, text);
        }
    }
}

/// With more to say than the law allows, so many times, every two minutes; gives the fullest hour, µs.
fn talkative(seed: u64, faults: Faults, radio: RadioInfo, turns: usize) -> u64 {
    let mut storm = Storm::new(seed, faults, radio);
    for turn in 0..turns {
        for (place, peer) in PEERS.into_iter().enumerate() {
            // No more than may wait at once: what waits is refused at the door.
            if storm.outbox.counts().0 < 12 {
                storm.answer(&format!("{place}.{turn}"), peer, ReplyKind::Answer, &words(540));
                storm.answer(&format!("{place}.{turn}c"), peer, ReplyKind::Command, "pong");
            }
        }
        storm.run(120_000);
    }
    storm.check_air()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    /// In every region, with power cuts and crashes anywhere.
    #[test]
    fn no_hour_is_over_the_law_in_any_region(seed: u64, faults in crashes()) {
        for region in with_duty_cycle() {
            let mut radios = radios_in(region);
            let radio = radios.swap_remove(seed as usize % radios.len());
            let fullest = talkative(seed, faults, radio, 90);
            prop_assert!(fullest > 0, "{}: and yet something is sent", region.name);
        }
    }
}

#[test]
fn in_every_region_an_hour_is_used_up_to_the_law_and_not_beyond() {
    // Nobody hears anything, so that every packet is sent three times, as is reserved for it.
    let deaf = Faults { text: 100, ..Faults::default() };
    for region in with_duty_cycle() {
        let mut measured = 0;
        for radio in radios_in(region) {
            let law = Law::of(&radio).unwrap();
            let part_us = flight::full_part_us(&law);
            // A handful of parts an hour is too coarse to tell, and with very fast ones there is not enough to say.
            if (20..200).contains(&(law.limit_us / part_us)) && measured < 2 {
                let fullest = talkative(1, deaf, radio, 60);
                let share = fullest * 100 / law.limit_us;
                assert!((85..=98).contains(&share), "{} {:?}: {share} %", region.name, law.modem);
                measured += 1;
            }
        }
        assert!(measured > 0, "{}", region.name);
    }
}
