//! What is wrong with a tick, a job or a claim. None of these is an outcome of a claim.

use std::time::Duration;

use super::instant::Tick;
use super::period::Period;
use crate::display::Ms;
use crate::error::InvalidInput;
use crate::ttl::Ttl;

/// An instant that cannot be a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTick {
    /// Ticks are counted from the Unix epoch on.
    #[error("instant is {} before the Unix epoch", Ms(*by))]
    BeforeEpoch {
        /// How long before.
        by: Duration,
    },
    /// The instant is hundreds of millions of years away.
    #[error("instant is above the maximum of {} ms after the Unix epoch", u64::MAX)]
    OutOfRange,
}

/// Rules that no job can have, found when it is built. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickJobError {
    /// Jobs without a name would share their ticks.
    #[error("job name is empty, at least 1 byte is needed")]
    NameEmpty,
    /// Ticks are whole milliseconds.
    #[error("period {} is below the minimum of {}", Ms(*period), Ttl::MIN)]
    PeriodTooShort {
        /// The period given.
        period: Duration,
    },
    /// The period is above a year.
    #[error("period {} is above the maximum of {} (365 days)", Ms(*period), Ttl::MAX)]
    PeriodTooLong {
        /// The period given.
        period: Duration,
    },
    /// Ticks are whole milliseconds, and a rounded period would drift.
    #[error("period {} is no whole number of milliseconds", Ms(*period))]
    PeriodNotWhole {
        /// The period given.
        period: Duration,
    },
    /// A claim would be forgotten while another instance may still make it again.
    #[error(
        "retention {} is below the minimum of {}: late limit {} + future limit {} + \
         twice the allowed skew {}",
        Ms(*retention), Ms(*minimum), Ms(*late_limit), Ms(*future_limit), Ms(*allowed_skew)
    )]
    RetentionTooShort {
        /// The retention, given or by default.
        retention: Duration,
        /// What the limits need. An overflow counts as [`Duration::MAX`].
        minimum: Duration,
        /// The late limit, given or by default.
        late_limit: Duration,
        /// The future limit, given or by default.
        future_limit: Duration,
        /// The allowed skew, given or by default.
        allowed_skew: Duration,
    },
    /// The retention is above the longest ttl.
    #[error("retention {} is above the maximum of {} (365 days)", Ms(*retention), Ttl::MAX)]
    RetentionTooLong {
        /// The retention given.
        retention: Duration,
    },
}

/// A claim that the caller should not have asked for. Nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickError {
    /// The tick lies too far ahead of this instance's wall clock: one of the two is wrong.
    #[error(
        "tick {tick} is {} in the future, above the limit of {}",
        Ms(*ahead), Ms(*limit)
    )]
    TooFarInFuture {
        /// The tick.
        tick: Tick,
        /// How far ahead it lies.
        ahead: Duration,
        /// The job's future limit.
        limit: Duration,
    },
    /// The tick is no multiple of the job's period. The usual cause is a tick made of the current
    /// time: every instance would have one of its own, and all would run.
    #[error("tick {tick} is no multiple of the job's period of {period}")]
    NotOfThePeriod {
        /// The tick.
        tick: Tick,
        /// The job's period.
        period: Period,
    },
    /// The job has no period whose ticks could be waited for.
    #[error("job {job} has no period, its instants come from a scheduler")]
    NoPeriod {
        /// The job's name.
        job: String,
    },
    /// The lock refused the request, for instance because the job's name makes too long a key.
    #[error("the tick cannot be claimed with this lock")]
    Invalid(#[source] InvalidInput),
}
