//! For backend authors: a [`RedisNode`](crate::RedisNode) of any client that can connect and send.
//!
//! Most of a backend is about what happens when a connection breaks or hangs. That is done here, once
//! for all: an author says how to open a connection ([`Client`]) and how to send a command over it
//! ([`Connection`]), and gets a [`ClientNode`].

mod call;
mod calls;
mod client;
mod dialing;
mod doubts;
mod keeper;
mod link;
mod node;
mod queue;

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

pub use client::{Client, Connection, MAX_PENDING, Opened};
pub use node::ClientNode;

use crate::node::{NodeError, NodeErrorKind};
use crate::runtime::contain;

/// How many calls may be in flight on one connection. Callers that are faster than the server get an
/// error, since nothing here may grow without bounds.
const MAX_IN_FLIGHT: usize = 8 * 1024;

/// What the server said as it ended the connection, as that of a cluster that is down may do.
fn last_words(why: &NodeError) -> Option<&NodeError> {
    if why.kind() != NodeErrorKind::Connection {
        return None;
    }
    let words = why.source()?.downcast_ref::<NodeError>()?;
    (words.kind() == NodeErrorKind::Server).then_some(words)
}

/// Locks a mutex whose holders leave it in order even if they panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakers are foreign code: they are called when no lock is held, and if one panics, the others are
/// called nevertheless.
fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        contain(|| waker.wake());
    }
}

#[cfg(test)]
mod tests;
