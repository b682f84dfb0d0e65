//! A server that does not know a script: `NOSCRIPT` means that nothing ran.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::Subscription;
use lock_core::{Command, DistributedLockExt, LockRequest, NodeError, RedisNode, Redlock, Reply};
use lock_testkit::MemoryNode;

use crate::support::*;

/// A node that knows no script by its digest, and says so after a while.
#[derive(Debug)]
struct Forgetful {
    node: MemoryNode,
    pause: Mutex<Duration>,
    is_forgetful: AtomicBool,
    by_source: Mutex<Vec<&'static str>>,
}

impl Forgetful {
    fn new(label: &str) -> Arc<Self> {
        Arc::new(Self {
            node: MemoryNode::with_runtime(label, lock_core::runtime::ambient()),
            pause: Mutex::new(Duration::ZERO),
            is_forgetful: AtomicBool::new(true),
            by_source: Mutex::default(),
        })
    }
}

#[async_trait]
impl RedisNode for Forgetful {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let name = command.args()[0].to_vec();
        if name == b"EVALSHA" && self.is_forgetful.load(Ordering::SeqCst) {
            let pause = *self.pause.lock().unwrap();
            tokio::time::sleep(pause).await;
            return Err(NodeError::server("NOSCRIPT No matching script."));
        }
        if name == b"EVAL" {
            let operation = command.operation().name();
            self.by_source.lock().unwrap().push(operation);
        }
        self.node.execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.node.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.node.label()
    }
}

#[tokio::test(start_paused = true)]
async fn the_source_follows_at_once_for_each_script() {
    let nodes = ["a", "b", "c"].map(Forgetful::new);
    let locks = Redlock::new(nodes.clone()).unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    guard.extend(60_000 * MS).await.unwrap();
    let again = LockRequest::new(KEY).fail_if_held(true);
    assert!(locks.lock(again).await.is_err());
    guard.release().await.unwrap();
    settle().await;
    for node in &nodes {
        assert!(node.node.keys().is_empty());
        let mut by_source = node.by_source.lock().unwrap().clone();
        by_source.dedup();
        // The last release belongs to the guard, one before it to the attempt that was refused.
        let by_source = by_source.into_iter().filter(|name| *name != "release");
        assert_eq!(by_source.collect::<Vec<_>>(), ["extend", "acquire"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_attempt_is_over_is_not_sent_again_but_its_release_is() {
    let nodes = ["a"].map(Forgetful::new);
    let node = &nodes[0];
    let locks = Redlock::builder().nodes(nodes.clone()).build().unwrap();
    node.node.set_foreign(KEY, "rival");
    assert!(node.node.expire(KEY, 20 * MS));
    // The second attempt goes by script. While the node takes its time to say that it does not
    // know it, the caller gives up.
    *node.pause.lock().unwrap() = 80 * MS;
    let request = LockRequest::new(KEY).max_wait(60 * MS);
    let result = locks.lock(request).await;
    assert!(result.is_err(), "{result:?}");
    tokio::time::sleep(1_000 * MS).await;
    let calls = node.node.calls();
    assert_eq!(calls.acquire_or_report, 0, "{calls:?}");
    assert!(calls.release > 0, "{calls:?}");
    assert!(node.node.keys().is_empty());
}
