//! Calls under way, in the order in which they are sent.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::runtime::BoxFuture;

/// Futures that are polled in turn, first those that were added first (rule N12). So what a node
/// answers is heard in order, too.
///
/// All are polled whenever one of them wakes the task: with as few as a lock has nodes, that is
/// cheaper than to keep account of who woke it.
pub(crate) struct Pending<T> {
    futures: Vec<BoxFuture<'static, T>>,
}

impl<T> Pending<T> {
    pub(crate) fn push(&mut self, future: BoxFuture<'static, T>) {
        self.futures.push(future);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.futures.is_empty()
    }

    /// What the next one that is ready brings, or `None` if none is left.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        for (index, future) in self.futures.iter_mut().enumerate() {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                // In order: those behind may not have been polled yet.
                drop(self.futures.remove(index));
                return Poll::Ready(Some(output));
            }
        }
        if self.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    /// The same, waiting for it. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            futures: Vec::new(),
        }
    }
}

impl<T> Extend<BoxFuture<'static, T>> for Pending<T> {
    fn extend<I: IntoIterator<Item = BoxFuture<'static, T>>>(&mut self, futures: I) {
        self.futures.extend(futures);
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.futures.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::FutureExt;

    use super::*;

    /// Futures that note each poll, and are ready at the poll that is given for each.
    fn futures(ready_at: &[usize]) -> (Pending<usize>, Arc<Mutex<Vec<usize>>>) {
        let polls = Arc::new(Mutex::new(Vec::new()));
        let mut pending = Pending::default();
        for (number, ready_at) in ready_at.iter().copied().enumerate() {
            pending.push(noting(number, ready_at, &polls));
        }
        (pending, polls)
    }

    fn noting(
        number: usize,
        ready_at: usize,
        polls: &Arc<Mutex<Vec<usize>>>,
    ) -> BoxFuture<'static, usize> {
        let (polls, mut left) = (Arc::clone(polls), ready_at);
        Box::pin(poll_fn(move |_| {
            polls.lock().unwrap().push(number);
            left -= 1;
            if left == 0 {
                Poll::Ready(number)
            } else {
                Poll::Pending
            }
        }))
    }

    #[test]
    fn those_that_were_added_first_are_polled_and_heard_first() {
        let (mut pending, polls) = futures(&[2, 1, 2, 1]);
        assert_eq!(pending.next().now_or_never(), Some(Some(1)));
        pending.push(noting(4, 1, &polls));
        let rest = [0, 2, 3, 4].map(|_| pending.next().now_or_never().flatten());
        assert_eq!(rest, [Some(0), Some(3), Some(2), Some(4)]);
        assert_eq!(*polls.lock().unwrap(), [0, 1, 0, 2, 3, 2, 4]);
    }

    #[test]
    fn it_waits_only_when_all_that_are_left_were_polled() {
        let (mut pending, polls) = futures(&[3, 1, 2]);
        assert_eq!(pending.next().now_or_never(), Some(Some(1)));
        assert_eq!(pending.next().now_or_never(), None);
        assert_eq!(*polls.lock().unwrap(), [0, 1, 0, 2]);
        assert_eq!(pending.next().now_or_never(), Some(Some(0)));
        assert_eq!(pending.next().now_or_never(), Some(Some(2)));
    }

    #[test]
    fn without_futures_there_is_no_next_one() {
        assert_eq!(futures(&[]).0.next().now_or_never(), Some(None));
        let (mut pending, _) = futures(&[1]);
        assert_eq!(pending.next().now_or_never(), Some(Some(0)));
        assert_eq!(pending.next().now_or_never(), Some(None));
    }
}
