//! A job that runs once per tick of a schedule, on the instance that comes first.
//!
//! Several instances run the same schedule. A lock around the job is not enough: the first instance
//! has finished and released it (or its ttl has passed) before the clock of the last instance
//! reaches the tick, so the job runs again; and a lock that is held for longer makes the next tick
//! fail. What works is to claim the *tick*: its nominal instant is part of the key, and the key
//! outlives every instance's chance to claim it again.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use lock_core::DistributedLock;
//! use lock_core::tick::{Tick, TickJob};
//!
//! # async fn send_reports(tick: Tick) -> Result<(), std::io::Error> { Ok(()) }
//! async fn every_second(locks: Arc<dyn DistributedLock>) -> Result<(), Box<dyn std::error::Error>> {
//!     let job = TickJob::every("reports", Duration::from_secs(1)).build()?;
//!     job.run_forever(&locks, async |tick| send_reports(tick).await).await?;
//!     Ok(())
//! }
//! ```
//!
//! [`run_forever`](TickJob::run_forever) waits for each tick, claims it, runs the job where the claim is
//! won, and tells `tracing` what came of it. A program that wants to know itself does so step by step:
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use lock_core::DistributedLock;
//! # use lock_core::tick::{TickJob, TickOutcome};
//! # async fn send_reports() {}
//! # async fn every_second(locks: Arc<dyn DistributedLock>) -> Result<(), Box<dyn std::error::Error>> {
//! # let job = TickJob::every("reports", Duration::from_secs(1)).build()?;
//! let mut ticks = job.ticks()?;
//! while let Some(tick) = ticks.next().await {
//!     match job.run(&locks, tick, async |_| send_reports().await).await? {
//!         TickOutcome::Ran(()) => println!("tick {tick}: sent"),
//!         TickOutcome::AlreadyClaimed => {} // another instance sends them
//!         not_run => eprintln!("tick {tick}: {not_run:?}"),
//!     }
//! }
//! # Ok(())
//! # }
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
//! Runs of *different* ticks may overlap when a job takes longer than its period, unless
//! [`no_overlap`](TickJobBuilder::no_overlap) is on.
//!
//! Which instance runs a tick is nobody's choice: the first that claims it, and so most often the one with
//! the fastest clock, tick after tick. [`start_jitter`](TickJobBuilder::start_jitter) makes them take turns.
//! An instance whose clock is wrong by more than the allowed skew may run ticks that others have run long
//! ago, so let a time service keep the clocks.
//!
//! # Catching up
//!
//! A tick that comes due while all instances are being restarted runs late, on the instance that comes
//! back first: [`TickJob::ticks`] begins with the last tick if it is not older than the job's
//! [`catch_up`](TickJobBuilder::catch_up), 30 s at most by default, and
//! [`missed`](TickJobBuilder::missed) says what becomes of ticks that come due while an instance is busy.
//! Nothing runs past the [late limit](TickJobBuilder::late_limit).
//!
//! Whether an instance that comes back runs what another one has run long ago, its claim decides. So
//! catching up for longer takes a late limit *and* a retention of that length, in all versions of the
//! program that are live, and nodes that do not forget: a server that restarts empty has forgotten who ran
//! what. For a nightly job that may run an hour late:
//!
//! ```
//! # use std::time::Duration;
//! # use std::time::SystemTime;
//! # use lock_core::tick::TickJob;
//! # fn next_night(after: SystemTime) -> Option<SystemTime> { None }
//! const HOUR: Duration = Duration::from_secs(60 * 60);
//! let nightly = TickJob::scheduled("nightly", next_night) // or a cron expression
//!     .late_limit(HOUR)
//!     .catch_up(HOUR)
//!     .retention(2 * HOUR)
//!     .build()?;
//! # Ok::<_, lock_core::tick::TickJobError>(())
//! ```
//!
//! # The wall clock
//!
//! Ticks go by the wall clock, which may be set. One that was set forward skips what is past the late limit
//! by then. One that was set back is noticed within a second, with a warning, and ticks go on by the new time;
//! what has run within its retention does not run again. Daylight saving is no matter of this clock but of a
//! schedule: `TickJob::cron` (feature `cron`) says what it does then.
//!
//! # Changing the rules
//!
//! During a deploy, two versions of a program run the same job by different rules. A claim lasts for the
//! retention of the version that made it, and the other version may come to the tick as late as its own
//! late limit allows. So the retention goes first:
//!
//! - **To a longer late limit, future limit, skew or catch-up**: first deploy the longer retention alone,
//!   to all instances, and wait for as long as the *new* limits reach back, so that no claim of the old
//!   length is still needed. Then deploy the limit. Back: first the limit, then the retention.
//! - **To another period or schedule**: instants that both versions have are run once; instants that only
//!   one has are run by its instances, while there are any. So some ticks run by the old schedule and some
//!   by the new one until the deploy is over. Where that does harm, give the job another name and a start
//!   after the deploy. A longer period brings a longer late limit and retention, unless they are set.
//! - **To another name or prefix**: that is another job. Both run each tick while both versions live.
//!
//! An instance that finds a tick claimed sees for how long the claim will last. If its own rules could not
//! have made such a claim, it says so to `tracing`, as a warning, once: `another instance claims ticks
//! by other rules`. It cannot see another late limit, nor a schedule without common instants.

mod claim;
#[cfg(feature = "cron")]
mod cron;
mod error;
mod events;
mod forever;
mod instant;
mod job;
mod period;
mod rules;
mod run;
mod schedule;
mod ticks;
mod window;

#[cfg(test)]
mod fake;

pub use claim::{ClaimedTick, TickClaim, TickError};
pub use error::TickJobError;
pub use forever::JobResult;
pub use instant::{InvalidTick, Tick};
pub use job::{TickJob, TickJobBuilder};
pub use period::Period;
pub use run::TickOutcome;
pub use ticks::{Missed, Ticks};
