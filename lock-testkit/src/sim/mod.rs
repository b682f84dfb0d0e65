//! A deterministic simulator for distributed locks.
//!
//! The code under test is production code, unchanged: [`Sim`] gives it a
//! [`Runtime`](lock_core::Runtime) whose time and chance come from a seed, and
//! [`ClientNode`](lock_core::backend::ClientNode)s over a simulated network, with the real keeper
//! of connections. A simulation of minutes with dozens of faults takes milliseconds, and the same
//! seed does the same again.
//!
//! - [`Sim`] is a world for tests of your own.
//! - [`run_seed`] runs a seed: a world with faults and a [`Workload`], judged by [`Invariant`]s. A
//!   [`Scenario`] takes locks, workloads and invariants of your own.

mod belief;
mod calls;
mod campaign;
mod chance;
mod client;
mod clock;
mod coverage;
mod cx;
mod dropping;
mod facts;
mod fault;
mod fences;
mod hash;
mod inject;
mod ledger;
mod life;
mod locking;
mod mutant;
mod nemesis;
mod network;
mod node;
mod operation;
mod outcome;
mod plan;
mod queue;
mod run;
mod scenario;
mod server;
mod server_fault;
mod shared;
mod shrink;
mod simulation;
mod tasks;
mod trace;
mod tracked;
mod watch;
mod world;

pub mod invariant;
pub mod workload;

pub use campaign::{Campaign, Tally};
pub use chance::Chance;
pub use client::SimClient;
pub use coverage::{Coverage, Mark};
pub use cx::WorkloadCx;
pub use dropping::drop_at_poll;
pub use fault::{Fault, FaultKind};
pub use invariant::Invariant;
pub use ledger::{DataLoss, Hold, Ledger, Violation, Vote};
pub use mutant::{Bias, MUTANTS, Mutant};
pub use node::SimNode;
pub use outcome::Outcome;
pub use plan::Plan;
pub use scenario::{MakeLock, Scenario, run_seed};
pub use server::ServerId;
pub use server_fault::ServerFault;
pub use shrink::shrink;
pub use simulation::Sim;
pub use tasks::ClientId;
pub use tracked::TrackedGuard;
pub use workload::Workload;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex that no other thread uses. A task that panics elsewhere leaves nothing half-done.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program on the page must do what the page says.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/simulator.md")]
struct Page;
