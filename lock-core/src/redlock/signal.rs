//! Telling tasks that something has come to its end.

use std::convert::Infallible;

use futures::channel::oneshot;

/// The tasks that wait for something to end. They notice that this is dropped; nothing is ever sent.
///
/// Dropping it wakes them, which is foreign code: not to be done under a mutex.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Vec<oneshot::Sender<Infallible>>);

/// Ends when the [`Waiters`] that it is from are dropped. May be dropped at any time.
pub(crate) type Ended = oneshot::Receiver<Infallible>;

impl Waiters {
    pub(crate) fn add(&mut self) -> Ended {
        // A task that gave up leaves nothing behind.
        self.0.retain(|waiter| !waiter.is_canceled());
        let (sender, receiver) = oneshot::channel();
        self.0.push(sender);
        receiver
    }
}
