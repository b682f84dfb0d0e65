//! A machine that is paused, as virtual ones are: its monotonic clock stands still, and the wall clock is
//! set right afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use lock_core::runtime::{BoxFuture, ambient};
use lock_core::{
    AcquireError, DistributedLockExt, ExtendError, LockRequest, Loss, Redlock, Runtime,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{advance, sleep, timeout};

use crate::support::*;

/// The clocks of a machine that was paused for so many milliseconds.
#[derive(Debug)]
struct Machine {
    inner: Arc<dyn Runtime>,
    paused: AtomicU64,
    set_forward: AtomicU64,
}

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: ambient(),
            paused: AtomicU64::new(0),
            set_forward: AtomicU64::new(0),
        })
    }

    async fn pause(&self, millis: u32) {
        self.paused.fetch_add(millis.into(), Ordering::Relaxed);
        // No timer fires on the way.
        advance(millis * MS).await;
    }

    fn set_wall_forward(&self, millis: u64) {
        self.set_forward.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Runtime for Machine {
    fn now(&self) -> Duration {
        self.inner.now() - Duration::from_millis(self.paused.load(Ordering::Relaxed))
    }

    fn system_time(&self) -> SystemTime {
        let forward = self.set_forward.load(Ordering::Relaxed);
        self.inner.system_time() + Duration::from_millis(forward)
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

fn locks_on(machine: &Arc<Machine>, nodes: &[MemoryNode]) -> Redlock<MemoryNode> {
    let runtime: Arc<dyn Runtime> = Arc::clone(machine) as _;
    builder(nodes).runtime(runtime).build().unwrap()
}

fn request(ttl_in_millis: u32) -> LockRequest {
    LockRequest::new(KEY).ttl(ttl_in_millis * MS)
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_the_machine_ends_the_validity() {
    for auto_extend in [false, true] {
        let (nodes, machine) = (nodes(3), Machine::new());
        let locks = locks_on(&machine, &nodes);
        let request = request(1000).auto_extend(auto_extend);
        let guard = locks.lock(&request).await.unwrap();
        let lost = guard.lost();
        machine.pause(3000).await;
        // Its keys have expired, and another one has the lock.
        let other = crate::support::locks(&nodes).lock(KEY).await.unwrap();
        assert!(!guard.is_valid());
        assert!(matches!(
            guard.extend(1000 * MS).await,
            Err(ExtendError::Lost)
        ));
        assert_eq!(timeout(MS, lost).await, Ok(Loss::Expired));
        guard.release().await.unwrap_err();
        assert!(other.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_loss_hears_of_a_pause_within_a_second() {
    let (nodes, machine) = (nodes(3), Machine::new());
    let locks = locks_on(&machine, &nodes);
    let guard = locks.lock(request(60_000)).await.unwrap();
    let lost = tokio::spawn(guard.lost());
    sleep(100 * MS).await;
    machine.pause(700).await;
    assert_eq!(
        timeout(1000 * MS, lost).await.unwrap().unwrap(),
        Loss::Expired
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_while_a_lock_is_acquired_makes_it_too_late() {
    let (nodes, machine) = (nodes(3), Machine::new());
    let locks = locks_on(&machine, &nodes);
    for node in &nodes {
        node.set_fault(Fault::Delay(700 * MS));
    }
    let acquiring = locks.clone();
    let request = request(60_000).max_wait(Duration::ZERO);
    let acquiring = tokio::spawn(async move { acquiring.lock(request).await.map(drop) });
    sleep(MS).await;
    machine.pause(698).await;
    let result = acquiring.await.unwrap();
    assert!(
        matches!(result, Err(AcquireError::TooSlow(_))),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_clocks_may_differ_by_is_no_pause_and_each_extension_counts_anew() {
    let (nodes, machine) = (nodes(3), Machine::new());
    let locks = locks_on(&machine, &nodes);
    let guard = locks.lock(request(10_000)).await.unwrap();
    for _ in 0..20 {
        machine.set_wall_forward(400);
        assert!(guard.is_valid());
        guard.extend(10_000 * MS).await.unwrap();
    }
    machine.set_wall_forward(501);
    assert!(!guard.is_valid());
    // With a ttl of an hour, the drift allows for 36 s.
    let guard = locks.lock(LockRequest::new("long").ttl(3_600_000 * MS));
    let guard = guard.await.unwrap();
    machine.set_wall_forward(36_000);
    assert!(guard.is_valid());
    machine.set_wall_forward(3);
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_back_or_that_nobody_asks_ends_nothing() {
    let (nodes, machine) = (nodes(3), Machine::new());
    machine.set_wall_forward(3_600_000);
    let locks = locks_on(&machine, &nodes);
    let guard = locks.lock(request(10_000)).await.unwrap();
    machine.set_forward.store(0, Ordering::Relaxed);
    assert!(guard.is_valid());

    let runtime: Arc<dyn Runtime> = Arc::clone(&machine) as _;
    let unaware = builder(&nodes).runtime(runtime).notice_pauses(false);
    let unaware = unaware.build().unwrap();
    let guard = unaware.lock("b").await.unwrap();
    machine.set_wall_forward(3_600_000);
    assert!(guard.is_valid());
}
