use std::time::{SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::executor::block_on;

use super::*;
use crate::tick::TickJobBuilder;
use crate::tick::fake::FakeClock;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn every_second(late: u64) -> TickJobBuilder {
    TickJob::every("reports", ms(1_000)).late_limit(ms(late))
}

fn job(clock: &Arc<FakeClock>, late: u64) -> TickJob {
    let job = every_second(late).runtime(clock.clone());
    job.build().unwrap()
}

fn ticks(clock: &Arc<FakeClock>, job: TickJobBuilder) -> Ticks {
    let job = job.runtime(clock.clone()).build().unwrap();
    job.ticks().unwrap()
}

fn reading(clock: &Arc<FakeClock>) -> Reading {
    Reading::of(&**clock)
}

fn next(ticks: &mut Ticks) -> u64 {
    block_on(ticks.next()).unwrap().as_millis()
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
        (u64::MAX, u64::MAX, 1_000, Step::Over),
    ];
    for (last, now, late, expected) in table {
        let job = every_second(late).missed(Missed::RunAll).build().unwrap();
        let actual = step(job.schedule(), Tick::from_millis(last), ms(now), &job);
        assert_eq!(
            actual, expected,
            "last {last}, now {now}, late limit {late}"
        );
    }
}

#[test]
fn of_several_ticks_that_are_due_the_latest_is_found() {
    let due = |millis| Step::Due(Tick::from_millis(millis));
    let table = [
        // last, now, late limit, step
        (5_000, 5_999, 9_000, Step::Sleep(ms(1))),
        (5_000, 6_000, 9_000, due(6_000)),
        (5_000, 7_999, 9_000, due(7_000)),
        (5_000, 9_000, 9_000, due(9_000)),
        (5_000, 9_101, 100, Step::Sleep(ms(899))),
        (5_300, 9_101, 101, due(9_000)),
    ];
    let seconds = |after: SystemTime| {
        let after = after.duration_since(UNIX_EPOCH).unwrap().as_secs();
        Some(UNIX_EPOCH + Duration::from_secs(after + 1))
    };
    for (last, now, late, expected) in table {
        let function = TickJob::scheduled("reports", seconds).late_limit(ms(late));
        for job in [every_second(late), function] {
            let job = job.build().unwrap();
            let actual = step(job.schedule(), Tick::from_millis(last), ms(now), &job);
            assert_eq!(
                actual, expected,
                "{job:?}, last {last}, now {now}, late limit {late}"
            );
        }
    }
}

/// It came due while this instance was started, and perhaps nobody else was there.
#[test]
fn ticks_begin_with_the_last_one_before_the_first_call() {
    let clock = FakeClock::at(5_300);
    let mut ticks = job(&clock, 1_000).ticks().unwrap();
    clock.set(8_400);
    assert_eq!(next(&mut ticks), 8_000);
    assert_eq!(clock.sleeps(), []);
    assert_eq!(next(&mut ticks), 9_000);
    assert_eq!(clock.sleeps(), [ms(600)]);
}

#[test]
fn ticks_begin_with_the_next_one_if_the_last_is_older_than_the_catch_up() {
    let day = 24 * 60 * 60 * 1_000;
    let daily = || TickJob::every("reports", ms(day));
    let catch_up = ms(600_000);
    let table = [
        (daily(), 0, day),
        // Without a word, no more than half a minute.
        (daily(), 30_000, day),
        (daily(), 30_001, 2 * day),
        (daily().catch_up(catch_up), 600_000, day),
        (daily().catch_up(catch_up), 600_001, 2 * day),
        (daily().catch_up(Duration::ZERO), 1, 2 * day),
        (daily().missed(Missed::Skip), 1, 2 * day),
        // All that were missed since another instance ended is not what a start is for.
        (
            every_second(5_000).missed(Missed::RunAll),
            4_500,
            day + 4_000,
        ),
    ];
    for (job, after_midnight, first) in table {
        let clock = FakeClock::at(day + after_midnight);
        let shown = format!("{job:?} {after_midnight}");
        assert_eq!(next(&mut ticks(&clock, job)), first, "{shown}");
    }
}

#[test]
fn ticks_after_a_tick_include_those_missed_since() {
    let clock = FakeClock::at(7_900);
    let job = every_second(2_000).missed(Missed::RunAll);
    let job = job.runtime(clock.clone()).build().unwrap();
    let mut ticks = job.ticks_after(Tick::from_millis(5_000)).unwrap();
    assert_eq!([(); 3].map(|()| next(&mut ticks)), [6_000, 7_000, 8_000]);
    assert_eq!(clock.sleeps(), [ms(100)]);
}

#[test]
fn of_ticks_missed_while_the_body_ran_those_follow_that_the_job_says() {
    for (missed, late, expected) in [
        (Missed::RunAll, 2_500, [8_000, 9_000, 10_000, 11_000]),
        (Missed::RunLatest, 2_500, [10_000, 11_000, 12_000, 13_000]),
        (Missed::RunLatest, 100, [11_000, 12_000, 13_000, 14_000]),
        (Missed::Skip, 2_500, [11_000, 12_000, 13_000, 14_000]),
    ] {
        let clock = FakeClock::at(5_999);
        let mut ticks = ticks(&clock, every_second(late).missed(missed));
        // The start has the tick before as well, where ticks are caught up.
        while next(&mut ticks) != 6_000 {}
        clock.set(10_400);
        let after = [(); 4].map(|()| next(&mut ticks));
        assert_eq!(after, expected, "{missed:?} {late}");
    }
}

/// A wait in a `select!` is dropped and begun again, and no tick is missed in between.
#[test]
fn a_wait_that_goes_on_has_not_missed_what_came_due_meanwhile() {
    for missed in [Missed::Skip, Missed::RunLatest, Missed::RunAll] {
        let clock = FakeClock::at(5_500);
        let mut ticks = ticks(&clock, every_second(1_000).missed(missed).catch_up(ms(0)));
        assert!(matches!(ticks.step(reading(&clock)), Step::Sleep(_)));
        clock.set(6_010);
        assert_eq!(next(&mut ticks), 6_000, "{missed:?}");
    }
}

#[test]
fn a_clock_set_back_a_little_repeats_no_tick() {
    let clock = FakeClock::at(4_999);
    let mut ticks = job(&clock, 1_000).ticks().unwrap();
    assert_eq!([(); 3].map(|()| next(&mut ticks)), [4_000, 5_000, 6_000]);
    clock.set(3_500);
    assert_eq!(next(&mut ticks), 3_000, "it was not returned before");
    assert_eq!(next(&mut ticks), 7_000);
    let slept: Duration = clock.sleeps().into_iter().sum();
    assert_eq!(slept, ms(1_001 + 3_500));
}

/// Clocks are corrected all the time.
#[test]
fn a_clock_that_slips_by_less_than_half_a_second_changes_nothing() {
    let clock = FakeClock::at(5_999);
    let mut ticks = job(&clock, 2_500).ticks().unwrap();
    assert_eq!([(); 2].map(|()| next(&mut ticks)), [5_000, 6_000]);
    clock.set(9_100);
    assert_eq!(next(&mut ticks), 9_000, "7,000 and 8,000 are skipped");
    clock.jump(8_600);
    assert_eq!(next(&mut ticks), 10_000);
}

/// Case C75: a clock that was two hours ahead is set right.
#[test]
fn ticks_go_on_within_seconds_when_the_clock_is_set_back_by_hours() {
    let (hours, now) = (2 * 60 * 60 * 1_000, 100_000_000);
    let clock = FakeClock::at(now - 500);
    let mut ticks = ticks(&clock, every_second(1_000).catch_up(ms(0)));
    assert_eq!(next(&mut ticks), now);
    clock.jump(now + hours + 500);
    let ahead = [(); 3].map(|()| next(&mut ticks));
    assert_eq!(ahead, [0, 1_000, 2_000].map(|at| now + hours + at));
    clock.jump(now + 3_200);
    clock.sleeps();
    assert_eq!(
        [(); 2].map(|()| next(&mut ticks)),
        [now + 4_000, now + 5_000]
    );
    assert_eq!(clock.sleeps(), [ms(800), ms(1_000)]);
}

/// A daily job: the tick is remembered for days, and the schedule goes on.
#[test]
fn a_tick_is_returned_again_when_its_retention_is_over_and_not_before() {
    let clock = FakeClock::at(99_500);
    let mut ticks = ticks(&clock, every_second(1_000).catch_up(ms(0)));
    assert_eq!(next(&mut ticks), 100_000);
    clock.set(159_300);
    clock.jump(99_400);
    // It comes due 59.9 s after it was returned, and then 61.5 s.
    assert_eq!(next(&mut ticks), 101_000);
    clock.jump(99_400);
    assert_eq!(next(&mut ticks), 100_000);
}

#[test]
fn ticks_after_a_tick_of_the_future_wait_for_it() {
    let clock = FakeClock::at(5_500);
    let job = job(&clock, 1_000);
    let mut ticks = job.ticks_after(Tick::from_millis(9_000)).unwrap();
    assert_eq!(next(&mut ticks), 10_000);
    clock.set(7_000);
    assert_eq!(next(&mut ticks), 11_000);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut returned = Returned::default();
    for tick in 0..10_000 {
        assert!(returned.add(Tick::from_millis(tick), ms(tick), Duration::MAX));
        assert!(!returned.add(Tick::from_millis(tick), ms(tick), Duration::MAX));
    }
    assert!(returned.0.len() <= REMEMBERED);
    assert!(!returned.add(Tick::from_millis(9_500), ms(10_000), Duration::MAX));
}

#[test]
fn a_clock_set_a_year_ahead_yields_the_latest_ticks_alone() {
    let clock = FakeClock::at(5_500);
    let mut ticks = ticks(&clock, every_second(1_000).catch_up(ms(0)));
    assert_eq!(next(&mut ticks), 6_000);
    let year = 365 * 24 * 60 * 60 * 1_000;
    clock.set(year + 300);
    assert_eq!(next(&mut ticks), year);
    assert_eq!(next(&mut ticks), year + 1_000);
}

#[test]
fn a_timer_that_fires_early_is_no_tick() {
    let clock = FakeClock::at(5_001);
    for early in [5_400, 5_999] {
        clock.wake_at(early);
    }
    let mut ticks = ticks(&clock, every_second(1_000).catch_up(ms(0)));
    assert_eq!(next(&mut ticks), 6_000);
    assert_eq!(clock.sleeps(), [ms(999), ms(600), ms(1)]);
    assert_eq!(clock.system_time(), UNIX_EPOCH + ms(6_000));
}

#[test]
fn a_clock_that_is_set_during_a_long_sleep_is_noticed_within_a_second() {
    let day = 24 * 60 * 60 * 1_000;
    let clock = FakeClock::at(1_000);
    clock.wake_at(day + 7);
    let daily = TickJob::every("reports", ms(day)).catch_up(ms(0));
    let mut ticks = ticks(&clock, daily);
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
    let job = every_second(1_000).catch_up(ms(0));
    let job = job.runtime(Arc::new(Asleep(clock.clone())));
    let mut ticks = job.build().unwrap().ticks().unwrap();
    assert_eq!(ticks.next().now_or_never(), None);
    clock.set(6_800);
    assert_eq!(next(&mut ticks), 6_000);
}

#[test]
fn a_schedule_that_ends_says_so() {
    let clock = FakeClock::at(5_500);
    let once = |after| {
        let at = UNIX_EPOCH + ms(7_000);
        (after < at).then_some(at)
    };
    let mut ticks = ticks(&clock, TickJob::scheduled("reports", once));
    assert_eq!(next(&mut ticks), 7_000);
    assert_eq!(block_on(ticks.next()), None);
}

#[test]
fn a_job_without_a_schedule_has_no_ticks_to_wait_for() {
    let job = TickJob::at_instants("reports").build().unwrap();
    let error = job.ticks().unwrap_err();
    assert_eq!(
        error.to_string(),
        "job reports has no schedule, its instants come from a scheduler"
    );
    assert!(job.ticks_after(Tick::from_millis(0)).is_err());
}
