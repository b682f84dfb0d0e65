//! What a call shares with the network.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use lock_core::node::{NodeError, Reply};

use crate::sim::locked;

/// Where the result of a call is put, and who is woken then.
#[derive(Debug)]
pub(crate) struct Cell(Mutex<CellState>);

#[derive(Debug)]
pub(crate) struct CellState {
    pub(crate) result: Option<Result<Reply, NodeError>>,
    pub(crate) waker: Option<Waker>,
    /// The link and its number there, once the request was sent.
    pub(crate) sent: Option<(usize, u64)>,
    /// How many calls in a row had no answer when it was sent.
    pub(crate) silent: u32,
    pub(crate) is_over: bool,
}

impl Cell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(CellState {
            result: None,
            waker: None,
            sent: None,
            silent: 0,
            is_over: false,
        })))
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, CellState> {
        locked(&self.0)
    }

    pub(super) fn complete(&self, result: Result<Reply, NodeError>) {
        let mut state = self.state();
        if state.is_over || state.result.is_some() {
            return;
        }
        state.result = Some(result);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}
