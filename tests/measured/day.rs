//! A day in a town of two hundred, in EU_868.

use crate::support::scenes::{Day, day};

/// The most that each structure may hold, as its owner says. What is answered or refused at once is not among them.
const BOUNDS: [(&str, usize); 21] = [
    ("turns", 66),
    ("queue", 66),
    ("receivers", 256),
    ("unstored answers", 64),
    ("security events", 256),
    ("contacts in the radio", 200),
    ("wishes to forget", 256),
    ("nodes", 250),
    ("distress texts", 32),
    ("messages", 500),
    ("budgets", 3 * 1024),
    ("loops", 256),
    ("ended packets", 10_000),
    ("recent answers", 256),
    ("recent turns", 256),
    ("replies", 256),
    ("parts", 256 * 4),
    ("flights", 200),
    ("served peers", 256),
    ("events", 2048),
    ("ledger lines", 3_200),
];

fn largest(day: &Day, hours: std::ops::Range<usize>, name: &str) -> usize {
    let sizes = day.hours[hours].iter().flat_map(|hour| &hour.sizes);
    sizes.filter(|(known, _)| *known == name).map(|(_, size)| *size).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_day_with_two_hundred_peers_is_answered_within_the_law_and_within_bounds() {
    let day = day(200, 24, 1).await;
    println!("{day}");

    // Every accepted question has one end on record, and practically all are answered whole.
    assert!(day.said > 1_500 && day.accepted > 900, "{day}");
    assert_eq!(day.ended.values().sum::<usize>(), day.accepted, "{day}");
    assert!(day.whole * 100 >= day.accepted * 99, "{day}");
    assert!(day.refused.keys().all(|reason| reason == "busy"), "{day}");
    assert!(day.accepted + day.refused.values().sum::<usize>() <= day.said, "{day}");

    // The law, the share and the radio's own rules.
    assert!(day.worst_ledger_ms <= day.limit_ms, "{day}");
    assert!(day.worst_sent_ms.0 <= day.share_ms, "{day}");
    assert!(day.worst_sent_ms.1 <= day.limit_ms, "{day}");
    assert!(day.too_fast == 0 && day.least_gap_ms >= 2_000, "{day}");

    // Half of the answers begin within two minutes, and nearly all within the time that is promised at the door.
    assert!(day.wait_ms(50) <= 120_000 && day.wait_ms(90) <= 1_800_000, "{day}");

    // Memory is flat: everything is within its bounds, and nothing but what is remembered on purpose grows.
    for (name, bound) in BOUNDS {
        let size = largest(&day, 0..26, name);
        assert!(size <= bound, "{name}: {size}, at most {bound}");
        let (middle, end) = (largest(&day, 8..16, name), largest(&day, 16..26, name));
        let grows = ["ended packets", "turns", "queue"].contains(&name); // and the evening is busy
        assert!(grows || end <= middle + middle / 5 + 20, "{name}: {middle}, then {end}");
    }
    assert_eq!(day.hours[0].sizes.len(), BOUNDS.len());
    let quiet = day.hours.last().unwrap();
    for (name, size) in &quiet.sizes {
        let passing = ["turns", "queue", "unstored answers", "events"].contains(name);
        assert!(!passing || *size == 0, "{name}: {size} after two quiet hours");
    }
    let files = day.hours.iter().map(|hour| hour.files).max().unwrap();
    assert!(files.0 <= 256 + 66 + 8, "{files:?}");
    assert!(day.hours.iter().all(|hour| hour.files.1 < 8_000_000), "{files:?}");
}
