//! Ending a lock: everything that is held is released.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::select;
use futures::stream;

use super::attempt::Attempt;
use super::engine::Engine;
use super::release;
use crate::error::{ReleaseError, ShutdownError};
use crate::runtime::Runtime;

/// So many locks are released at a time.
const AT_ONCE: usize = 256;

/// How often it is looked whether calls of others have come to their end.
const POLL: Duration = Duration::from_millis(2);

/// Refuses new locks and releases those that are held, at all nodes, for as long as `within`.
pub(crate) async fn shutdown(engine: &Arc<Engine>, within: Duration) -> Result<(), ShutdownError> {
    engine.holders.shut();
    let attempts = engine.holders.all();
    let Some(runtime) = attempts.first().map(|attempt| Arc::clone(&attempt.runtime)) else {
        return Ok(());
    };
    let mut unreleased = attempts.len();
    let mut first_error = None;
    let release = async {
        let mut left = attempts.clone();
        // Nodes that are busy with so many releases may be late with one: it is tried once more.
        for _ in 0..2 {
            let releases = stream::iter(mem::take(&mut left)).map(release_one);
            let mut releases = releases.buffer_unordered(AT_ONCE);
            while let Some((attempt, released)) = releases.next().await {
                match released {
                    // A lock that had expired needs no release.
                    Ok(()) | Err(ReleaseError::NotHeld) => unreleased -= 1,
                    Err(error) => {
                        first_error = first_error.take().or(Some(error));
                        left.push(attempt);
                    }
                }
            }
        }
        if !mutant!(ShutdownForgetsDropped) {
            settle(engine, &runtime, &attempts).await;
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

async fn release_one(attempt: Arc<Attempt>) -> (Arc<Attempt>, Result<(), ReleaseError>) {
    let released = release::release_everywhere(&attempt).await;
    (attempt, released)
}

/// Waits for the releases that others have begun, for as long as a node may take.
async fn settle(engine: &Engine, runtime: &Arc<dyn Runtime>, attempts: &[Arc<Attempt>]) {
    let end = runtime
        .now()
        .saturating_add(engine.settings.release_timeout());
    while attempts.iter().any(|attempt| !attempt.touched().is_empty()) && runtime.now() < end {
        runtime.sleep(POLL).await;
    }
}
