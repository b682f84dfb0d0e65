//! Cancellation and overload: nothing is left behind, nothing grows.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::join_all;
use lock_core::node::Subscription;
use lock_core::{
    AcquireError, Command, DistributedLockExt, LockRequest, NodeError, RedisNode, Redlock,
    ReleaseError, Reply,
};

use super::support::*;
use crate::backend::Node;

#[apply(async_test_on_threads!)]
async fn acquires_dropped_at_random_moments_leave_no_key() {
    let servers = servers(5);
    let locks = warm_locks(&servers).await;
    let ttl = 60_000 * MS;
    let mut finished = 0;
    for i in 0..300 {
        let request = LockRequest::new(format!("k{i}")).ttl(ttl);
        let micros = RandomState::new().hash_one(i) % 1_500;
        let acquire = locks.lock(request);
        let result = timeout(Duration::from_micros(micros), acquire).await;
        finished += usize::from(result.is_ok());
        // A guard is dropped here too: it is released in the background as well.
        drop(result);
    }
    until("every key is gone", ttl / 10, || keys(&servers) == 0).await;
    assert!(finished < 300, "no acquire was cancelled");
}

/// Counts the calls that are under way.
#[derive(Debug)]
struct Counted {
    node: Node,
    in_flight: Arc<AtomicUsize>,
}

#[async_trait]
impl RedisNode for Counted {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        struct InFlight<'a>(&'a AtomicUsize);
        impl Drop for InFlight<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _counted = InFlight(&self.in_flight);
        self.node.execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.node.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.node.label()
    }
}

/// The process's resident memory in bytes.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// C32.
#[cfg(target_os = "linux")]
#[apply(async_test_on_threads!)]
async fn a_hung_node_at_full_load_makes_nothing_grow() {
    const TASKS: usize = 64;
    let servers = servers(5);
    let in_flight = Arc::new(AtomicUsize::new(0));
    let count = |node| Counted {
        node,
        in_flight: Arc::clone(&in_flight),
    };
    let locks = Redlock::new(nodes(&servers).map(count)).unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let not_held = Arc::new(AtomicUsize::new(0));
    let mut load = JoinSet::new();
    for task in 0..TASKS {
        let (locks, done, not_held) = (locks.clone(), Arc::clone(&done), Arc::clone(&not_held));
        load.spawn(async move {
            loop {
                let guard = locks.lock(format!("k{task}")).await.unwrap();
                match guard.release().await {
                    Ok(()) => done.fetch_add(1, Ordering::SeqCst),
                    // With one server stopped, two others were late.
                    Err(ReleaseError::Unavailable { .. }) => 0,
                    Err(_) => not_held.fetch_add(1, Ordering::SeqCst),
                };
            }
        });
    }
    sleep(500 * MS).await;
    servers[2].pause().unwrap();

    let started = Instant::now();
    // What is seen of the ten seconds: the first three, in which everything finds its level, and
    // the last three.
    let (mut early, mut late) = ((0, 0, 0), (0, 0, 0));
    while started.elapsed() < Duration::from_secs(10) {
        sleep(10 * MS).await;
        let seen = if started.elapsed() < Duration::from_secs(3) {
            &mut early
        } else if started.elapsed() > Duration::from_secs(7) {
            &mut late
        } else {
            continue;
        };
        seen.0 = seen.0.max(in_flight.load(Ordering::SeqCst));
        seen.1 = seen.1.max(tasks());
        seen.2 = seen.2.max(memory());
    }
    let pairs = done.load(Ordering::SeqCst);
    load.shutdown().await;
    println!("{pairs} pairs; calls, tasks, bytes: at first {early:?}, at last {late:?}");
    assert!(pairs > 1_000, "{pairs}");
    assert_eq!(not_held.load(Ordering::SeqCst), 0);
    // On a machine that has other work too, there is more under way at one moment than at another.
    // What leaks would be thousands.
    for (name, early, late) in [("calls", early.0, late.0), ("tasks", early.1, late.1)] {
        let most = 2 * early.max(TASKS * 10);
        assert!(late <= most, "{name}: {early}, then {late}");
    }
    // Other tests of this process allocate too. A few hundred bytes for each call would be more.
    assert!(
        late.2 <= early.2 + (early.2 / 10).max(8 << 20),
        "memory: {early:?}, then {late:?}"
    );
    servers[2].resume().unwrap();
    until("no key is left", 6_000 * MS, || keys(&servers) == 0).await;
    // A server deletes a key before its answer is here.
    until("no call is in flight", 6_000 * MS, || {
        in_flight.load(Ordering::SeqCst) == 0
    })
    .await;
}

/// C25.
#[apply(async_test_on_threads!)]
async fn many_that_wait_do_not_hammer_the_servers() {
    const WAITERS: u32 = 200;
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    let request = LockRequest::new(KEY).ttl(60_000 * MS).max_wait(LONG);
    let guard = locks.lock(request.clone()).await.unwrap();
    granted_everywhere(&guard).await;
    let started = Instant::now();
    let mut waiting = JoinSet::new();
    for _ in 0..WAITERS {
        let (locks, request) = (locks.clone(), request.clone());
        waiting.spawn(async move { locks.lock(request).await.map(drop) });
    }
    sleep(1_500 * MS).await;
    let commands = ["evalsha", "eval", "set"];
    let sent = |server| commands.map(|command| runs(server, command));
    let sent: u64 = servers.iter().flat_map(sent).sum();
    // Pauses double from 5 to 200 ms, and are half as long on average.
    let attempts = 6.0 + started.elapsed().as_secs_f64() / 0.1;
    let most = 2.0 * attempts * f64::from(3 * WAITERS);
    assert!((sent as f64) < most, "{sent} of at most {most}");
    assert!(guard.is_valid());
    drop(waiting);
    guard.release().await.unwrap();
    until("no key is left", LONG, || keys(&servers) == 0).await;
}

/// C25.
#[apply(async_test_on_threads!)]
async fn of_rivals_that_start_together_one_wins_each_round_and_the_others_leave_nothing() {
    let servers = servers(3);
    let mut rivals = Vec::new();
    for _ in 0..5 {
        rivals.push(warm_locks(&servers).await);
    }
    let request = LockRequest::new(KEY).ttl(60_000 * MS).max_wait(LONG);
    let request = request.fail_if_held(true);
    for _ in 0..30 {
        let results = join_all(rivals.iter().map(|rival| rival.lock(request.clone()))).await;
        let mut winners = Vec::new();
        for result in results {
            match result {
                Ok(guard) => winners.push(guard),
                Err(AcquireError::Contended(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(winners.len(), 1);
        let winner = winners.remove(0);
        let is_the_winners = |server| {
            let token = get(server, KEY);
            token.is_none_or(|token| token == winner.token().as_bytes())
        };
        until("the losers' keys are gone", LONG, || {
            servers.iter().all(is_the_winners)
        })
        .await;
        winner.release().await.unwrap();
        until("released", LONG, || keys(&servers) == 0).await;
    }
}
