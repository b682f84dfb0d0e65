//! Cron expressions with time zones (feature `cron`).

use std::str::FromStr;
use std::sync::Arc;

use chrono::DateTime;
use chrono_tz::Tz;
use croner::Cron;

use super::error::TickJobError;
use super::instant::Tick;
use super::job::{TickJob, TickJobBuilder};
use super::schedule::Schedule;

impl TickJob {
    /// A job whose ticks are those of a cron expression, in a time zone of the IANA's database, such as
    /// `UTC` or `Europe/Berlin` (feature `cron`).
    ///
    /// The expression has five fields: minute, hour, day of the month, month, day of the week (0 and 7 are
    /// Sunday); with six, the first are seconds, and a seventh are years. The crate
    /// [`croner`](https://docs.rs/croner) reads it.
    ///
    /// ```
    /// use lock_core::tick::{Tick, TickJob};
    ///
    /// let job = TickJob::cron("report", "0 3 * * *", "Europe/Berlin").build()?;
    /// let midnight = Tick::from_millis(1_796_083_200_000); // 2026-12-01 00:00 UTC
    /// let three = job.tick_after(midnight)?.ok_or("no more ticks")?;
    /// assert_eq!(three.as_millis() - midnight.as_millis(), 2 * 60 * 60 * 1000);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Daylight saving time
    ///
    /// Where clocks are set forward, a job of a time that does not exist that day runs at the first moment
    /// after the gap: `30 2 * * *` at 03:00. Where they are set back, a job of a time that comes twice runs at
    /// the first of the two. Jobs of every hour or minute (with `*` in that field) run each time, so `*/30 * *
    /// * *` runs twice more in the longer night and twice less in the shorter one. All instances must have the
    /// same version of the time zones, which are compiled in. `UTC` has none of this.
    ///
    /// # Errors
    ///
    /// [`build`](TickJobBuilder::build) refuses an expression that cannot be read or never comes true, and a
    /// time zone that it does not know.
    pub fn cron(
        name: impl Into<String>,
        expression: impl AsRef<str>,
        time_zone: impl AsRef<str>,
    ) -> TickJobBuilder {
        let schedule = CronSchedule::parse(expression.as_ref(), time_zone.as_ref());
        TickJobBuilder::new(
            name.into(),
            schedule.map(|cron| Schedule::Cron(Arc::new(cron))),
        )
    }
}

#[derive(Debug)]
pub(super) struct CronSchedule {
    cron: Cron,
    time_zone: Tz,
}

impl CronSchedule {
    fn parse(expression: &str, time_zone: &str) -> Result<Self, TickJobError> {
        let cron = Cron::from_str(expression).map_err(|error| TickJobError::CronUnreadable {
            expression: expression.to_owned(),
            reason: error.to_string(),
        })?;
        let time_zone = Tz::from_str(time_zone).map_err(|_| TickJobError::TimeZoneUnknown {
            time_zone: time_zone.to_owned(),
        })?;
        let schedule = Self { cron, time_zone };
        match schedule.next_after(Tick::from_millis(0)) {
            Some(_) => Ok(schedule),
            None => Err(TickJobError::CronNever {
                expression: expression.to_owned(),
            }),
        }
    }

    /// Its instants are whole seconds.
    pub(super) fn next_after(&self, after: Tick) -> Option<Tick> {
        let seconds = i64::try_from(after.as_millis() / 1_000).ok()?;
        let after = DateTime::from_timestamp(seconds, 0)?.with_timezone(&self.time_zone);
        // It fails where it finds none within some thousand years.
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        let seconds = u64::try_from(next.timestamp()).ok()?;
        Some(Tick::from_millis(seconds * 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(expression: &str, time_zone: &str) -> Result<TickJob, TickJobError> {
        TickJob::cron("job", expression, time_zone).build()
    }

    fn tick(time: &str) -> Tick {
        let time: DateTime<chrono::Utc> = time.parse().unwrap();
        Tick::from_millis(time.timestamp_millis().try_into().unwrap())
    }

    #[test]
    fn an_expression_that_cannot_be_read_or_never_comes_true_is_refused() {
        for (expression, time_zone, message) in [
            (
                "every so often",
                "UTC",
                "cron expression \"every so often\" cannot be read: ",
            ),
            (
                "61 * * * *",
                "UTC",
                "cron expression \"61 * * * *\" cannot be read: ",
            ),
            ("", "UTC", "cron expression \"\" cannot be read: "),
            (
                "0 3 * * *",
                "Berlin",
                "time zone \"Berlin\" is not one of the IANA's database",
            ),
            ("0 3 * * *", "", "time zone \"\" is not one"),
            (
                "0 0 30 2 *",
                "UTC",
                "cron expression \"0 0 30 2 *\" never comes true",
            ),
        ] {
            let error = cron(expression, time_zone).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn an_expression_is_read_in_its_time_zone() {
        let after = tick("2026-12-01T00:00:00Z");
        for (expression, time_zone, expected) in [
            ("0 3 * * *", "UTC", "2026-12-01T03:00:00Z"),
            ("0 3 * * *", "Europe/Berlin", "2026-12-01T02:00:00Z"),
            ("0 3 * * *", "Asia/Kathmandu", "2026-12-01T21:15:00Z"),
            ("*/2 * * * * *", "UTC", "2026-12-01T00:00:02Z"),
            ("0 0 * * 0", "UTC", "2026-12-06T00:00:00Z"),
            ("@monthly", "UTC", "2027-01-01T00:00:00Z"),
            ("0 0 0 29 2 *", "UTC", "2028-02-29T00:00:00Z"),
        ] {
            let job = cron(expression, time_zone).unwrap();
            let next = job.tick_after(after).unwrap();
            assert_eq!(next, Some(tick(expected)), "{expression} {time_zone}");
        }
    }

    /// One cron library adds the fraction of its start to each instant.
    #[test]
    fn instants_have_no_fraction_whenever_they_are_asked_for() {
        let job = cron("*/2 * * * * *", "UTC").unwrap();
        for (after, expected) in [(0, 2_000), (1_999, 2_000), (2_000, 4_000), (2_123, 4_000)] {
            let next = job.tick_after(Tick::from_millis(after)).unwrap();
            assert_eq!(next, Some(Tick::from_millis(expected)), "{after}");
        }
        assert_eq!(job.tick_after(Tick::from_millis(u64::MAX)).unwrap(), None);
    }

    #[test]
    fn a_time_that_does_not_exist_or_comes_twice_is_run_once() {
        let ticks = |expression, from, count| {
            let job = cron(expression, "Europe/Berlin").unwrap();
            let mut at = tick(from);
            let next = || {
                at = job.tick_after(at).unwrap().unwrap();
                at
            };
            std::iter::repeat_with(next).take(count).collect::<Vec<_>>()
        };
        let times = |times: &[&str]| times.iter().map(|time| tick(time)).collect::<Vec<_>>();
        // 29 March: 02:00 to 03:00 do not exist.
        assert_eq!(
            ticks("30 2 * * *", "2026-03-28T12:00:00Z", 2),
            times(&["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"])
        );
        // 25 October: 02:00 to 03:00 come twice.
        assert_eq!(
            ticks("30 2 * * *", "2026-10-24T12:00:00Z", 2),
            times(&["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"])
        );
        // With a star, each hour is an hour.
        assert_eq!(
            ticks("0 * * * *", "2026-10-24T23:30:00Z", 3),
            times(&[
                "2026-10-25T00:00:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T02:00:00Z"
            ])
        );
    }

    #[test]
    fn the_last_tick_of_an_expression_is_caught_up() {
        let job = cron("0 3 * * *", "Europe/Berlin").unwrap();
        let now = tick("2026-12-01T02:00:09Z");
        let first = job.tick_after(tick("2026-12-01T01:59:59Z")).unwrap();
        assert_eq!(
            job.schedule().latest(first.unwrap(), now),
            tick("2026-12-01T02:00:00Z")
        );
    }
}
