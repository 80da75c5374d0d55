//! A day in a town.

use crate::support::scenes::day;

#[tokio::test(start_paused = true)]
async fn probe() {
    let day = day(200, 24, 1).await;
    for hour in &day.hours {
        println!("{hour:?}");
    }
    println!("{:?}", tombolo_summary(&day));
}
fn tombolo_summary(day: &crate::support::scenes::Day) -> String {
    let mut d = day.clone();
    let waits = std::mem::take(&mut d.waits_ms);
    d.hours.clear();
    format!(
        "{d:?} waits n {} median {:?} p95 {:?} max {:?}",
        waits.len(),
        waits.get(waits.len() / 2),
        waits.get(waits.len() * 95 / 100),
        waits.last()
    )
}
