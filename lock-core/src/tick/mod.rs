//! A job that runs once per tick, on whichever instance comes first.
//!
//! Several instances run the same schedule. A lock around the job is not enough: the first
//! instance is done and has released (or its ttl has passed) before the last one's clock reaches
//! the tick, so the job runs again; and a lock that is held longer swallows the next tick. What
//! works is to claim the *tick*: its nominal instant is part of the key, and the key outlives every
//! instance's chance to claim it again.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use lock_core::DistributedLock;
//! use lock_core::tick::{TickJob, TickOutcome};
//!
//! # async fn send_reports() {}
//! async fn every_second(locks: Arc<dyn DistributedLock>) -> Result<(), Box<dyn std::error::Error>> {
//!     let job = TickJob::every("reports", Duration::from_secs(1)).build()?;
//!     let mut ticks = job.ticks()?;
//!     loop {
//!         let tick = ticks.next().await;
//!         match job.run(&locks, tick, async |_| send_reports().await).await? {
//!             TickOutcome::Ran(()) => println!("tick {tick}: sent"),
//!             TickOutcome::AlreadyClaimed => {} // another instance does it
//!             TickOutcome::TooLate => println!("tick {tick}: missed"),
//!             TickOutcome::Unavailable(cause) => println!("tick {tick}: not run: {cause}"),
//!         }
//!     }
//! }
//! ```
//!
//! # What is guaranteed
//!
//! A tick is run **at most once**, as long as the instances' wall clocks are off by no more than
//! the allowed skew and the nodes do not forget keys. It is not run *exactly* once:
//!
//! - A claimant that crashes, or whose job fails, loses that tick; nobody runs it again.
//! - While too few nodes answer nobody claims anything (the outcome is
//!   [`Unavailable`](TickOutcome::Unavailable)), and a tick whose late limit ends meanwhile is lost.
//!
//! Runs of *different* ticks may overlap when a job takes longer than its period. If that must not
//! be, hold a lock during the run as well.

mod claim;
mod error;
mod instant;
mod job;
mod period;
mod ticks;
mod window;

#[cfg(test)]
mod fake;

pub use claim::{ClaimedTick, TickClaim, TickError, TickOutcome};
pub use error::TickJobError;
pub use instant::{InvalidTick, Tick};
pub use job::{TickJob, TickJobBuilder};
pub use period::Period;
pub use ticks::Ticks;
