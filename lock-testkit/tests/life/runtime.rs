//! A lock on a runtime of its user's, which can be starved, and which can end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use lock_core::runtime::{BoxFuture, ambient};
use lock_core::{
    DistributedLock, DistributedLockExt, ExtendError, LockRequest, Loss, Redlock, ReleaseError,
    Runtime,
};
use lock_testkit::RedisServer;

use super::process::OtherProcess;
use super::support::*;
use crate::backend::Node;

/// C27: the clients, which belong to the runtime, are closed before the guards.
#[test]
fn guards_that_outlive_their_runtime_do_no_harm_and_can_be_released_on_another() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    let servers = servers(3);
    let first = runtime();
    let (locks, guards) = first.block_on(async {
        let locks = locks(&servers).await;
        let mut guards = Vec::new();
        for key in ["a", "b", "c"] {
            let guard = locks.lock(extended(key, 60 * SECOND)).await.unwrap();
            granted_everywhere(&guard).await;
            guards.push(guard);
        }
        (locks, guards)
    });
    drop(first);
    let mut guards = guards.into_iter();
    // Nobody is left who could send anything: the ttl ends this one.
    drop(guards.next());
    let kept = guards.next().unwrap();
    runtime().block_on(async {
        let released = tokio::time::timeout(LONG, released(&kept)).await.unwrap();
        released.unwrap();
        let shut = tokio::time::timeout(LONG, locks.shutdown()).await.unwrap();
        shut.unwrap();
        let refused = locks.try_lock(LockRequest::new("d")).await;
        assert!(refused.is_err());
    });
    // A release returns when a quorum has answered; what it leaves to the background ended with the
    // first runtime. The shutdown waits for all servers.
    for (key, most) in [("b", 1), ("c", 0)] {
        let holding = servers.iter().filter(|server| get(server, key).is_some());
        let holding = holding.count();
        assert!(holding <= most, "{key}: {holding}");
    }
}

/// Starts to acquire when it is dropped.
struct AcquireAtTheEnd(Redlock<Node>);

impl Drop for AcquireAtTheEnd {
    fn drop(&mut self) {
        let request = LockRequest::new(KEY);
        let acquired = self.0.acquire(&request).now_or_never();
        assert!(!matches!(acquired, Some(Ok(_))), "{acquired:?}");
    }
}

#[test]
fn a_call_that_is_made_while_its_runtime_ends_does_not_hang() {
    let servers = servers(3);
    let acquire = AcquireAtTheEnd(builder(urls(&servers)).build().unwrap());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            tokio::spawn(async move {
                let _acquire = acquire;
                std::future::pending::<()>().await
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONG).unwrap();
}

fn all_have(servers: &[RedisServer], token: &str) -> bool {
    let has = |server| get(server, KEY).as_deref() == Some(token);
    servers.iter().all(has)
}

/// C07. The runtime has one thread, which the critical section blocks.
#[apply(async_test!)]
async fn a_starved_holder_knows_at_once_that_the_lock_is_lost_and_leaves_its_successor_alone() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let guard = locks.lock(extended(KEY, 3 * SECOND)).await.unwrap();
    let mut successor = OtherProcess::start("take over", &servers);
    sleep(4 * SECOND).await;
    assert!(guard.is_valid(), "it is extended");
    let lost = guard.lost();
    // Blocks, until the other process holds the lock.
    let token = successor.next();
    assert!(!guard.is_valid());
    let loss = timeout(LONG, lost).await.unwrap();
    assert!(matches!(loss, Loss::Expired | Loss::Revoked), "{loss:?}");
    // No late extension revives it.
    sleep(2 * SECOND).await;
    assert!(!guard.is_valid());
    let released = released(&guard).await;
    assert!(
        matches!(released, Err(ReleaseError::NotHeld)),
        "{released:?}"
    );
    drop(guard);
    sleep(500 * MS).await;
    assert!(all_have(&servers, &token));
}

/// A runtime that moves on only inside `block_on`.
fn current_thread() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// C61.
#[test]
fn between_two_calls_of_block_on_nothing_is_extended_or_released_and_the_guard_knows_it() {
    let servers = servers(1);
    let runtime = current_thread();
    let (locks, guard, dropped) = runtime.block_on(async {
        let locks = locks(&servers).await;
        let long = LockRequest::new("dropped").ttl(60 * SECOND).max_wait(LONG);
        let dropped = locks.lock(long).await.unwrap();
        let guard = locks.lock(extended(KEY, SECOND)).await.unwrap();
        (locks, guard, dropped)
    });
    drop(dropped);
    thread::sleep(1500 * MS);
    assert!(!guard.is_valid());
    assert_eq!(get(&servers[0], KEY), None);
    // What was dropped meanwhile is released with the next call.
    runtime.block_on(async {
        locks.flush(LONG).await.unwrap();
        assert_eq!(timeout(LONG, guard.lost()).await.unwrap(), Loss::Expired);
    });
    assert_eq!(keys(&servers), 0);
}

/// C62. The connections belong to the runtime that is blocked.
#[test]
fn a_runtime_that_is_blocked_stops_no_lock_of_another() {
    let servers = servers(3);
    let locks = builder(urls(&servers)).build().unwrap();
    let (holding, is_held) = channel();
    let blocked = locks.clone();
    let blocked = thread::spawn(move || {
        current_thread().block_on(async {
            let guard = blocked.lock(extended("a", 20 * SECOND)).await.unwrap();
            granted_everywhere(&guard).await;
            holding.send(()).unwrap();
            thread::sleep(4 * SECOND);
            assert!(guard.is_valid());
        });
    });
    is_held.recv_timeout(LONG).unwrap();
    current_thread().block_on(async {
        let guard = locks.lock(extended("b", 2 * SECOND)).await.unwrap();
        let lost = spawn(guard.lost());
        let mut pairs = 0;
        while !blocked.is_finished() {
            let request = LockRequest::new("c").max_wait(LONG);
            let pair = locks.lock(request).await.unwrap();
            released(&pair).await.unwrap();
            pairs += 1;
            assert!(guard.is_valid() && !lost.is_finished(), "after {pairs}");
            sleep(5 * MS).await;
        }
        assert!(pairs > 20, "{pairs}");
    });
    blocked.join().unwrap();
}

/// A machine whose monotonic clock stood still for so many milliseconds.
#[derive(Debug)]
struct Machine {
    runtime: Arc<dyn Runtime>,
    paused: AtomicU64,
}

impl Machine {
    /// Everything stands still, and only the wall clock is set right afterwards.
    fn pause(&self, time: Duration) {
        thread::sleep(time);
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.paused.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Runtime for Machine {
    fn now(&self) -> Duration {
        self.runtime.now() - Duration::from_millis(self.paused.load(Ordering::SeqCst))
    }

    fn system_time(&self) -> SystemTime {
        self.runtime.system_time()
    }

    fn random(&self) -> [u8; 16] {
        self.runtime.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.runtime.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(task);
    }
}

/// C63. The runtime has one thread, which stands still with the machine.
#[apply(async_test!)]
async fn a_machine_that_was_paused_has_no_lock_any_more_and_leaves_its_successor_alone() {
    let servers = servers(3);
    let rival = locks(&servers).await;
    for auto_extend in [false, true] {
        let machine = Arc::new(Machine {
            runtime: ambient(),
            paused: AtomicU64::new(0),
        });
        let runtime: Arc<dyn Runtime> = Arc::clone(&machine) as _;
        let locks = builder(urls(&servers)).runtime(runtime).build().unwrap();
        let request = extended(KEY, SECOND).auto_extend(auto_extend);
        let guard = locks.lock(request).await.unwrap();
        let lost = guard.lost();
        machine.pause(1500 * MS);
        assert!(!guard.is_valid(), "it counts by the clock that stood still");
        let next = rival.lock(extended(KEY, 60 * SECOND)).await.unwrap();
        granted_everywhere(&next).await;
        assert_eq!(timeout(LONG, lost).await.unwrap(), Loss::Expired);
        let extended = guard.extend(SECOND).await;
        assert!(matches!(extended, Err(ExtendError::Lost)), "{extended:?}");
        let gone = released(&guard).await;
        assert!(matches!(gone, Err(ReleaseError::NotHeld)), "{gone:?}");
        assert!(all_have(&servers, next.token()));
        released(&next).await.unwrap();
        until("released", LONG, || keys(&servers) == 0).await;
    }
}
