//! Jobs that run by their schedule, for as long as a program lives.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::runtime::{BoxFuture, ambient};
use lock_core::tick::{Tick, TickError, TickJob, TickJobBuilder};
use lock_core::{DistributedLock, Runtime};
use lock_testkit::{Fault, MemoryNode};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::logs::Log;
use crate::support::*;

const S: Duration = Duration::from_secs(1);

/// A wall clock that can be set.
#[derive(Debug)]
struct Settable {
    inner: Arc<dyn Runtime>,
    ahead_ms: AtomicI64,
}

impl Settable {
    fn ahead_by(millis: i64) -> Arc<Self> {
        Arc::new(Self {
            inner: ambient(),
            ahead_ms: AtomicI64::new(millis),
        })
    }
}

impl Runtime for Settable {
    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn system_time(&self) -> SystemTime {
        let ahead = self.ahead_ms.load(Ordering::Relaxed);
        self.inner.system_time() + Duration::from_millis(ahead.try_into().unwrap())
    }

    fn random(&self) -> [u8; 16] {
        self.inner.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.inner.spawn(task);
    }
}

fn every_second() -> TickJobBuilder {
    TickJob::every("job", S)
}

/// What ran, by instance.
type Runs = Arc<Mutex<Vec<(usize, Tick)>>>;

/// An instance of a service, in a task of its own, whose body takes this long.
fn instance(
    number: usize,
    nodes: &[MemoryNode],
    job: TickJobBuilder,
    body: Duration,
    runs: &Runs,
) -> JoinHandle<Result<(), TickError>> {
    let locks: Arc<dyn DistributedLock> = Arc::new(locks(nodes));
    let runs = Arc::clone(runs);
    let job = job.build().unwrap();
    tokio::spawn(async move {
        let body = async |tick| {
            runs.lock().unwrap().push((number, tick));
            sleep(body).await;
        };
        job.run_forever(&locks, body).await
    })
}

#[tokio::test(start_paused = true)]
async fn each_tick_runs_on_one_of_the_instances() {
    let nodes = nodes(3);
    let runs = Runs::default();
    let start = |number| instance(number, &nodes, every_second(), 30 * MS, &runs);
    let instances = [start(1), start(2), start(3)];
    sleep(60 * S).await;
    instances.iter().for_each(JoinHandle::abort);
    let ticks: Vec<_> = runs.lock().unwrap().iter().map(|run| run.1).collect();
    assert!((60..=62).contains(&ticks.len()), "{}", ticks.len());
    let follows = |one: &Tick, next: &Tick| one.as_millis() + 1_000 == next.as_millis();
    assert!(ticks.is_sorted_by(follows), "{ticks:?}");
}

/// The instances of the jobs run, and how many of them at the same moment.
async fn most_at_once(job: impl Fn() -> TickJobBuilder) -> (usize, usize) {
    let nodes = nodes(3);
    let (now, most, runs) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let body = async |_| {
        let others = now.fetch_add(1, Ordering::SeqCst);
        most.fetch_max(others + 1, Ordering::SeqCst);
        sleep(2500 * MS).await;
        now.fetch_sub(1, Ordering::SeqCst);
        runs.fetch_add(1, Ordering::SeqCst);
    };
    let run = async || {
        let (locks, job) = (locks(&nodes), job().build().unwrap());
        timeout(60 * S, job.run_forever(&locks, body)).await.ok();
    };
    tokio::join!(run(), run(), run());
    (most.into_inner(), runs.into_inner())
}

#[tokio::test(start_paused = true)]
async fn runs_that_take_longer_than_a_period_overlap_unless_told_otherwise() {
    let (most, _) = most_at_once(every_second).await;
    assert!(most > 1, "{most}");
    let (most, runs) = most_at_once(|| every_second().no_overlap(true)).await;
    assert_eq!(most, 1);
    // One after the other for a minute, but for the time until the next tick.
    assert!((18..=24).contains(&runs), "{runs}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_or_panics_costs_its_tick_and_ends_nothing() {
    let (log, _on) = Log::start(tracing::Level::WARN);
    let locks = locks(&nodes(3));
    let job = every_second().no_overlap(true).build().unwrap();
    let runs = AtomicUsize::new(0);
    let body = |_| {
        let run = 1 + runs.fetch_add(1, Ordering::SeqCst);
        assert_ne!(run, 5, "before its first await");
        async move {
            sleep(MS).await;
            match run {
                2 => Err(format!("no paper\n in tray {run}")),
                3 => panic!("the printer burns"),
                4 => std::panic::panic_any(7),
                _ => Ok(()),
            }
        }
    };
    timeout(7500 * MS, job.run_forever(&locks, body)).await.ok();
    let runs = runs.into_inner();
    assert!((7..=9).contains(&runs), "{runs}");
    let text = log.text();
    assert_eq!(log.count("WARN"), 4, "{text}");
    assert!(
        text.contains("job failed") && text.contains("error=no paper  in tray 2"),
        "{text}"
    );
    assert!(
        text.contains("job panicked") && text.contains("panic=the printer burns"),
        "{text}"
    );
    assert!(text.contains("panic=(no text)"), "{text}");
    assert!(
        text.contains("job=job tick=") && text.contains("took_us=1"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_its_ticks_is_told_and_ends_nothing() {
    let (log, _on) = Log::start(tracing::Level::WARN);
    let nodes = nodes(3);
    let runs = Runs::default();
    let instance = instance(1, &nodes, every_second(), MS, &runs);
    sleep(5 * S).await;
    nodes[..2]
        .iter()
        .for_each(|node| node.set_fault(Fault::Refuse));
    sleep(10 * S).await;
    let before = runs.lock().unwrap().len();
    nodes.iter().for_each(MemoryNode::heal);
    sleep(5 * S).await;
    instance.abort();
    assert!((4..=7).contains(&before), "{before}");
    let after = runs.lock().unwrap().len() - before;
    assert!((4..=7).contains(&after), "{after}");
    let text = log.text();
    assert!(log.count("tick not run") >= 5, "{text}");
    assert!(text.contains("reason=too few nodes answered"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_body_and_ends_the_loop() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let ended = Arc::new(AtomicUsize::new(0));
    let (working, count) = (locks.clone(), Arc::clone(&ended));
    let job = every_second().no_overlap(true).build().unwrap();
    let running = tokio::spawn(async move {
        let body = async |_| {
            sleep(2500 * MS).await;
            count.fetch_add(1, Ordering::SeqCst);
        };
        job.run_forever(&working, body).await
    });
    sleep(1500 * MS).await;
    locks.shutdown().await.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    let end = timeout(2 * S, running).await.unwrap().unwrap();
    assert_eq!(end, Ok(()));
    assert!(nodes.iter().all(|node| node.get("job").is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_told_to_stop_lets_its_body_end() {
    let locks = locks(&nodes(3));
    let job = every_second().build().unwrap();
    let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let body = async |_| {
        begun.fetch_add(1, Ordering::SeqCst);
        sleep(950 * MS).await;
        ended.fetch_add(1, Ordering::SeqCst);
    };
    let stop = sleep(1500 * MS);
    let (end, took) = timed(job.run_until(stop, &locks, body)).await;
    assert_eq!(end, Ok(()));
    assert!(took < 3 * S, "{took:?}");
    assert_eq!(begun.into_inner(), ended.into_inner());
    // While it waits for a tick, or for nodes, it ends at once.
    let daily = TickJob::every("daily", 86_400 * S).catch_up(Duration::ZERO);
    let daily = daily.build().unwrap();
    let (end, took) = timed(daily.run_until(sleep(S), &locks, async |_| ())).await;
    assert_eq!(end, Ok(()));
    assert!(took < 2 * S, "{took:?}");
    let nodes = nodes(3);
    let locks = builder(&nodes).build().unwrap();
    nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    let slow = TickJob::every("slow", 60 * S).catch_up(60 * S);
    let slow = slow.build().unwrap();
    let (end, took) = timed(slow.run_until(sleep(S), &locks, async |_| ())).await;
    assert_eq!(end, Ok(()));
    assert!(took < 2 * S, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_dropped_anywhere_leaves_nothing_but_its_claims() {
    for polls in 0..40 {
        let nodes = nodes(3);
        for node in &nodes {
            node.set_fault(Fault::Delay(5 * MS));
        }
        let locks = locks(&nodes);
        let job = every_second().no_overlap(true).build().unwrap();
        let body = async |_| sleep(20 * MS).await;
        drop_after(polls, job.run_forever(&locks, body)).await;
        sleep(500 * MS).await;
        let keys = nodes.iter().flat_map(MemoryNode::keys);
        let other = keys.filter(|key| !key.starts_with(b"job:")).count();
        assert_eq!(other, 0, "{polls}");
    }
}

/// A panic of the type that a body has.
fn unreachable(why: &str) {
    panic!("{why}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_can_never_run_ends_with_its_error() {
    let locks = locks(&nodes(3));
    let run = async |job: TickJobBuilder| {
        let job = job.build().unwrap();
        let run = job.run_forever(&locks, async |_| unreachable("it ran"));
        run.await.unwrap_err()
    };
    let error = run(TickJob::at_instants("job")).await;
    assert!(matches!(error, TickError::NoSchedule { .. }), "{error}");
    let error = run(TickJob::every("j".repeat(70_000), S)).await;
    assert!(matches!(error, TickError::Invalid(_)), "{error}");
    let fraction = |after: SystemTime| after.checked_add(1001 * MS);
    let error = run(TickJob::scheduled("job", fraction)).await;
    assert!(
        matches!(error, TickError::NotAWholeSecond { .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_over_ends_the_loop() {
    let locks = locks(&nodes(3));
    let now = ambient().system_time().duration_since(UNIX_EPOCH).unwrap();
    let end = UNIX_EPOCH + Duration::from_secs(now.as_secs() + 3);
    let seconds = move |after: SystemTime| {
        let after = after.duration_since(UNIX_EPOCH).ok()?;
        let next = UNIX_EPOCH + Duration::from_secs(after.as_secs() + 1);
        (next <= end).then_some(next)
    };
    let job = TickJob::scheduled("job", seconds).catch_up(Duration::ZERO);
    let mut runs = 0;
    let body = |_| {
        runs += 1;
        std::future::ready(())
    };
    let job = job.build().unwrap();
    job.run_forever(&locks, body).await.unwrap();
    assert_eq!(runs, 3);
}

/// The instance with the fastest clock wins each claim, and its random wait lets others win.
#[tokio::test(start_paused = true)]
async fn instances_take_turns_if_they_start_at_random() {
    let shares = async |jitter: Duration| {
        let nodes = nodes(3);
        let runs = Runs::default();
        let start = |number: usize| {
            let clock = Settable::ahead_by(100 * number as i64);
            let job = every_second().start_jitter(jitter).runtime(clock);
            instance(number, &nodes, job, MS, &runs)
        };
        let instances = [start(0), start(1)];
        sleep(60 * S).await;
        instances.iter().for_each(JoinHandle::abort);
        let runs = runs.lock().unwrap();
        let by = |number| runs.iter().filter(|run| run.0 == number).count();
        [by(0), by(1)]
    };
    // The first tick is caught up, and goes to the one that is polled first.
    let [slow, fast] = shares(Duration::ZERO).await;
    assert!(slow <= 1 && fast >= 59, "{slow} {fast}");
    let [slow, fast] = shares(500 * MS).await;
    assert!(slow > 5 && fast > 5, "{slow} {fast}");
    assert!((59..=62).contains(&(slow + fast)), "{slow} {fast}");
}

/// During a deploy: the old version forgets its claims sooner.
#[tokio::test(start_paused = true)]
async fn claims_by_other_rules_are_told_once() {
    let (log, _on) = Log::start(tracing::Level::WARN);
    let nodes = nodes(3);
    let runs = Runs::default();
    // Its clock is ahead, so the others find each tick taken.
    let old = every_second().runtime(Settable::ahead_by(100));
    let old = instance(1, &nodes, old, MS, &runs);
    settle().await;
    let later = || every_second().catch_up(Duration::ZERO);
    let new = instance(2, &nodes, later().retention(600 * S), MS, &runs);
    let same = instance(3, &nodes, later(), MS, &runs);
    sleep(5 * S).await;
    [old, new, same].iter().for_each(JoinHandle::abort);
    let text = log.text();
    assert_eq!(
        log.count("another instance claims ticks by other rules"),
        1,
        "{text}"
    );
    assert!(text.contains("retention_us=600000000 left_us="), "{text}");
}

/// Case C75.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_is_told_once_and_ticks_go_on() {
    let (log, _on) = Log::start(tracing::Level::WARN);
    let two_hours = 2 * 60 * 60 * 1_000;
    let clock = Settable::ahead_by(two_hours);
    let job = TickJob::every("r", 1000 * MS).runtime(clock.clone());
    let mut ticks = job.build().unwrap().ticks().unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(ticks.next().await.unwrap());
    }
    assert_eq!(log.text(), "");
    clock.ahead_ms.store(0, Ordering::Relaxed);
    let set_back = tokio::time::Instant::now();
    for _ in 0..10 {
        seen.push(ticks.next().await.unwrap());
    }
    let took = set_back.elapsed();
    assert!(took <= 11_000 * MS, "{took:?}");
    seen.sort();
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    assert_eq!(
        log.count("the wall clock was set back"),
        1,
        "{}",
        log.text()
    );
    assert!(log.text().contains("job=r by_us=7"), "{}", log.text());
}
