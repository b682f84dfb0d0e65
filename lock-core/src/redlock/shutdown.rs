//! Ending a lock: everything that is held is released.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::select;
use futures::stream;

use super::acquisition::Acquisition;
use super::engine::Engine;
use super::release;
use crate::error::{ReleaseError, ShutdownError};
use crate::runtime::Runtime;

/// The number of locks that are released at a time.
const AT_ONCE: usize = 256;

/// The pause between two looks whether the releases of others have come to their end.
const POLL: Duration = Duration::from_millis(2);

/// Refuses new locks and releases those that are held, at all nodes, for as long as `within`.
pub(crate) async fn shutdown(engine: &Arc<Engine>, within: Duration) -> Result<(), ShutdownError> {
    engine.registry.shut();
    let locks = engine.registry.all();
    let Some(runtime) = locks.first().map(|lock| Arc::clone(&lock.runtime)) else {
        return Ok(());
    };
    let mut unreleased = locks.len();
    let mut first_error = None;
    let release = async {
        let mut left = locks.clone();
        // Nodes that are busy with so many releases may be late with one: it is tried once more.
        for _ in 0..2 {
            let releases = stream::iter(mem::take(&mut left)).map(release_one);
            let mut releases = releases.buffer_unordered(AT_ONCE);
            while let Some((lock, released)) = releases.next().await {
                match released {
                    // A lock that had expired needs no release.
                    Ok(()) | Err(ReleaseError::NotHeld) => unreleased -= 1,
                    Err(error) => {
                        first_error = first_error.take().or(Some(error));
                        left.push(lock);
                    }
                }
            }
        }
        if !mutant!(ShutdownForgetsDropped) {
            settle(engine, &runtime, &locks).await;
        }
    };
    // What has been sent by the end of that time goes on in the background, as long as the runtime
    // lives.
    select(pin!(release), runtime.sleep(within)).await;
    match unreleased {
        0 => Ok(()),
        unreleased => Err(ShutdownError {
            unreleased,
            within,
            source: first_error,
        }),
    }
}

async fn release_one(lock: Arc<Acquisition>) -> (Arc<Acquisition>, Result<(), ReleaseError>) {
    let released = release::release_everywhere(&lock).await;
    (lock, released)
}

/// Waits for the releases that others have begun, for as long as a node may take.
async fn settle(engine: &Engine, runtime: &Arc<dyn Runtime>, locks: &[Arc<Acquisition>]) {
    let end = runtime
        .now()
        .saturating_add(engine.settings().release_timeout());
    while locks.iter().any(|lock| !lock.ledger().touched().is_empty()) && runtime.now() < end {
        runtime.sleep(POLL).await;
    }
}
