//! One server under two names.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Command, RedisNode, Subscription};
use lock_core::{AcquireError, DistributedLockExt, LockRequest, NodeError, Redlock, Reply};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;

/// A server under a name of its own.
#[derive(Debug)]
pub(crate) struct Named(MemoryNode, &'static str);

#[async_trait]
impl RedisNode for Named {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        self.0.execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.0.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.1
    }
}

/// Locks on two servers, of which one has two names.
pub(crate) fn locks_on_two() -> (Vec<MemoryNode>, Redlock<Named>) {
    let nodes = nodes(2);
    let [one, other] = <[_; 2]>::try_from(nodes.clone()).unwrap();
    let named = [
        Named(one.clone(), "one"),
        Named(other, "other"),
        Named(one, "one again"),
    ];
    (nodes, Redlock::new(named).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_server_under_two_names_votes_once_and_both_names_are_told() {
    let (nodes, locks) = locks_on_two();
    for _ in 0..3 {
        let guard = locks.lock(KEY).await.unwrap();
        settle().await;
        guard.release().await.unwrap();
    }
    nodes[1].set_fault(Fault::Refuse);
    // A script takes its own key for a grant: one server would be a majority.
    let request = LockRequest::new(KEY).fail_if_held(true).max_wait(50 * MS);
    let error = locks.lock(request).await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable(_)), "{error:?}");
    let told = "one again: not asked: it is the same server as one or other";
    assert!(error.to_string().contains(told), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_a_rival_has_are_no_twins() {
    let nodes = nodes(5);
    let (locks, rival) = (locks(&nodes), locks(&nodes[3..]));
    for _ in 0..5 {
        let _held = rival.lock(KEY).await.unwrap();
        let guard = locks.lock(KEY).await.unwrap();
        settle().await;
        guard.release().await.unwrap();
    }
    for node in &nodes[..2] {
        node.set_fault(Fault::Refuse);
    }
    assert!(
        locks.lock("another").await.is_ok(),
        "both others still vote"
    );
}
