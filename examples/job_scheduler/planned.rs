//! The instant for which a run was planned, for schedulers that do not hand it over.

use chrono::{DateTime, TimeDelta, Utc};
use cron::Schedule;

/// A start may come this much before its instant, because timers follow another clock than the
/// wall clock, which is being set all the time. It must be less than the shortest time between two
/// instants.
const EARLY: TimeDelta = TimeDelta::milliseconds(100);

/// The instant for which a scheduler has planned a run that it starts at `started`: the latest one
/// of the schedule that is not later. `None` if there is none.
///
/// To take the instant that a scheduler hands over is better. This one goes wrong when a run starts
/// late by more than the time to the next instant: it is taken for the next one then, which another
/// instance may have claimed, and its own is missed here. It never makes two instances run one instant.
pub(crate) fn planned(schedule: &Schedule, started: DateTime<Utc>) -> Option<DateTime<Utc>> {
    // The iterator leaves out an instant at which it starts.
    let after = started + EARLY + TimeDelta::nanoseconds(1);
    schedule.after(&after).next_back()
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    fn at(time: &str) -> DateTime<Utc> {
        format!("2026-11-29T{time}Z").parse().unwrap()
    }

    #[test]
    fn a_run_belongs_to_the_latest_instant_that_is_not_after_its_start() {
        let second = "* * * * * *";
        let quarter = "0 */15 * * * *";
        for (schedule, started, instant) in [
            (second, "12:00:01", "12:00:01"),
            (second, "12:00:01.000000001", "12:00:01"),
            (second, "12:00:01.5", "12:00:01"), // as late as tokio-cron-scheduler may be
            (second, "12:00:01.899", "12:00:01"),
            (second, "12:00:00.9", "12:00:01"), // a timer that fires early
            (second, "12:00:00.899", "12:00:00"),
            (quarter, "12:15:00", "12:15:00"),
            (quarter, "12:29:59.5", "12:15:00"),
            (quarter, "12:29:59.95", "12:30:00"),
            (quarter, "12:30:00.5", "12:30:00"),
            (quarter, "00:00:00.5", "00:00:00"),
        ] {
            let parsed = Schedule::from_str(schedule).unwrap();
            let found = planned(&parsed, at(started));
            assert_eq!(found, Some(at(instant)), "{schedule} at {started}");
        }
    }

    #[test]
    fn a_schedule_that_has_not_begun_has_planned_nothing() {
        let schedule = Schedule::from_str("0 0 0 1 1 * 2099").unwrap();
        assert_eq!(planned(&schedule, at("12:00:00")), None);
    }
}
