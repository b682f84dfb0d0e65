//! Memory for the future of one piece of work after the other.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// What can be done in a [`Place`].
pub(crate) trait Work: Send + 'static {
    type Output: 'static;

    fn run(self) -> impl Future<Output = Self::Output> + Send;
}

/// Room for the future of one piece of work, and then of the next.
pub(crate) struct Place<W: Work>(Pin<Box<dyn Room<W>>>);

impl<W: Work> Place<W> {
    /// One that is empty.
    pub(crate) fn new() -> Self {
        fn room<W, F>(run: fn(W) -> F) -> RoomFor<W, F> {
            RoomFor { run, future: None }
        }
        Self(Box::pin(room(W::run)))
    }

    /// Takes in new work. What was there before is dropped.
    pub(crate) fn fill(&mut self, work: W) {
        self.0.as_mut().fill(work);
    }

    /// Polls the work; pending if there is none.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<W::Output> {
        self.0.as_mut().poll(cx)
    }

    pub(crate) fn empty(&mut self) {
        self.0.as_mut().empty();
    }
}

/// Room for a future whose type has no name.
trait Room<W: Work>: Send {
    fn fill(self: Pin<&mut Self>, work: W);
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<W::Output>;
    fn empty(self: Pin<&mut Self>);
}

pin_project! {
    struct RoomFor<W, F> {
        run: fn(W) -> F,
        #[pin]
        future: Option<F>,
    }
}

impl<W: Work, F: Future<Output = W::Output> + Send> Room<W> for RoomFor<W, F> {
    fn fill(self: Pin<&mut Self>, work: W) {
        let mut this = self.project();
        let future = (this.run)(work);
        this.future.set(Some(future));
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<W::Output> {
        match self.project().future.as_pin_mut() {
            Some(future) => future.poll(cx),
            None => Poll::Pending,
        }
    }

    fn empty(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }
}
