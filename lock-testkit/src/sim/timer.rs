//! Sleeps of clients.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::locked;

/// A timer that fires once.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unwatched,
    Watched(Waker),
    Fired,
    /// Nobody waits for it any more.
    Dropped,
}

impl Timer {
    /// Returns whether somebody was still interested.
    pub(crate) fn fire(&self) -> bool {
        let before = std::mem::replace(&mut *locked(&self.state), State::Fired);
        match before {
            State::Watched(waker) => waker.wake(),
            State::Unwatched => {}
            State::Fired | State::Dropped => return false,
        }
        true
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = locked(&self.state);
        if matches!(*state, State::Fired) {
            return Poll::Ready(());
        }
        *state = State::Watched(cx.waker().clone());
        Poll::Pending
    }
}

/// A future that is ready when its timer has fired.
#[derive(Debug)]
pub(crate) struct Sleep(pub(crate) Arc<Timer>);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        *locked(&self.0.state) = State::Dropped;
    }
}
