use std::time::UNIX_EPOCH;

use futures::FutureExt;
use futures::executor::block_on;

use super::*;
use crate::tick::fake::FakeClock;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn job(clock: &Arc<FakeClock>, late: u64) -> TickJob {
    let job = TickJob::every("reports", ms(1_000)).late_limit(ms(late));
    job.runtime(clock.clone()).build().unwrap()
}

fn next(ticks: &mut Ticks) -> u64 {
    block_on(ticks.next()).as_millis()
}

#[test]
fn a_step_finds_the_first_tick_that_is_new_and_young_enough() {
    let due = |millis| Step::Due(Tick::from_millis(millis));
    let table = [
        // last, now, late limit, step
        (5_000, 5_000, 1_000, Step::Sleep(ms(1_000))),
        (5_000, 5_999, 1_000, Step::Sleep(ms(1))),
        (5_000, 6_000, 1_000, due(6_000)),
        (5_000, 6_999, 1_000, due(6_000)),
        // Exactly as old as the limit is not too old; one millisecond more is.
        (5_000, 7_000, 1_000, due(6_000)),
        (5_000, 7_001, 1_000, due(7_000)),
        // Missed ticks come in order as long as they are young enough.
        (5_000, 9_500, 3_500, due(6_000)),
        (5_000, 9_501, 3_500, due(7_000)),
        // A limit below the period leaves gaps in which nothing is due.
        (5_000, 6_100, 100, due(6_000)),
        (5_000, 6_101, 100, Step::Sleep(ms(899))),
        (5_000, 6_001, 0, Step::Sleep(ms(999))),
        // The clock went back: nothing until it has caught up.
        (5_000, 4_200, 1_000, Step::Sleep(ms(1_800))),
        (5_000, 0, 1_000, Step::Sleep(ms(6_000))),
        // The clock went far ahead: no tick between is looked at.
        (
            5_000,
            u64::MAX / 2 / 1_000 * 1_000,
            0,
            due(u64::MAX / 2 / 1_000 * 1_000),
        ),
        // A starting point need not be a tick of the period.
        (5_300, 6_000, 1_000, due(6_000)),
        // There is no tick beyond the end of time.
        (u64::MAX, u64::MAX, 1_000, Step::Sleep(Duration::MAX)),
    ];
    for (last, now, late, expected) in table {
        let period = Period::new(ms(1_000)).unwrap();
        let actual = step(period, Tick::from_millis(last), ms(now), ms(late));
        assert_eq!(
            actual, expected,
            "last {last}, now {now}, late limit {late}"
        );
    }
}

#[test]
fn ticks_begin_with_the_first_after_the_first_call() {
    let clock = FakeClock::at(5_300);
    let mut ticks = job(&clock, 1_000).ticks().unwrap();
    clock.set(8_400);
    assert_eq!(next(&mut ticks), 9_000);
    assert_eq!(clock.sleeps(), [ms(600)]);
    assert_eq!(next(&mut ticks), 10_000);
    assert_eq!(clock.sleeps(), [ms(1_000)]);
}

#[test]
fn ticks_after_a_tick_include_those_missed_since() {
    let clock = FakeClock::at(7_900);
    let mut ticks = job(&clock, 2_000)
        .ticks_after(Tick::from_millis(5_000))
        .unwrap();
    assert_eq!([(); 3].map(|()| next(&mut ticks)), [6_000, 7_000, 8_000]);
    assert_eq!(clock.sleeps(), [ms(100)]);
}

#[test]
fn ticks_missed_while_the_body_ran_follow_in_order_unless_too_old() {
    let clock = FakeClock::at(5_000);
    let mut ticks = job(&clock, 2_500).ticks().unwrap();
    assert_eq!(next(&mut ticks), 6_000);
    clock.set(10_000);
    assert_eq!(
        [(); 4].map(|()| next(&mut ticks)),
        [8_000, 9_000, 10_000, 11_000]
    );
}

#[test]
fn a_clock_set_back_repeats_no_tick() {
    let clock = FakeClock::at(5_999);
    let mut ticks = job(&clock, 1_000).ticks().unwrap();
    assert_eq!(next(&mut ticks), 6_000);
    clock.set(3_500);
    assert_eq!(next(&mut ticks), 7_000);
    let slept: Duration = clock.sleeps().into_iter().sum();
    assert_eq!(slept, ms(3_501));
}

#[test]
fn a_clock_set_a_year_ahead_yields_the_latest_ticks_alone() {
    let clock = FakeClock::at(5_500);
    let mut ticks = job(&clock, 1_000).ticks().unwrap();
    assert_eq!(next(&mut ticks), 6_000);
    let year = 365 * 24 * 60 * 60 * 1_000;
    clock.set(year + 300);
    assert_eq!(next(&mut ticks), year);
    assert_eq!(next(&mut ticks), year + 1_000);
}

#[test]
fn a_timer_that_fires_early_is_no_tick() {
    let clock = FakeClock::at(5_000);
    for early in [5_400, 5_999] {
        clock.wake_at(early);
    }
    let mut ticks = job(&clock, 1_000).ticks().unwrap();
    assert_eq!(next(&mut ticks), 6_000);
    assert_eq!(clock.sleeps(), [ms(1_000), ms(600), ms(1)]);
    assert_eq!(clock.system_time(), UNIX_EPOCH + ms(6_000));
}

#[test]
fn a_clock_that_is_set_during_a_long_sleep_is_noticed_within_a_second() {
    let day = 24 * 60 * 60 * 1_000;
    let clock = FakeClock::at(1_000);
    clock.wake_at(day + 7);
    let job = TickJob::every("reports", ms(day))
        .runtime(clock.clone())
        .build();
    let mut ticks = job.unwrap().ticks().unwrap();
    assert_eq!(next(&mut ticks), day);
    assert_eq!(clock.sleeps(), [ms(1_000)]);
}

#[test]
fn a_wait_that_is_dropped_skips_no_tick() {
    #[derive(Debug)]
    struct Asleep(Arc<FakeClock>);
    impl Runtime for Asleep {
        fn now(&self) -> Duration {
            self.0.now()
        }
        fn system_time(&self) -> std::time::SystemTime {
            self.0.system_time()
        }
        fn random(&self) -> [u8; 16] {
            self.0.random()
        }
        fn sleep(&self, _: Duration) -> crate::runtime::BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
        fn spawn(&self, _: crate::runtime::BoxFuture<'static, ()>) {}
    }

    let clock = FakeClock::at(5_500);
    let job = TickJob::every("reports", ms(1_000)).runtime(Arc::new(Asleep(clock.clone())));
    let mut ticks = job.build().unwrap().ticks().unwrap();
    assert_eq!(ticks.next().now_or_never(), None);
    clock.set(6_800);
    assert_eq!(next(&mut ticks), 6_000);
}

#[test]
fn a_job_without_a_period_has_no_ticks_to_wait_for() {
    let job = TickJob::at_instants("reports").build().unwrap();
    let error = job.ticks().unwrap_err();
    assert_eq!(
        error.to_string(),
        "job reports has no period, its instants come from a scheduler"
    );
    assert!(job.ticks_after(Tick::from_millis(0)).is_err());
}
