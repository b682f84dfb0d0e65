use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::executor::block_on;

use super::*;
use crate::custom::MaxWait;
use crate::error::{Contended, Unavailable};
use crate::tick::TickJobBuilder;
use crate::tick::fake::{Answer, FakeClock, FakeLock};

const TICK: Tick = Tick::from_millis(100_000);
const S: Duration = Duration::from_secs(1);

/// A job with a period of 1 s, and so a late limit of 1 s, on this clock.
fn builder(clock: &Arc<FakeClock>) -> TickJobBuilder {
    TickJob::every("reports", S).runtime(clock.clone())
}

fn job(clock: &Arc<FakeClock>) -> TickJob {
    builder(clock).build().unwrap()
}

#[test]
fn a_run_holds_its_claim_until_the_body_has_ended() {
    let locks = FakeLock::answering([Answer::Granted]);
    let job = job(&FakeClock::at(100_000));
    let outcome = block_on(job.run(&locks, TICK, async |claimed| {
        assert_eq!(locks.releases(), 0);
        claimed.tick()
    }));
    assert!(matches!(outcome, Ok(TickOutcome::Ran(TICK))), "{outcome:?}");
    assert_eq!(locks.releases(), 1);
}

#[test]
fn a_run_that_won_no_claim_does_not_run_and_says_why() {
    let ran = AtomicBool::new(false);
    let run = |now, locks: FakeLock| {
        let job = job(&FakeClock::at(now));
        block_on(job.run(&locks, TICK, async |_| ran.store(true, Ordering::SeqCst)))
    };
    let outage = AcquireError::Unavailable(Unavailable::default());
    let claimed = run(100_000, FakeLock::held_by(Some("theirs")));
    assert!(matches!(claimed, Ok(TickOutcome::AlreadyClaimed)));
    let late = run(200_000, FakeLock::default());
    assert!(matches!(late, Ok(TickOutcome::TooLate)));
    let down = run(100_000, FakeLock::failing(outage));
    assert!(matches!(down, Ok(TickOutcome::Unavailable(_))));
    let early = run(0, FakeLock::default());
    assert!(matches!(early, Err(TickError::TooFarInFuture { .. })));
    assert!(!ran.load(Ordering::SeqCst));
}

/// What a service does: a shared `dyn` lock, and a task that may move between threads.
#[test]
fn a_run_over_a_dyn_lock_can_be_spawned() {
    fn spawn<F: Future + Send + 'static>(future: F) -> F::Output {
        block_on(future)
    }
    let locks: Arc<dyn DistributedLock> =
        Arc::new(FakeLock::answering([Answer::Granted, Answer::Granted]));
    let job = job(&FakeClock::at(100_000));
    let text = String::from("done");
    let outcome = spawn(async move {
        let claim = job.claim(&*locks, TICK).await;
        assert!(matches!(claim, Ok(TickClaim::Won(_))));
        job.run(&locks, TICK, async |claimed| {
            std::future::ready(()).await;
            format!("{text} {}", claimed.tick())
        })
        .await
    });
    assert!(matches!(outcome, Ok(TickOutcome::Ran(text)) if text == "done 100000"));
}

fn run_alone(clock: &Arc<FakeClock>, locks: &FakeLock) -> TickOutcome<&'static str> {
    let job = builder(clock).no_overlap(true).build().unwrap();
    block_on(job.run(locks, TICK, async |_| "ran")).unwrap()
}

#[test]
fn runs_that_are_kept_apart_hold_an_extended_lock_on_the_name_besides() {
    let clock = FakeClock::at(100_300);
    let locks = FakeLock::answering([Answer::Granted, Answer::Granted]);
    assert!(matches!(run_alone(&clock, &locks), TickOutcome::Ran("ran")));
    let [claim, apart] = &locks.requests()[..] else {
        panic!("not two requests");
    };
    assert_eq!(claim.resource(), b"reports:100000");
    assert_eq!(apart.resource(), b"reports");
    assert_eq!(apart.options().auto_extend, Some(true));
    // As long as the tick may still be run.
    assert_eq!(apart.options().max_wait, Some(MaxWait::Limit(S * 7 / 10)));
    assert!(apart.options().max_hold > Some(S * 60 * 60 * 24 * 365));
}

#[test]
fn a_run_that_would_overlap_with_another_is_not_begun() {
    let clock = FakeClock::at(100_000);
    let apart = |answer| {
        let locks = FakeLock::answering([Answer::Granted, answer]);
        run_alone(&clock, &locks)
    };
    let held = AcquireError::Contended(Contended::default());
    assert!(matches!(apart(Answer::Failed(held)), TickOutcome::Overlaps));
    let outage = AcquireError::Unavailable(Unavailable::default());
    assert!(matches!(
        apart(Answer::Failed(outage)),
        TickOutcome::Unavailable(_)
    ));
    // It is the claimant alone who asks.
    let locks = FakeLock::held_by(Some("theirs"));
    assert!(matches!(
        run_alone(&clock, &locks),
        TickOutcome::AlreadyClaimed
    ));
    assert_eq!(locks.requests().len(), 1);
}

#[test]
fn the_jitter_is_random_and_leaves_time_for_the_claim() {
    for (now, random, slept) in [
        (100_000, 0, 0),
        (100_000, u32::MAX, 400),
        (100_000, u32::MAX / 2, 200),
        // 300 ms are left of the late limit.
        (100_700, u32::MAX, 150),
    ] {
        let clock = FakeClock::at(now);
        clock.set_random(random);
        let job = builder(&clock).start_jitter(S * 4 / 10).build().unwrap();
        let locks = FakeLock::answering([Answer::Granted]);
        let outcome = block_on(job.run(&locks, TICK, async |_| ()));
        assert!(matches!(outcome, Ok(TickOutcome::Ran(()))), "{outcome:?}");
        let [sleep] = clock.sleeps()[..] else {
            panic!("not one sleep");
        };
        assert_eq!(sleep.as_secs_f64().mul_add(1000.0, 0.5) as u64, slept);
    }
    let clock = FakeClock::at(101_001);
    let job = builder(&clock).start_jitter(S / 2).build().unwrap();
    let late = block_on(job.run(&FakeLock::default(), TICK, async |_| ()));
    assert!(matches!(late, Ok(TickOutcome::TooLate)));
    assert_eq!(clock.sleeps(), []);
}
