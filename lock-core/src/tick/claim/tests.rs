use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;

use super::*;
use crate::custom::MaxWait;
use crate::error::{InvalidInput, TooSlow, Unavailable};
use crate::tick::TickJobBuilder;
use crate::tick::fake::{Answer, FakeClock, FakeLock};

const TICK: Tick = Tick::from_millis(100_000);
const S: Duration = Duration::from_secs(1);

/// A job with a period of 1 s, and so a late limit of 1 s, on this clock.
fn job(clock: &Arc<FakeClock>) -> TickJob {
    let job = TickJob::every("reports", S).runtime(clock.clone());
    job.build().unwrap()
}

fn claim(job: &TickJob, locks: &FakeLock) -> Result<TickClaim, TickError> {
    block_on(job.claim(locks, TICK))
}

#[test]
fn a_claim_is_a_lock_on_job_and_tick_for_the_retention() {
    let clock = FakeClock::at(100_300);
    let locks = FakeLock::answering([Answer::Granted]);
    let Ok(TickClaim::Won(claimed)) = claim(&job(&clock), &locks) else {
        panic!("not won");
    };
    assert_eq!(claimed.tick(), TICK);
    assert_eq!(claimed.guard().resource(), b"reports:100000");

    let [request] = &locks.requests()[..] else {
        panic!("not one request");
    };
    assert_eq!(request.resource(), b"reports:100000");
    assert_eq!(request.options().ttl, Some(60 * S));
    assert_eq!(request.options().hold_at_least, 60 * S);
    assert!(request.options().fail_if_held);
    // What is left of the window: outages and split votes are retried for so long.
    assert_eq!(request.options().max_wait, Some(MaxWait::Limit(S * 7 / 10)));
}

#[test]
fn a_claim_waits_no_longer_than_the_window_is_open() {
    for (now, left) in [
        (95_000, 6_000),
        (99_700, 1_300),
        (100_000, 1_000),
        (101_000, 0),
    ] {
        let locks = FakeLock::answering([Answer::Granted]);
        let claim = claim(&job(&FakeClock::at(now)), &locks);
        assert!(matches!(claim, Ok(TickClaim::Won(_))), "{now}: {claim:?}");
        let left = Duration::from_millis(left);
        assert_eq!(
            locks.requests()[0].options().max_wait,
            Some(MaxWait::Limit(left))
        );
    }
}

#[test]
fn a_tick_that_is_too_late_is_not_asked_for() {
    let locks = FakeLock::default();
    let claim = claim(&job(&FakeClock::at(101_001)), &locks);
    assert!(matches!(claim, Ok(TickClaim::TooLate)), "{claim:?}");
    assert_eq!(locks.requests(), []);
}

#[test]
fn a_tick_too_far_in_the_future_is_the_callers_error() {
    let locks = FakeLock::default();
    let error = claim(&job(&FakeClock::at(94_999)), &locks).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tick 100000 is 5001 ms in the future, above the limit of 5000 ms"
    );
    assert_eq!(locks.requests(), []);
}

#[test]
fn a_tick_between_the_ticks_of_the_period_is_the_callers_error() {
    let locks = FakeLock::default();
    let clock = FakeClock::at(100_300);
    let now = Tick::at(clock.system_time()).unwrap();
    let error = block_on(job(&clock).claim(&locks, now)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tick 100300 is not a multiple of the job's period of 1000 ms"
    );
    assert_eq!(locks.requests(), []);
}

/// What one cron library made of `*/2 * * * * *`: each instance had the fraction of its own start.
#[test]
fn an_instant_with_a_fraction_of_a_second_is_refused_unless_told_otherwise() {
    let instants = TickJob::at_instants("reports").runtime(FakeClock::at(100_300));
    let claim = |instants: TickJobBuilder, millis| {
        let locks = FakeLock::answering([Answer::Granted]);
        let claim = block_on((instants.build().unwrap()).claim(&locks, Tick::from_millis(millis)));
        (claim, locks.requests().len())
    };
    let (refused, asked) = claim(instants.clone(), 100_300);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "tick 100300 is not a whole second but 300 ms past one: if each instance has a fraction of its \
         own, each claims another instant and all of them run; allow_fractions(true) allows it"
    );
    assert_eq!(asked, 0);
    let (whole, _) = claim(instants.clone(), 100_000);
    assert!(matches!(whole, Ok(TickClaim::Won(_))));
    let (allowed, _) = claim(instants.allow_fractions(true), 100_300);
    assert!(matches!(allowed, Ok(TickClaim::Won(_))));
}

#[test]
fn only_a_holder_that_a_quorum_names_is_a_claimant() {
    let job = job(&FakeClock::at(100_000));
    let named = claim(&job, &FakeLock::held_by(Some("theirs")));
    assert!(matches!(named, Ok(TickClaim::AlreadyClaimed)), "{named:?}");

    let split = claim(&job, &FakeLock::held_by(None));
    let Ok(TickClaim::Unavailable(AcquireError::Contended(_))) = split else {
        panic!("refusals without a holder decide nothing: {split:?}");
    };
}

#[test]
fn outages_and_slow_nodes_fail_closed() {
    let job = job(&FakeClock::at(100_000));
    for error in [
        AcquireError::Unavailable(Unavailable::default()),
        AcquireError::TooSlow(TooSlow::default()),
    ] {
        let claim = claim(&job, &FakeLock::failing(error));
        assert!(matches!(claim, Ok(TickClaim::Unavailable(_))), "{claim:?}");
    }
}

#[test]
fn a_request_that_the_lock_refuses_is_the_callers_error() {
    let refusal = InvalidInput::ResourceTooLong {
        len: 70_000,
        max: 65_536,
    };
    let locks = FakeLock::failing(AcquireError::Invalid(refusal.clone()));
    let error = claim(&job(&FakeClock::at(100_000)), &locks).unwrap_err();
    assert_eq!(error, TickError::Invalid(refusal));
}

#[test]
fn a_claim_won_after_the_window_has_closed_does_not_count() {
    for (answered, won) in [(101_000, true), (101_001, false)] {
        let clock = FakeClock::at(100_900);
        let locks = FakeLock::answering([Answer::GrantedAt(answered, clock.clone())]);
        let claim = claim(&job(&clock), &locks).unwrap();
        assert_eq!(matches!(claim, TickClaim::Won(_)), won, "{claim:?}");
        assert_eq!(matches!(claim, TickClaim::TooLate), !won, "{claim:?}");
    }
}

#[test]
fn an_answer_after_the_window_has_closed_still_says_what_it_says() {
    let after = Window::Closed;
    let failed = Err(AcquireError::Unavailable(Unavailable::default()));
    let claim = judge(TICK, failed, after).unwrap();
    assert!(matches!(claim, TickClaim::Unavailable(_)), "{claim:?}");
}
