//! Every fifth packet lost on each hop: what arrives, and what it costs.

use crate::support::scenes::{Lossy, lossy, part_us};

#[tokio::test(start_paused = true)]
async fn without_losses_every_part_leaves_once_and_the_bound_is_exact() {
    for relays in [0, 1, 2] {
        let figures = lossy(relays, 0.0, 1).await;
        assert_eq!((figures.accepted, figures.whole, figures.twice), (80, 80, 0));
        assert_eq!(figures.texts_us, figures.bound_us);
        assert_eq!(figures.relayed_us > 0, relays > 0);
    }
    assert_eq!(part_us(&"x".repeat(200)), 2_033_664, "200 bytes, a reply, sealed: 239 on air");
}

#[tokio::test(start_paused = true)]
async fn over_two_lossy_hops_99_of_100_answers_arrive_whole_for_half_as_much_air_again() {
    let mut figures = Lossy::default();
    for seed in 1..=6 {
        figures = figures.and(&lossy(1, 0.2, seed).await);
    }
    println!("{figures:?}");
    assert!(figures.accepted > 400, "{figures:?}");
    assert!(figures.whole * 100 >= figures.accepted * 99, "{figures:?}");
    assert!(figures.texts_us * 10 <= figures.bound_us * 15, "{figures:?}");
}
