//! One call: a command goes out, its reply comes back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::client::Client;
use super::last_words;
use super::link::Link;
use crate::node::{Command, NodeError, NodeErrorKind, Reply};
use crate::runtime::BoxFuture;

pin_project! {
    /// A call on a connection. It is sent at the first poll. If it is dropped between that and its
    /// end, its command is in doubt.
    pub(super) struct Call<C: Client, F> {
        link: Arc<Link<C>>,
        command: Command,
        within: Duration,
        // For a caller that does not run where the connection does.
        timer: Option<BoxFuture<'static, ()>>,
        // Where the connection knows the call, from the first poll to the end.
        slot: Option<usize>,
        // The connection has taken it, be it over by now or not.
        is_entered: bool,
        #[pin]
        request: F,
    }

    impl<C: Client, F> PinnedDrop for Call<C, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(slot) = this.slot.take() {
                this.link.given_up(slot, this.command, false);
            }
        }
    }
}

impl<C: Client, F> Call<C, F> {
    pub(super) fn new(
        link: Arc<Link<C>>,
        command: Command,
        within: Duration,
        timer: Option<BoxFuture<'static, ()>>,
        request: F,
    ) -> Self {
        Self {
            link,
            command,
            within,
            timer,
            slot: None,
            is_entered: false,
            request,
        }
    }

    /// Returns whether the connection did not take the call, so that nothing of it was handed over.
    pub(super) fn was_refused(&self) -> bool {
        !self.is_entered
    }
}

impl<C: Client, F> Future for Call<C, F>
where
    F: Future<Output = Result<Reply, NodeError>>,
{
    type Output = Result<Reply, NodeError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (slot, is_new) = match *this.slot {
            Some(slot) => (slot, false),
            None => (this.link.enter(*this.within, cx.waker())?, true),
        };
        *this.slot = Some(slot);
        *this.is_entered = true;
        // The request goes first: an answer that is there counts even if it came late.
        if let Poll::Ready(answer) = this.request.poll(cx) {
            *this.slot = None;
            end(this.link, slot, this.command, &answer);
            return Poll::Ready(answer.map_err(|error| match last_words(&error) {
                Some(words) => words.clone(),
                None => error,
            }));
        }
        let timer = this.timer.as_mut();
        let end = if timer.is_some_and(|timer| timer.as_mut().poll(cx).is_ready()) {
            None
        } else if is_new {
            return Poll::Pending;
        } else {
            std::task::ready!(this.link.wait(slot, cx.waker()))
        };
        *this.slot = None;
        this.link.given_up(slot, this.command, end.is_none());
        Poll::Ready(Err(
            end.unwrap_or_else(|| NodeError::no_answer(*this.within))
        ))
    }
}

fn end<C: Client>(
    link: &Arc<Link<C>>,
    slot: usize,
    command: &Command,
    answer: &Result<Reply, NodeError>,
) {
    let Err(error) = answer else {
        return link.answered(slot);
    };
    match error.kind() {
        NodeErrorKind::Server | NodeErrorKind::UnexpectedReply => {
            link.answered(slot);
            if error.is_wrong_server() {
                link.misdirected();
            }
        }
        NodeErrorKind::NotSent | NodeErrorKind::Unsupported => link.leave(slot),
        NodeErrorKind::NoAnswer => link.given_up(slot, command, true),
        NodeErrorKind::Connection => link.broke(slot, error),
    }
}
