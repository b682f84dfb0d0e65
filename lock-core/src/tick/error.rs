//! Why a job cannot be built.

use std::time::Duration;

use crate::display::{Line, Ms};

/// Why a job cannot be built with these rules. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TickJobError {
    /// The job has no name, so it would share its ticks with others.
    #[error("job name is empty, at least 1 byte is needed")]
    NameEmpty,
    /// The period is below a millisecond.
    #[error("period {} is below the minimum of 1 ms", Ms(*period))]
    PeriodTooShort {
        /// The period given.
        period: Duration,
    },
    /// The period is above a year.
    #[error("period {} is above the maximum of 365 days", Ms(*period))]
    PeriodTooLong {
        /// The period given.
        period: Duration,
    },
    /// The period is not a whole number of milliseconds. Ticks are, and a rounded period would drift.
    #[error("period {} is not a whole number of milliseconds", Ms(*period))]
    PeriodNotWhole {
        /// The period given.
        period: Duration,
    },
    /// The cron expression cannot be read. (Feature `cron`)
    #[error(
        "cron expression \"{}\" cannot be read: {}",
        Line(expression),
        Line(reason)
    )]
    CronUnreadable {
        /// The expression given.
        expression: String,
        /// Why it cannot.
        reason: String,
    },
    /// The cron expression names a day that does not exist. (Feature `cron`)
    #[error("cron expression \"{}\" never comes true", Line(expression))]
    CronNever {
        /// The expression given.
        expression: String,
    },
    /// There is no such time zone. (Feature `cron`)
    #[error(
        "time zone \"{}\" is not one of the IANA's database, such as UTC or Europe/Berlin",
        Line(time_zone)
    )]
    TimeZoneUnknown {
        /// The name given.
        time_zone: String,
    },
    /// A claim would be forgotten while another instance can still make it again.
    #[error(
        "retention {} is below the minimum of {}: late limit {} + future limit {} + \
         twice the allowed skew {}",
        Ms(*retention), Ms(*minimum), Ms(*late_limit), Ms(*future_limit), Ms(*allowed_skew)
    )]
    RetentionTooShort {
        /// The retention, given or by default.
        retention: Duration,
        /// The shortest for these limits. An overflow counts as [`Duration::MAX`].
        minimum: Duration,
        /// The late limit, given or by default.
        late_limit: Duration,
        /// The future limit, given or by default.
        future_limit: Duration,
        /// The allowed skew, given or by default.
        allowed_skew: Duration,
    },
    /// The retention is below what instances need that are replaced one after the other.
    #[error("retention {} is below the minimum of {}", Ms(*retention), Ms(*minimum))]
    RetentionBelowFloor {
        /// The retention given.
        retention: Duration,
        /// The shortest retention of any job.
        minimum: Duration,
    },
    /// Ticks would be caught up that are too late to be claimed.
    #[error("catch-up {} is above the late limit of {}", Ms(*catch_up), Ms(*late_limit))]
    CatchUpTooLong {
        /// The catch-up given.
        catch_up: Duration,
        /// The late limit, given or by default.
        late_limit: Duration,
    },
    /// A tick could be too late when its random wait is over.
    #[error("start jitter {} is above half the late limit of {}", Ms(*jitter), Ms(*late_limit))]
    StartJitterTooLong {
        /// The jitter given.
        jitter: Duration,
        /// The late limit, given or by default.
        late_limit: Duration,
    },
    /// The retention is above the longest ttl.
    #[error("retention {} is above the maximum of 365 days", Ms(*retention))]
    RetentionTooLong {
        /// The retention given.
        retention: Duration,
    },
}
