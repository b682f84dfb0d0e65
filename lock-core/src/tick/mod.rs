//! A job that runs once per tick of a schedule, on the instance that comes first.
//!
//! Several instances run the same schedule. A lock around the job is not enough: the first instance
//! has finished and released it (or its ttl has passed) before the clock of the last instance
//! reaches the tick, so the job runs again; and a lock that is held for longer makes the next tick
//! fail. What works is to claim the *tick*: its nominal instant is part of the key, and the key
//! outlives every instance's chance to claim it again.
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
//!             TickOutcome::AlreadyClaimed => {} // another instance sends them
//!             TickOutcome::TooLate => println!("tick {tick}: missed"),
//!             TickOutcome::Unavailable(cause) => println!("tick {tick}: not run: {cause}"),
//!         }
//!     }
//! }
//! ```
//!
//! # What is guaranteed
//!
//! A tick runs **at most once**, as long as the wall clocks of the instances are off by no more than
//! the allowed skew and the nodes do not forget keys. It does not run *exactly* once:
//!
//! - An instance that crashes after its claim, or whose job fails, loses that tick; no instance runs
//!   it again.
//! - While too few nodes answer, no tick is claimed (the outcome is
//!   [`Unavailable`](TickOutcome::Unavailable)), and a tick whose late limit ends meanwhile is lost.
//!
//! Runs of *different* ticks may overlap when a job takes longer than its period. To prevent that,
//! hold a lock during the run as well.

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
