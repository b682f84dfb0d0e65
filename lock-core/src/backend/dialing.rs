//! When to connect: one attempt at a time, and a pause after each that failed.

use std::time::Duration;

use crate::node::NodeError;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// An attempt that is older than its timeout by this much belongs to a runtime that nobody drives
/// any more: it does not even come to the point where it would be cut off.
const ABANDONED_AFTER: Duration = Duration::from_secs(1);

/// The attempt that runs, and those that failed in a row.
#[derive(Debug, Default)]
pub(super) struct Dialing {
    /// When the attempt that runs was begun.
    since: Option<Duration>,
    /// The number of the current or last attempt, by which a late one is told.
    number: u64,
    /// Until then no other server is looked for.
    stays_until: Duration,
    failures: u32,
    last_failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    error: NodeError,
    until: Duration,
}

/// What a call that finds no connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It waits for the attempt that runs.
    Wait,
    /// It waits for an attempt with this number, which is to be begun. An earlier one is given up.
    Connect(u64),
}

impl Dialing {
    /// Lets a call wait for a connection, or says why nothing is sent.
    pub(super) fn admit(
        &mut self,
        now: Duration,
        within: Duration,
        connect_timeout: Duration,
    ) -> Result<Admission, NodeError> {
        if let Some(age) = self.age(now, connect_timeout) {
            return if age > within {
                Err(self.still_connecting())
            } else {
                Ok(Admission::Wait)
            };
        }
        match &self.last_failure {
            Some(failure) if now < failure.until => return Err(failure.error.clone()),
            _ => {}
        }
        Ok(Admission::Connect(self.begin(now)))
    }

    /// The server says that it is the wrong one. Returns the number of an attempt that is to be begun
    /// beside its connection, if none runs and it is time for another one.
    pub(super) fn look_elsewhere(
        &mut self,
        now: Duration,
        connect_timeout: Duration,
    ) -> Option<u64> {
        if now < self.stays_until || self.age(now, connect_timeout).is_some() {
            return None;
        }
        self.stays_until = now.saturating_add(LONGEST_PAUSE);
        Some(self.begin(now))
    }

    fn begin(&mut self, now: Duration) -> u64 {
        self.number += 1;
        self.since = Some(now);
        self.number
    }

    /// The age of the attempt that runs, if somebody drives it.
    fn age(&self, now: Duration, connect_timeout: Duration) -> Option<Duration> {
        let age = now.saturating_sub(self.since?);
        (age <= connect_timeout.saturating_add(ABANDONED_AFTER)).then_some(age)
    }

    /// What to say to a call that has no time to wait any longer: the cause of the last failure is
    /// most likely that of this delay.
    pub(super) fn still_connecting(&self) -> NodeError {
        match &self.last_failure {
            Some(failure) => failure.error.clone(),
            None => NodeError::not_sent("still connecting"),
        }
    }

    /// Returns whether this attempt is the one that runs. From now on it has time to end.
    pub(super) fn renew(&mut self, number: u64, now: Duration) -> bool {
        let is_current = self.since.is_some() && number == self.number;
        if is_current {
            self.since = Some(now);
        }
        is_current
    }

    /// The attempt is over.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// Connecting failed, or the connection was of no use. `random` spreads the pause.
    pub(super) fn failed(&mut self, now: Duration, random: [u8; 16], error: NodeError) {
        let pause = pause(self.failures, u16::from_le_bytes([random[0], random[1]]));
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(Failure {
            error,
            until: now.saturating_add(pause),
        });
    }

    /// The server answered a call: it works.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
        self.last_failure = None;
    }
}

/// Doubles from the first pause to the longest, and takes a random part between half and all of it,
/// so that many processes do not come back to a server all at once.
fn pause(failures: u32, random: u16) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    let half = doubled.min(LONGEST_PAUSE) / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TIMEOUT: Duration = Duration::from_secs(1);

    fn text(admission: Result<Admission, NodeError>) -> String {
        admission.unwrap_err().to_string()
    }

    #[test]
    fn the_pause_grows_from_10_to_250_ms_and_never_further() {
        assert_eq!(pause(0, u16::MAX), 10 * MS);
        assert_eq!(pause(0, 0), 5 * MS);
        assert_eq!(pause(3, u16::MAX), 80 * MS);
        for failures in [5, 16, 1000, u32::MAX] {
            assert_eq!(pause(failures, u16::MAX), LONGEST_PAUSE);
            assert_eq!(pause(failures, 0), LONGEST_PAUSE / 2);
        }
    }

    #[test]
    fn one_attempt_runs_at_a_time_and_calls_wait_for_it_as_long_as_they_may() {
        let mut dialing = Dialing::default();
        let admit = |dialing: &mut Dialing, now| dialing.admit(now, 100 * MS, TIMEOUT);
        assert_eq!(admit(&mut dialing, MS).unwrap(), Admission::Connect(1));
        assert_eq!(admit(&mut dialing, MS).unwrap(), Admission::Wait);
        assert_eq!(admit(&mut dialing, 101 * MS).unwrap(), Admission::Wait);
        assert_eq!(text(admit(&mut dialing, 102 * MS)), "still connecting");
        dialing.end();
        assert_eq!(
            admit(&mut dialing, 102 * MS).unwrap(),
            Admission::Connect(2)
        );
    }

    #[test]
    fn a_failure_stands_for_its_pause_and_is_the_cause_of_the_next_delay() {
        let mut dialing = Dialing::default();
        dialing.failed(Duration::ZERO, [255; 16], NodeError::not_sent("down"));
        assert_eq!(text(dialing.admit(9 * MS, MS, TIMEOUT)), "down");
        let next = dialing.admit(10 * MS, MS, TIMEOUT).unwrap();
        assert_eq!(next, Admission::Connect(1));
        assert_eq!(text(dialing.admit(20 * MS, MS, TIMEOUT)), "down");
        dialing.succeeded();
        assert_eq!(
            text(dialing.admit(20 * MS, MS, TIMEOUT)),
            "still connecting"
        );
    }

    #[test]
    fn another_server_is_looked_for_every_250_ms_at_most_and_not_while_an_attempt_runs() {
        let mut dialing = Dialing::default();
        let elsewhere = |dialing: &mut Dialing, now| dialing.look_elsewhere(now, TIMEOUT);
        assert_eq!(elsewhere(&mut dialing, MS), Some(1));
        assert_eq!(elsewhere(&mut dialing, 251 * MS), None, "it runs");
        dialing.end();
        assert_eq!(elsewhere(&mut dialing, 250 * MS), None, "too early");
        assert_eq!(elsewhere(&mut dialing, 251 * MS), Some(2));
        let abandoned = 252 * MS + TIMEOUT + ABANDONED_AFTER;
        assert_eq!(elsewhere(&mut dialing, abandoned), Some(3));
    }

    #[test]
    fn an_attempt_that_nobody_drives_is_given_up_and_told_by_its_number() {
        let mut dialing = Dialing::default();
        let long = Duration::from_secs(9);
        assert_eq!(
            dialing.admit(MS, long, TIMEOUT).unwrap(),
            Admission::Connect(1)
        );
        let last = MS + TIMEOUT + ABANDONED_AFTER;
        assert_eq!(dialing.admit(last, long, TIMEOUT).unwrap(), Admission::Wait);
        let later = last + MS;
        assert_eq!(
            dialing.admit(later, long, TIMEOUT).unwrap(),
            Admission::Connect(2)
        );
        assert!(!dialing.renew(1, later));
        assert!(dialing.renew(2, later + TIMEOUT));
        let renewed = later + 2 * TIMEOUT + ABANDONED_AFTER;
        assert_eq!(
            dialing.admit(renewed, long, TIMEOUT).unwrap(),
            Admission::Wait
        );
        dialing.end();
        assert!(!dialing.renew(2, later));
    }
}
