//! How a holder hears that the lock is lost.

use std::convert::Infallible;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::oneshot;
use futures::future::select;

use super::attempt::Attempt;
use crate::error::Loss;

/// Whether nodes have said that a lock is no longer ours, and who waits to hear of it.
#[derive(Debug, Default)]
pub(crate) struct LossSignal {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_lost: bool,
    /// Nothing is ever sent to them: they notice that the sender is gone.
    waiting: Vec<oneshot::Sender<Infallible>>,
}

impl LossSignal {
    /// A quorum has said that the lock is not ours; whether that is news.
    pub(crate) fn tell(&self) -> bool {
        let (is_news, waiting) = {
            let mut state = self.state();
            let is_news = !mem::replace(&mut state.is_lost, true);
            (is_news, mem::take(&mut state.waiting))
        };
        if mutant!(LossOnExpiryOnly) {
            std::mem::forget(waiting);
            return is_news;
        }
        // Dropping them wakes the waiters: foreign code, which must not run under the lock.
        drop(waiting);
        is_news
    }

    /// Something that ends when the loss is told; `None` if it was.
    fn listen(&self) -> Option<oneshot::Receiver<Infallible>> {
        let mut state = self.state();
        if state.is_lost {
            return None;
        }
        // Who has given up leaves nothing behind.
        state.waiting.retain(|waiter| !waiter.is_canceled());
        let (sender, receiver) = oneshot::channel();
        state.waiting.push(sender);
        Some(receiver)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends when the lock is lost: at the earlier of a quorum's word and the end of the validity. It
/// never ends for a lock that is released.
pub(crate) async fn lost(attempt: Arc<Attempt>) -> Loss {
    loop {
        let Some(told) = attempt.loss.listen() else {
            return Loss::Revoked;
        };
        if attempt.is_over() && !mutant!(LossAfterRelease) {
            // By a release, which never tells; or by a loss that is about to be told.
            let Err(oneshot::Canceled) = told.await;
            return Loss::Revoked;
        }
        let mut left = attempt.remaining_at(attempt.runtime.now());
        if left.is_zero() {
            // A release may have come in between.
            match attempt.is_over() && !mutant!(LossAfterRelease) {
                true => continue,
                false => return Loss::Expired,
            }
        }
        if mutant!(LossLate) {
            left += attempt.timing.node_timeout / 2;
        }
        // It may have been extended when this time is over.
        select(told, attempt.runtime.sleep(left)).await;
    }
}
