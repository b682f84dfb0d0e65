//! What the claim of another instance tells of the rules by which that one goes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::events;
use super::instant::Tick;
use super::job::TickJob;

impl TickJob {
    /// Says so, once, if a claim that will last for so much longer was made by other rules. `now` is the
    /// time since the epoch, after the answer.
    pub(super) fn tell_of_other_rules(&self, tick: Tick, left: Duration, now: Duration) {
        if is_by_other_rules(self, tick, left, now) && !self.has_told.swap(true, Ordering::Relaxed)
        {
            events::other_rules(self.name(), tick, self.retention(), left);
        }
    }
}

/// Returns whether no instance with the rules of `job` can have made a claim that has so much left.
fn is_by_other_rules(job: &TickJob, tick: Tick, left: Duration, now: Duration) -> bool {
    let retention = job.retention();
    // Clocks of servers may run a hundredth faster or slower.
    let drift = retention / 100;
    // The fastest clock may have claimed it this long ago, if ours is the slowest.
    let ahead = job.future_limit() + job.allowed_skew() * 2;
    let age = now.saturating_add(ahead).saturating_sub(tick.since_epoch());
    let least = retention.saturating_sub(age.saturating_add(drift));
    left < least || left > retention + drift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_that_no_instance_with_these_rules_can_have_made_is_by_others() {
        let s = Duration::from_secs;
        let job = TickJob::every("job", s(60)).build().unwrap();
        assert_eq!(job.retention(), s(600));
        let tick = Tick::from_millis(120_000);
        // Claimed up to 15 s before the tick by the true time, or at this moment.
        let table = [
            // age of the tick, left of the claim
            (0, 600, false),
            (0, 607, true),
            (0, 3_600, true),
            (0, 579, false),
            (0, 578, true),
            (0, 60, true),
            (30, 600, false),
            (30, 549, false),
            (30, 548, true),
        ];
        for (age, left, expected) in table {
            let now = s(120 + age);
            let actual = is_by_other_rules(&job, tick, s(left), now);
            assert_eq!(actual, expected, "{age} s after the tick, {left} s left");
        }
    }
}
