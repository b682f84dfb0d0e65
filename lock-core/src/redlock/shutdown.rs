//! Ending a lock: everything that is held is released; and waiting for releases under way.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{join, select};
use futures::{StreamExt, stream};

use super::acquisition::{Acquisition, ReleaseState};
use super::engine::Engine;
use super::{release, renew};
use crate::error::{FlushError, ReleaseError, ShutdownError};
use crate::runtime::Runtime;
use crate::sync::locked;

/// The number of locks that are released at a time.
const AT_ONCE: usize = 256;

/// The pause between two looks whether bodies and the releases of others have come to their end.
const POLL: Duration = Duration::from_millis(2);

/// The part of the time that a holder has to react when it was told of the end.
const GRACE_SHARE: u32 = 10;

/// Refuses new locks and releases those that are held, at all nodes, for as long as `within`.
pub(crate) async fn shutdown(engine: &Arc<Engine>, within: Duration) -> Result<(), ShutdownError> {
    engine.registry.shut();
    let locks = engine.registry.all();
    let Some(runtime) = locks.first().map(|lock| Arc::clone(&lock.runtime)) else {
        return Ok(());
    };
    let shutdown = Shutdown {
        now: runtime.now(),
        runtime: &runtime,
        within,
        unreleased: AtomicUsize::new(locks.len()),
        first_error: Mutex::default(),
    };
    let release = async {
        let (scoped, plain) = locks.iter().cloned().partition(|lock| lock.is_scoped());
        join(
            shutdown.release_plain(plain),
            shutdown.release_scoped(scoped),
        )
        .await;
        if !mutant!(ShutdownForgetsDropped) {
            let end = runtime
                .now()
                .saturating_add(engine.settings().node_timeout());
            wait_for_releases(&runtime, &locks, end).await;
        }
    };
    // What has been sent by the end of that time goes on in the background, as long as the runtime
    // lives.
    select(pin!(release), runtime.sleep(within)).await;
    match shutdown.unreleased.into_inner() {
        0 => Ok(()),
        unreleased => Err(ShutdownError {
            unreleased,
            within,
            source: locked(&shutdown.first_error).take(),
        }),
    }
}

/// Waits until the releases that were begun by now are answered, and what is owed is paid.
pub(crate) async fn flush(engine: &Arc<Engine>, within: Duration) -> Result<(), FlushError> {
    let runtime = engine.settings().runtime();
    renew::resume(engine, &runtime);
    let end = runtime.now().saturating_add(within);
    let locks = engine.registry.all();
    wait_for_releases(&runtime, &locks, end).await;
    let owed = || -> usize {
        engine
            .nodes
            .all
            .iter()
            .map(|node| node.debts().count())
            .sum()
    };
    while owed() > 0 && runtime.now() < end {
        runtime.sleep(POLL).await;
    }
    let unanswered = locks.iter().filter(|lock| is_being_released(lock)).count();
    match unanswered + owed() {
        0 => Ok(()),
        unreleased => Err(FlushError { unreleased, within }),
    }
}

struct Shutdown<'a> {
    runtime: &'a Arc<dyn Runtime>,
    now: Duration,
    within: Duration,
    unreleased: AtomicUsize,
    first_error: Mutex<Option<ReleaseError>>,
}

impl Shutdown<'_> {
    /// Tells the holders, and releases their locks when they had a moment to react.
    async fn release_plain(&self, locks: Vec<Arc<Acquisition>>) {
        let mut is_awaited = false;
        for lock in &locks {
            is_awaited |= lock.end_by_shutdown(self.now);
        }
        if is_awaited {
            self.runtime.sleep(self.within / GRACE_SHARE).await;
        }
        self.release(locks).await;
    }

    /// Waits for bodies that hold locks. Those that last too long are told to end, and their locks are
    /// released when they have: a lock whose body does not end is kept.
    async fn release_scoped(&self, mut locks: Vec<Arc<Acquisition>>) {
        let told_at = self.within - 2 * (self.within / GRACE_SHARE);
        loop {
            let (scoped, ended) = locks.into_iter().partition(|lock| lock.is_scoped());
            locks = scoped;
            self.release(ended).await;
            if locks.is_empty() {
                return;
            }
            let now = self.runtime.now();
            if now.saturating_sub(self.now) >= told_at {
                // Each is told once.
                for lock in &locks {
                    lock.end_by_shutdown(now);
                }
            }
            self.runtime.sleep(POLL).await;
        }
    }

    async fn release(&self, mut locks: Vec<Arc<Acquisition>>) {
        // Those that others release last: their runtime may stand still.
        let is_running =
            |lock: &Arc<Acquisition>| matches!(*lock.release_state(), ReleaseState::Running(_));
        locks.sort_by_key(is_running);
        // Nodes that are busy with so many releases may be late with one: it is tried once more.
        for _ in 0..2 {
            let releases = stream::iter(std::mem::take(&mut locks)).map(release_one);
            let mut releases = releases.buffer_unordered(AT_ONCE);
            while let Some((lock, released)) = releases.next().await {
                match released {
                    // A lock that had expired needs no release.
                    Ok(()) | Err(ReleaseError::NotHeld) => {
                        self.unreleased.fetch_sub(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        locked(&self.first_error).get_or_insert(error);
                        locks.push(lock);
                    }
                }
            }
        }
    }
}

async fn release_one(lock: Arc<Acquisition>) -> (Arc<Acquisition>, Result<(), ReleaseError>) {
    let released = release::release_everywhere(&lock).await;
    (lock, released)
}

/// Waits for the releases of these locks that others have begun, until `end`.
async fn wait_for_releases(runtime: &Arc<dyn Runtime>, locks: &[Arc<Acquisition>], end: Duration) {
    while locks.iter().any(is_being_released) && runtime.now() < end {
        runtime.sleep(POLL).await;
    }
}

fn is_being_released(lock: &Arc<Acquisition>) -> bool {
    lock.ledger().is_being_released()
}
