//! What the tests share.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::runtime::ambient;
use lock_core::{Redlock, RedlockBuilder};
use lock_testkit::MemoryNode;
use tokio::time::Instant;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// The key of most tests.
pub(crate) const KEY: &str = "k";

/// Nodes on the clock of the test.
pub(crate) fn nodes(count: usize) -> Vec<MemoryNode> {
    MemoryNode::several_with_runtime(count, &ambient())
}

pub(crate) fn builder(nodes: &[MemoryNode]) -> RedlockBuilder<MemoryNode> {
    Redlock::builder().nodes(nodes.iter().cloned())
}

pub(crate) fn locks(nodes: &[MemoryNode]) -> Redlock<MemoryNode> {
    builder(nodes).build().unwrap()
}

/// A lock whose nodes have all answered before, so that the node timeout holds for each.
pub(crate) async fn warm_locks(nodes: &[MemoryNode]) -> Redlock<MemoryNode> {
    let locks = locks(nodes);
    warm(&locks).await;
    locks
}

pub(crate) async fn warm(locks: &Redlock<MemoryNode>) {
    use lock_core::DistributedLockExt;
    let guard = locks.lock("warm-up").await.unwrap();
    guard.release().await.unwrap();
    settle().await;
}

/// Lets everything happen that is due, and as much time pass as that takes at most.
pub(crate) async fn settle() {
    tokio::time::sleep(MS).await;
}

/// The nodes, by index, that hold the key.
pub(crate) fn holding(nodes: &[MemoryNode], key: &str) -> Vec<usize> {
    let holds = |node: &usize| nodes[*node].get(key).is_some();
    (0..nodes.len()).filter(holds).collect()
}

/// How long something took on the test's clock.
pub(crate) async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let result = future.await;
    (result, started.elapsed())
}

/// Polls a future at most `polls` times, then drops it; whether it was ready by then.
pub(crate) async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(result) = polled {
            return Some(result);
        }
        tokio::time::sleep(7 * MS).await;
    }
    None
}
