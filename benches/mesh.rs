//! The mesh side's figures, in virtual time: a day in a town of two hundred, and what lossy paths cost.
//!
//! The same scenes as in `tests/measured`, more and longer ones, printed and not judged: `cargo bench --bench mesh`.
//! Takes some minutes. `DAYS=1` and `SEEDS=5` make it shorter. All figures but the resident memory follow from the
//! seeds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]
#![allow(missing_docs)]

#[path = "../tests/support/scenes.rs"]
mod scenes;
#[path = "../tests/support/town.rs"]
#[allow(dead_code)]
mod town;

use scenes::{Lossy, day, lossy};

fn main() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (days, seeds) = (number("DAYS", 3), number("SEEDS", 20));
    let scene = |scene: std::pin::Pin<Box<dyn Future<Output = String>>>| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        println!("{}", runtime.block_on(scene));
    };
    println!("\nLossy paths, {seeds} seeds of 80 questions with answers of three parts\n");
    println!("relays  loss  accepted  whole    parts  twice  texts/bound  ours/lossless");
    for (relays, loss) in [(0, 0.2), (1, 0.1), (1, 0.2), (1, 0.3), (2, 0.2)] {
        scene(Box::pin(async move {
            let lossless = lossy(relays, 0.0, 1).await;
            let mut figures = Lossy::default();
            for seed in 1..=seeds {
                figures = figures.and(&lossy(relays, loss, seed).await);
            }
            // What our radio sends besides texts are acks.
            #[allow(clippy::cast_precision_loss)]
            let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
            let ours = ratio(figures.own_us, figures.parts as u64)
                / ratio(lossless.own_us, lossless.parts as u64);
            format!(
                "{relays:6}  {loss:4.1}  {:8}  {:5.1} %  {:5}  {:5}  {:11.2}  {ours:13.2}",
                figures.accepted,
                100.0 * ratio(figures.whole as u64, figures.accepted as u64),
                figures.parts,
                figures.twice,
                ratio(figures.texts_us, figures.bound_us),
            )
        }));
    }
    for seed in 1..=days {
        println!("\nA day with 200 peers in EU_868 with LONG_FAST, seed {seed}\n");
        scene(Box::pin(async move { day(200, 24, seed).await.to_string() }));
    }
}
