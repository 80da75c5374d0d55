//! Keeps the simulated world and Tokio's time together.
//!
//! Owns the lock around the world, the task that lets its events happen, and the signal that
//! something may have changed. Knows nothing of what happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::config::SimConfig;
use super::world::{World, micros};

/// What the handle, the connections and the clock share.
pub(super) struct Shared {
    world: Mutex<World>,
    origin: Instant,
    /// The calendar may have changed.
    wake: Arc<Notify>,
    /// Counts what may have been changes, so that waiting for a state needs no polling.
    pub changes: watch::Sender<u64>,
    pub runtime: tokio::runtime::Handle,
    tasks: TaskTracker,
}

impl Shared {
    /// A world on the current runtime, and the task that lets time pass in it.
    pub fn start(config: SimConfig) -> Arc<Shared> {
        let wake = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            world: Mutex::new(World::new(config)),
            origin: Instant::now(),
            wake: wake.clone(),
            changes: watch::Sender::new(0),
            runtime: tokio::runtime::Handle::current(),
            tasks: TaskTracker::new(),
        });
        shared.spawn(keep_time(Arc::downgrade(&shared), wake));
        shared
    }

    /// Microseconds since the start.
    pub fn now_us(&self) -> u64 {
        micros(self.origin.elapsed())
    }

    /// Brings the world up to date, does something with it, and lets what follows at once happen.
    pub fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let now_us = self.now_us();
        world.run_until(now_us);
        let result = act(&mut world);
        world.run_until(now_us);
        drop(world);
        self.wake.notify_one();
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        result
    }

    /// The world as it is now, only to look at: unlike `with`, it counts as no change, so those who
    /// wait for one are not woken by each other.
    pub fn look(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.run_until(self.now_us());
        world
    }

    /// A task of this simulation, whichever runtime the caller is on.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// Lets events happen at their time.
async fn keep_time(shared: Weak<Shared>, wake: Arc<Notify>) {
    loop {
        let next = {
            // Not kept while asleep: the world ends with the last who drives it.
            let Some(shared) = shared.upgrade() else { return };
            let next = shared.look().next_due();
            shared.changes.send_modify(|count| *count = count.wrapping_add(1));
            next.map(|at| shared.origin + Duration::from_micros(at))
        };
        match next {
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = wake.notified() => {}
            },
            None => wake.notified().await,
        }
    }
}
