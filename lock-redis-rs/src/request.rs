//! A request on its way, in memory that is used again.
//!
//! The future of a request of redis-rs has more than 1 KiB, and up to there glibc's allocator keeps
//! blocks at hand for each thread: a larger one is searched for and merged again, for each call. So
//! the place of a request that has ended waits, on its thread, for the next one.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use redis::{Cmd, RedisResult, Value};

use crate::rt::unconstrained;
use crate::wire::Wire;

/// How many places a thread keeps: those of 50 calls to five nodes.
const KEPT: usize = 256;

thread_local! {
    static IDLE: RefCell<Vec<Pin<Box<dyn Place>>>> = const { RefCell::new(Vec::new()) };
}

/// A request with its connection and its command inside. It is sent at the first poll.
pub(crate) struct Request {
    /// `None` while it is dropped.
    place: Option<Pin<Box<dyn Place>>>,
}

impl Request {
    pub(crate) fn new(wire: Wire, cmd: Arc<Cmd>) -> Self {
        // A thread that is about to end has none.
        let idle = IDLE.try_with(|idle| idle.borrow_mut().pop());
        let mut place = idle.ok().flatten().unwrap_or_else(place);
        place.as_mut().fill(wire, cmd);
        Self { place: Some(place) }
    }
}

impl Future for Request {
    type Output = RedisResult<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.place {
            Some(place) => place.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(mut place) = self.place.take() {
            place.as_mut().empty();
            let keep = |idle: &RefCell<Vec<_>>| {
                let mut idle = idle.borrow_mut();
                if idle.len() < KEPT {
                    idle.push(place);
                }
            };
            IDLE.try_with(keep).ok();
        }
    }
}

/// Room for one request after the other, whose type has no name.
trait Place: Send {
    fn fill(self: Pin<&mut Self>, wire: Wire, cmd: Arc<Cmd>);
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisResult<Value>>;
    fn empty(self: Pin<&mut Self>);
}

pin_project! {
    struct PlaceFor<F> {
        send: fn(Wire, Arc<Cmd>) -> F,
        #[pin]
        request: Option<F>,
    }
}

fn place() -> Pin<Box<dyn Place>> {
    fn place_for<F>(send: fn(Wire, Arc<Cmd>) -> F) -> PlaceFor<F> {
        PlaceFor {
            send,
            request: None,
        }
    }
    Box::pin(place_for(|wire, cmd| unconstrained(send(wire, cmd))))
}

async fn send(mut wire: Wire, cmd: Arc<Cmd>) -> RedisResult<Value> {
    wire.send_packed_command(&cmd).await
}

impl<F: Future<Output = RedisResult<Value>> + Send> Place for PlaceFor<F> {
    fn fill(self: Pin<&mut Self>, wire: Wire, cmd: Arc<Cmd>) {
        let mut place = self.project();
        let request = (place.send)(wire, cmd);
        place.request.set(Some(request));
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RedisResult<Value>> {
        match self.project().request.as_pin_mut() {
            Some(request) => request.poll(cx),
            None => Poll::Pending,
        }
    }

    fn empty(self: Pin<&mut Self>) {
        self.project().request.set(None);
    }
}
