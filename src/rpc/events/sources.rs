//! What feeds the stream of events: the mesh side, its status, the calls that wait, the log.
//!
//! Owns when the status is asked for. Never logs: what it logged would come back to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::{Changed, Event};
use crate::assistant::chat::LegsReport;
use crate::mesh::view::{MeshEvent, MeshStatus};
use crate::rpc::figures::hours::Hours;
use crate::rpc::{Services, history};

/// The status is looked at so often while somebody listens, and sent when it is another.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// The channel is looked at so often, and the hours written where they have changed.
const RECORD_EVERY: Duration = Duration::from_secs(60);
/// The legs are looked at so often while somebody listens; a look may ask a model server.
const LEGS_EVERY: Duration = Duration::from_secs(15);
/// The mesh side answers from memory; one that doesn't is on its way down.
const PATIENCE: Duration = Duration::from_millis(500);

/// Feeds the bus until `cancel`, then closes it.
pub async fn run(services: Arc<Services>, cancel: CancellationToken) {
    tokio::join!(feed(&services, &cancel), legs(&services, &cancel));
}

/// Tells when the legs are in another state than they were. Apart from the rest, for a model server may
/// let its caller wait.
async fn legs(services: &Services, cancel: &CancellationToken) {
    let mut tick = interval_at(Instant::now() + LEGS_EVERY, LEGS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    let looking = async {
        loop {
            tick.tick().await;
            if services.streams.count() > 0 {
                let now = Some(lasting(services.legs().await));
                if last.is_some() && last != now {
                    services.events.publish(Event::Changed(Changed::Legs));
                }
                last = now;
            }
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = looking => {}
    }
}

/// Of the legs, what does not change by itself from one look to the next.
fn lasting(mut legs: LegsReport) -> LegsReport {
    for leg in &mut legs.legs {
        leg.rests_for_s = None;
    }
    legs
}

async fn feed(services: &Arc<Services>, cancel: &CancellationToken) {
    let bus = &services.events;
    let mut mesh = services.mesh.events.subscribe();
    let mut lines = services.lines.follow();
    let mut pending = services.assistant.pending_count();
    let mut tick = interval(STATUS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Not at once: the first look is worth as much after a minute, and a start has other things to do.
    let mut minute = interval_at(Instant::now() + RECORD_EVERY, RECORD_EVERY);
    minute.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut written = services.figures.counts().hours;
    let mut last = None;
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            event = mesh.recv() => match event {
                Ok(event) => {
                    let at = services.clock.now().unix_ms;
                    services.figures.mesh(&event, at);
                    let changed = changed_by(&event);
                    bus.publish(Event::Mesh { at, event: Box::new(event) });
                    if let Some(what) = changed {
                        bus.publish(Event::Changed(what));
                    }
                }
                Err(RecvError::Lagged(_)) => bus.publish(Event::Reset),
                Err(RecvError::Closed) => break,
            },
            line = lines.recv() => match line {
                Ok(line) => bus.publish(Event::Log(line)),
                // `system.log` still has them.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            },
            Ok(()) = pending.changed() => {
                let count = *pending.borrow_and_update();
                bus.publish(Event::Pending { count });
            }
            _ = minute.tick() => {
                if let Ok(Ok(air)) = timeout(PATIENCE, services.mesh.airtime()).await
                    && let Some(percent) = air.channel_utilization
                {
                    services.figures.channel(percent, services.clock.now().unix_ms);
                }
                record(services, &mut written).await;
            }
            _ = tick.tick() => {
                if services.streams.count() > 0 {
                    status(services, &mut last).await;
                }
            }
        }
    }
    bus.close();
    record(services, &mut written).await;
}

/// Writes the hours if they have changed. Lost are at most those of the last minute.
async fn record(services: &Arc<Services>, written: &mut Hours) {
    let hours = services.figures.counts().hours;
    if hours == *written {
        return;
    }
    let (data_dir, copy) = (services.data_dir.clone(), hours.clone());
    let done = tokio::task::spawn_blocking(move || history::write(&data_dir, &copy)).await;
    // Tried again in a minute; and a disk that is full is said by those whose files matter.
    if matches!(done, Ok(Ok(()))) {
        *written = hours;
    }
}

async fn status(services: &Services, last: &mut Option<MeshStatus>) {
    let Ok(Ok(status)) = timeout(PATIENCE, services.mesh.status()).await else { return };
    if last.as_ref() != Some(&status) {
        services.events.publish(Event::Status(Box::new(status.clone())));
        *last = Some(status);
    }
}

/// What a page shows that this event has changed.
fn changed_by(event: &MeshEvent) -> Option<Changed> {
    match event {
        MeshEvent::Security { kind, .. }
            if matches!(kind.as_str(), "new_pin" | "moved" | "foreign_key") =>
        {
            Some(Changed::Contacts)
        }
        MeshEvent::Distress { .. } => Some(Changed::Distress),
        MeshEvent::Changed { .. } | MeshEvent::Paired { .. } => Some(Changed::Contacts),
        _ => None,
    }
}
