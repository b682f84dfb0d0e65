//! Claims of ticks with the real algorithm, over in-process nodes.

use std::time::{Duration, SystemTime};

use futures::future::join_all;
use lock_core::Redlock;
use lock_core::tick::{Tick, TickClaim, TickJob, TickJobBuilder, TickOutcome};
use lock_testkit::{Fault, MemoryNode};

const MS: Duration = Duration::from_millis(1);

fn job() -> TickJobBuilder {
    TickJob::at_instants("job").allow_fractions(true)
}

/// A tick that is due now.
fn due() -> Tick {
    Tick::at(SystemTime::now()).expect("a time after 1970")
}

fn redlock(nodes: &[MemoryNode]) -> Redlock<MemoryNode> {
    Redlock::new(nodes.to_vec()).expect("nodes that make a lock")
}

fn set_fault(nodes: &[MemoryNode], fault: &Fault) {
    for node in nodes {
        node.set_fault(fault.clone());
    }
}

fn heal(nodes: &[MemoryNode]) {
    for node in nodes {
        node.heal();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_instances_one_runs_each_tick_and_the_others_know_it() {
    let nodes = MemoryNode::several(5);
    let job = job().build().unwrap();
    let first = due().as_millis();
    for tick in (first..first + 20).map(Tick::from_millis) {
        let claims = (0..8).map(|_| {
            let (job, locks) = (job.clone(), redlock(&nodes));
            tokio::spawn(async move { job.run(&locks, tick, async |_| ()).await.unwrap() })
        });
        let outcomes: Vec<_> = join_all(claims).await.into_iter().flatten().collect();
        let ran = |outcome: &&TickOutcome<()>| matches!(outcome, TickOutcome::Ran(()));
        let claimed = |outcome: &&TickOutcome<()>| matches!(outcome, TickOutcome::AlreadyClaimed);
        assert_eq!(outcomes.iter().filter(ran).count(), 1, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(claimed).count(), 7, "{outcomes:?}");
    }
}

#[tokio::test]
async fn an_outage_that_ends_within_the_window_is_waited_out() {
    for fault in [
        Fault::Refuse,
        Fault::Hang,
        Fault::LoseReply,
        Fault::error("OOM no memory"),
    ] {
        let nodes = MemoryNode::several(5);
        set_fault(&nodes[..3], &fault);
        let mend = async {
            tokio::time::sleep(300 * MS).await;
            heal(&nodes);
        };
        let (job, locks) = (job().build().unwrap(), redlock(&nodes));
        let (claim, ()) = futures::join!(job.claim(&locks, due()), mend);
        assert!(
            matches!(claim, Ok(TickClaim::Won(_))),
            "{fault:?}: {claim:?}"
        );
    }
}

#[tokio::test]
async fn a_job_whose_name_makes_too_long_a_key_is_the_callers_error() {
    let nodes = MemoryNode::several(3);
    let job = TickJob::at_instants("x".repeat(70_000)).allow_fractions(true);
    let job = job.build().unwrap();
    let error = job.claim(&redlock(&nodes), due()).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("above the maximum of 65536 bytes"),
        "{cause}"
    );
    assert!(nodes.iter().all(|node| node.calls().total() == 0));
}

/// What takes a while, in virtual time: on tokio's clock, which stands still except when everybody
/// sleeps.
#[cfg(feature = "tokio")]
mod virtual_time {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use lock_core::AcquireError;
    use lock_core::runtime::{BoxFuture, Runtime, ambient};
    use tokio::time::Instant;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Waits until no node has a key: failed claims are cleaned up in the background, long before the
    /// keys would expire.
    async fn clean(nodes: &[MemoryNode]) {
        let patience = Instant::now() + 2 * S;
        while nodes.iter().any(|node| !node.keys().is_empty()) {
            assert!(Instant::now() < patience, "{:?}", nodes[0].keys());
            tokio::time::sleep(MS).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_stays_for_its_retention_whether_dropped_or_released() {
        let nodes = MemoryNode::several(3);
        let job = job().retention(60 * S).build().unwrap();
        let locks = redlock(&nodes);
        let first = due();
        for (tick, is_released) in [
            (first, false),
            (Tick::from_millis(first.as_millis() + 1), true),
        ] {
            let TickClaim::Won(claimed) = job.claim(&locks, tick).await.unwrap() else {
                panic!("not won");
            };
            if is_released {
                claimed.guard().release().await.unwrap();
            }
            drop(claimed);
            tokio::time::sleep(50 * MS).await;
            let key = format!("job:{tick}");
            for node in &nodes {
                let left = node.pttl(&key);
                assert!((59_000..=60_000).contains(&left), "{key}: {left}");
            }
            let again = job.claim(&locks, tick).await.unwrap();
            assert!(matches!(again, TickClaim::AlreadyClaimed), "{again:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_beyond_the_window_fails_closed_and_leaves_nothing() {
        let nodes = MemoryNode::several(5);
        set_fault(&nodes[..3], &Fault::Refuse);
        let job = job().late_limit(5 * S).build().unwrap();
        let begun = Instant::now();
        let claim = job.claim(&redlock(&nodes), due()).await.unwrap();
        let took = begun.elapsed();
        assert!((4 * S..5 * S + 200 * MS).contains(&took), "{took:?}");
        let TickClaim::Unavailable(AcquireError::Unavailable(cause)) = claim else {
            panic!("{claim:?}");
        };
        assert!(cause.attempts > 1, "{cause}");
        clean(&nodes).await;
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_name_no_common_claimant_are_no_claim() {
        let nodes = MemoryNode::several(5);
        let tick = due();
        // Three rivals, none of whom has a quorum, and who all crashed.
        for (node, token) in nodes.iter().zip(["a", "a", "b", "b", "c"]) {
            node.set_foreign(format!("job:{tick}"), token);
        }
        let job = job().late_limit(5 * S).build().unwrap();
        let claim = job.claim(&redlock(&nodes), tick).await.unwrap();
        let TickClaim::Unavailable(AcquireError::Contended(_)) = claim else {
            panic!("{claim:?}");
        };
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_is_cancelled_gives_the_tick_back() {
        let nodes = MemoryNode::several(3);
        let (job, locks, tick) = (job().build().unwrap(), redlock(&nodes), due());
        set_fault(&nodes, &Fault::Delay(50 * MS));
        let claim = tokio::time::timeout(20 * MS, job.claim(&locks, tick)).await;
        assert!(claim.is_err());
        heal(&nodes);
        tokio::time::sleep(60 * MS).await;
        clean(&nodes).await;
        let claim = job.claim(&locks, tick).await.unwrap();
        assert!(matches!(claim, TickClaim::Won(_)), "{claim:?}");
    }

    /// Tokio's clock, and how often somebody slept by it.
    #[derive(Debug)]
    struct Counting {
        inner: Arc<dyn Runtime>,
        sleeps: AtomicUsize,
    }

    impl Runtime for Counting {
        fn now(&self) -> Duration {
            self.inner.now()
        }

        fn system_time(&self) -> SystemTime {
            self.inner.system_time()
        }

        fn random(&self) -> [u8; 16] {
            self.inner.random()
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            let sleeps = self.sleeps.fetch_add(1, Ordering::Relaxed);
            assert!(sleeps < 2_000, "it spins");
            self.inner.sleep(duration)
        }

        fn spawn(&self, task: BoxFuture<'static, ()>) {
            self.inner.spawn(task);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ticks_come_by_a_paused_clock_without_spinning() {
        let runtime = Arc::new(Counting {
            inner: ambient(),
            sleeps: AtomicUsize::new(0),
        });
        let job = TickJob::every("job", S).runtime(runtime.clone());
        let mut ticks = job.build().unwrap().ticks().unwrap();
        let first = ticks.next().await.unwrap();
        let begun = Instant::now();
        for number in 1..=600 {
            let tick = ticks.next().await.unwrap();
            assert_eq!(tick.as_millis(), first.as_millis() + number * 1_000);
        }
        let took = begun.elapsed();
        assert!((599 * S..601 * S).contains(&took), "{took:?}");
        // One for each tick, and another where the timer's milliseconds end before the tick.
        let sleeps = runtime.sleeps.load(Ordering::Relaxed);
        assert!(sleeps <= 1_200, "{sleeps}");
    }

    /// Case C65: whoever is there before the tick ends, and others begin after it.
    #[tokio::test(start_paused = true)]
    async fn a_tick_that_falls_into_a_restart_of_all_instances_runs_once() {
        let nodes = MemoryNode::several(3);
        let job = TickJob::every("daily", 10 * S).build().unwrap();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let instance = || {
            let (job, locks, ran) = (job.clone(), redlock(&nodes), Arc::clone(&ran));
            tokio::spawn(async move {
                let mut ticks = job.ticks().unwrap();
                while let Some(tick) = ticks.next().await {
                    let note = async |_: &_| ran.lock().unwrap().push(tick.as_millis());
                    let _outcome = job.run(&locks, tick, note).await.unwrap();
                }
            })
        };
        let period = job.period().unwrap();
        let restarted_at = period.tick_after(ambient().system_time() + 15 * S).unwrap();
        let until = |tick: Tick| {
            let left = tick
                .system_time()
                .unwrap()
                .duration_since(ambient().system_time());
            left.unwrap()
        };
        let first = [instance(), instance()];
        tokio::time::sleep(until(restarted_at) - S).await;
        first.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::time::sleep(2 * S).await;
        let second = [instance(), instance()];
        tokio::time::sleep(20 * S).await;
        second.iter().for_each(tokio::task::JoinHandle::abort);
        let ran = ran.lock().unwrap();
        let around = restarted_at.as_millis();
        let expected = (0..4).map(|tick| around - 10_000 + tick * 10_000);
        let late = ran.iter().copied().filter(|tick| *tick >= around - 10_000);
        assert_eq!(late.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
