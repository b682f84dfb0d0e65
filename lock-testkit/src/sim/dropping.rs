//! Drops a future at one of its awaits.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future at most `polls` times. If it is not ready by then, it is dropped at the await
/// that it has reached, and the result is `None`.
pub fn drop_at_poll<F: Future>(future: F, polls: u32) -> impl Future<Output = Option<F::Output>> {
    DropAtPoll {
        future: Some(Box::pin(future)),
        polls,
    }
}

struct DropAtPoll<F> {
    future: Option<Pin<Box<F>>>,
    polls: u32,
}

impl<F: Future> Future for DropAtPoll<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.future = None;
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 1 => {
                self.future = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.polls -= 1;
                Poll::Pending
            }
        }
    }
}
