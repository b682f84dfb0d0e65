//! What an observer hears.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::executor::block_on;
use lock_core::node::{Command, NodeError, Operation, RedisNode, Reply, Subscription};
use lock_core::observer::*;
use lock_core::runtime::{Runtime, ThreadRuntime};
use lock_core::{DistributedLockExt, LockGuard, LockRequest, Loss, Redlock};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

use crate::support::*;

/// Notes what it hears, and does what it is told meanwhile.
#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    then: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Heard {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
        if let Some(then) = self.then.get() {
            then();
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

fn text(resource: &[u8]) -> String {
    String::from_utf8_lossy(resource).into_owned()
}

impl Observer for Heard {
    fn acquired(&self, event: &Acquired<'_>) {
        let Acquired {
            resource,
            lock,
            waited,
            attempts,
            ..
        } = event;
        let resource = text(resource);
        self.note(format!("{resource} {lock} acquired {waited:?} {attempts}"));
    }

    fn not_acquired(&self, event: &NotAcquired<'_>) {
        let error = event.error.to_string();
        let error = error.split(' ').next().unwrap_or_default();
        self.note(format!("{} {error}", text(event.resource)));
    }

    fn extended(&self, event: &Extended<'_>) {
        let Extended {
            resource,
            lock,
            remaining,
            ..
        } = event;
        self.note(format!("{} {lock} extended {remaining:?}", text(resource)));
    }

    fn not_extended(&self, event: &NotExtended<'_>) {
        self.note(format!(
            "{} {} not extended",
            text(event.resource),
            event.lock
        ));
    }

    fn lost(&self, event: &Lost<'_>) {
        let Lost {
            resource,
            lock,
            loss,
            ..
        } = event;
        self.note(format!("{} {lock} lost {loss:?}", text(resource)));
    }

    fn released(&self, event: &Released<'_>) {
        let Released {
            resource,
            lock,
            held,
            outcome,
            ..
        } = event;
        self.note(format!("{} {lock} {outcome:?} {held:?}", text(resource)));
    }

    fn node_down(&self, event: &NodeDown<'_>) {
        self.note(format!("{} down: {}", event.node, event.error));
    }

    fn node_up(&self, node: &str) {
        self.note(format!("{node} up"));
    }

    fn quorum_out_of_reach(&self, event: &QuorumOutOfReach) {
        self.note(format!("{} of {}", event.up, event.quorum));
    }

    fn quorum_back(&self) {
        self.note("quorum".into());
    }
}

fn observed(nodes: &[MemoryNode], heard: &Arc<Heard>) -> Redlock<MemoryNode> {
    let heard = Arc::clone(heard);
    builder(nodes).prefix("p:").observer(heard).build().unwrap()
}

/// The lines, with the name of the lock taken out of those of one lock.
fn of_one_lock(lines: &[String]) -> Vec<String> {
    let id = lines[0].split(' ').nth(1).unwrap();
    assert_eq!(id.len(), 8, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(id)), "{lines:?}");
    lines
        .iter()
        .map(|line| line.replace(&format!(" {id}"), ""))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_events_of_one_lock_share_its_name_and_are_heard_once() {
    let heard = Arc::<Heard>::default();
    let nodes = nodes(3);
    let locks = observed(&nodes, &heard);
    let request = LockRequest::new(KEY).ttl(3000 * MS).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    sleep(1500 * MS).await;
    guard.extend(5000 * MS).await.unwrap();
    guard.release().await.unwrap();
    guard.release().await.unwrap();
    let token = guard.token().to_owned();
    drop(guard);
    settle().await;
    let lines = heard.take();
    // Its random part: a note may stand behind it.
    assert!(!lines.concat().contains(&token[..36]), "{lines:?}");
    assert_eq!(
        of_one_lock(&lines),
        [
            "k acquired 0ns 1",
            "k extended 2.968s",
            "k extended 4.948s",
            "k Released 1.5s",
        ]
    );

    let holder = locks
        .lock(LockRequest::new(KEY).ttl(1000 * MS))
        .await
        .unwrap();
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    assert!(holder.lost().await == Loss::Expired);
    sleep(100 * MS).await;
    holder.release().await.unwrap_err();
    let mut lines = heard.take();
    assert_eq!(lines.remove(1), "k held");
    assert_eq!(
        of_one_lock(&lines),
        ["k acquired 0ns 1", "k lost Expired", "k NotHeld 1.088s"]
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_and_quorums_that_go_and_come_back_are_heard_once() {
    let heard = Arc::<Heard>::default();
    let nodes = nodes(3);
    let locks = observed(&nodes, &heard);
    let request = LockRequest::new(KEY).ttl(3000 * MS).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    heard.take();
    nodes[0].set_fault(Fault::Refuse);
    nodes[1].set_fault(Fault::Hang);
    guard.extend(3000 * MS).await.unwrap_err();
    let lines = heard.take();
    assert_eq!(
        lines[..3],
        [
            "memory-1 down: connection refused",
            "memory-2 down: no answer in 100 ms",
            "1 of 2"
        ]
    );
    assert!(
        lines[3].ends_with("not extended") && lines.len() == 4,
        "{lines:?}"
    );
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(locks.try_lock("other").await.is_err());
    let lines = heard.take();
    let lost = lines.iter().filter(|line| line.contains("lost")).count();
    assert_eq!(lost, 1, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "other too");
    assert!(!lines.iter().any(|line| line.contains("down")), "{lines:?}");

    nodes.iter().for_each(|node| node.heal());
    for _ in 0..3 {
        locks.lock("other").await.unwrap().release().await.unwrap();
        sleep(1000 * MS).await;
    }
    let lines = heard.take();
    let lines = lines.iter().filter(|line| !line.starts_with("other "));
    let mut lines = lines.collect::<Vec<_>>();
    lines.sort();
    assert_eq!(lines, ["memory-1 up", "memory-2 up", "quorum"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_called_without_any_lock_of_the_engine() {
    let heard = Arc::<Heard>::default();
    let nodes = nodes(3);
    let locks = observed(&nodes, &heard);
    let guard = Arc::new(Mutex::new(None::<Arc<LockGuard>>));
    heard
        .then
        .set({
            let (locks, guard) = (locks.clone(), Arc::clone(&guard));
            let is_busy = AtomicBool::new(false);
            Box::new(move || {
                // What it does itself is heard too.
                if is_busy.swap(true, Ordering::SeqCst) {
                    return;
                }
                drop(locks.try_lock("another").now_or_never());
                let held = guard.lock().unwrap().clone();
                if let Some(held) = held {
                    held.lost().now_or_never();
                    drop(held.extend(3000 * MS).now_or_never());
                    assert!(held.votes().granted <= 3);
                }
                is_busy.store(false, Ordering::SeqCst);
            })
        })
        .ok()
        .unwrap();
    let request = LockRequest::new(KEY).ttl(3000 * MS).auto_extend(true);
    let held = Arc::new(locks.lock(request).await.unwrap());
    *guard.lock().unwrap() = Some(Arc::clone(&held));
    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Refuse);
    held.extend(3000 * MS).await.unwrap_err();
    held.lost().await;
    held.release().await.ok();
    nodes.iter().for_each(|node| node.heal());
    sleep(5000 * MS).await;
    held.release().await.ok();
    let lines = heard.take().join("\n");
    for event in [
        "acquired",
        "not extended",
        "lost",
        "Unavailable",
        "NotHeld",
        "down",
        "2",
    ] {
        assert!(lines.contains(event), "{event}: {lines}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_breaks_nothing() {
    let heard = Arc::<Heard>::default();
    heard
        .then
        .set(Box::new(|| panic!("a bug in an observer")))
        .ok()
        .unwrap();
    let nodes = nodes(3);
    let locks = observed(&nodes, &heard);
    let request = LockRequest::new(KEY).ttl(3000 * MS).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    nodes[0].set_fault(Fault::Refuse);
    sleep(5000 * MS).await;
    guard.extend(3000 * MS).await.unwrap();
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    guard.release().await.unwrap();
    nodes[0].heal();
    sleep(3000 * MS).await;
    assert_eq!(holding(&nodes, "p:k"), [0_usize; 0]);
    assert!(heard.take().len() > 5);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_tried_again_and_again_is_told_once_and_then_its_end() {
    let heard = Arc::<Heard>::default();
    let nodes = nodes(3);
    let locks = observed(&nodes, &heard);
    let guard = locks.lock(KEY).await.unwrap();
    nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    for _ in 0..3 {
        guard.release().await.unwrap_err();
    }
    let count = |lines: &[String], what| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count(&heard.take(), "Unavailable"), 1);
    nodes.iter().for_each(MemoryNode::heal);
    guard.release().await.unwrap();
    let lines = heard.take();
    assert_eq!(count(&lines, "k "), 1, "{lines:?}");
    assert_eq!(count(&lines, "Released"), 1, "{lines:?}");
}

/// A node that is out of memory as long as this is true: it refuses what sets keys, and serves the rest.
#[derive(Clone, Debug)]
struct Full(MemoryNode, Arc<AtomicBool>);

#[async_trait]
impl RedisNode for Full {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let sets_keys = matches!(command.operation(), Operation::Acquire { .. });
        if sets_keys && self.1.load(Ordering::SeqCst) {
            return Err(NodeError::server("OOM command not allowed"));
        }
        self.0.execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.0.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.0.label()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_memory_is_down_until_it_sets_keys_again() {
    let heard = Arc::<Heard>::default();
    let is_full = Arc::new(AtomicBool::new(false));
    let nodes = nodes(1).into_iter();
    let nodes = nodes.map(|node| Full(node, Arc::clone(&is_full)));
    let builder = Redlock::builder().nodes(nodes);
    let locks = builder.observer(Arc::clone(&heard) as _).build().unwrap();
    let request = LockRequest::new(KEY).ttl(3000 * MS).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    is_full.store(true, Ordering::SeqCst);
    let news = || {
        let lines = heard.take().into_iter();
        let lines = lines.filter(|line| line.starts_with("memory-1"));
        lines.collect::<Vec<_>>()
    };
    for _ in 0..3 {
        assert!(locks.try_lock("other").await.is_err());
        // It extends meanwhile.
        sleep(10_000 * MS).await;
    }
    assert!(guard.is_valid());
    assert_eq!(news(), ["memory-1 down: OOM command not allowed"]);
    is_full.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        drop(locks.try_lock("other").await.unwrap());
        sleep(1000 * MS).await;
    }
    assert_eq!(news(), ["memory-1 up"]);
}

/// An observer that keeps the first one who tells it of a node, or of a loss, until it may go on.
#[derive(Default)]
struct Slow {
    lines: Mutex<Vec<String>>,
    is_in: AtomicBool,
    may_leave: AtomicBool,
}

impl Slow {
    fn note(&self, line: String) {
        let is_first = !self.is_in.swap(true, Ordering::SeqCst);
        if is_first {
            wait_until(|| self.may_leave.load(Ordering::SeqCst));
        }
        self.lines.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl Observer for Slow {
    fn lost(&self, event: &Lost<'_>) {
        self.note(format!("{:?}", event.loss));
    }

    fn node_down(&self, event: &NodeDown<'_>) {
        self.note(format!("{} down", event.node));
    }

    fn node_up(&self, node: &str) {
        self.note(format!("{node} up"));
    }

    fn quorum_out_of_reach(&self, event: &QuorumOutOfReach) {
        self.note(format!("{} left", event.up));
    }

    fn quorum_back(&self) {
        self.note("quorum".into());
    }
}

/// Waits in real time.
fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(5 * MS);
    }
}

/// A lock on threads, whose nodes have answered.
fn slowly_observed() -> (Vec<MemoryNode>, Arc<Slow>, Redlock<MemoryNode>) {
    let runtime: Arc<dyn Runtime> = ThreadRuntime::shared();
    let nodes = MemoryNode::several_with_runtime(3, &runtime);
    let slow = Arc::<Slow>::default();
    let builder = builder(&nodes).observer(slow.clone());
    // Those who wait for a loss look for themselves else, each second.
    let locks = builder.notice_pauses(false).build().unwrap();
    block_on(async {
        locks
            .lock("warm-up")
            .await
            .unwrap()
            .release()
            .await
            .unwrap()
    });
    (nodes, slow, locks)
}

#[test]
fn a_slow_observer_hears_of_nodes_in_order_and_holds_up_nobody_else() {
    let (nodes, slow, locks) = slowly_observed();
    nodes[0].set_fault(Fault::Refuse);
    nodes[1].set_fault(Fault::Refuse);
    let first = std::thread::spawn({
        let locks = locks.clone();
        move || drop(block_on(locks.try_lock("a")))
    });
    wait_until(|| slow.is_in.load(Ordering::SeqCst));
    assert!(block_on(locks.try_lock("b")).is_err());
    nodes.iter().for_each(MemoryNode::heal);
    let serve = || {
        drop(block_on(locks.try_lock("c")));
        std::thread::sleep(20 * MS);
    };
    // Meanwhile the nodes come back, and nobody may hear of that yet.
    (0..60).for_each(|_| serve());
    assert_eq!(slow.lines(), [""; 0]);
    slow.may_leave.store(true, Ordering::SeqCst);
    first.join().unwrap();
    wait_until(|| {
        serve();
        slow.lines().len() >= 6
    });
    let lines = slow.lines();
    assert_eq!(lines[..3], ["memory-1 down", "memory-2 down", "1 left"]);
    let mut ups = [&lines[3][..], &lines[5]];
    ups.sort_unstable();
    assert_eq!(ups, ["memory-1 up", "memory-2 up"], "{lines:?}");
    assert_eq!((&*lines[4], lines.len()), ("quorum", 6), "{lines:?}");
}

#[test]
fn those_who_wait_for_a_loss_hear_of_it_before_a_slow_observer_has_returned() {
    let (nodes, slow, locks) = slowly_observed();
    let guard = Arc::new(block_on(locks.lock(KEY)).unwrap());
    let waiter = std::thread::spawn({
        let (slow, lost) = (Arc::clone(&slow), guard.lost());
        move || {
            let loss = block_on(lost);
            let is_first = slow.lines().is_empty();
            slow.may_leave.store(true, Ordering::SeqCst);
            (loss, is_first)
        }
    });
    // Its first look is over.
    std::thread::sleep(50 * MS);
    nodes.iter().for_each(MemoryNode::forget);
    assert!(block_on(guard.extend(60_000 * MS)).is_err());
    assert_eq!(waiter.join().unwrap(), (Loss::Revoked, true));
    assert_eq!(slow.lines(), ["Revoked"]);
}
