//! What concerns one key alone is no matter of the others in its command.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Command, Operation, RedisNode, Subscription};
use lock_core::{DistributedLockExt, LockGuard, LockRequest, NodeError, Redlock, Reply};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

use crate::support::*;

/// The key that servers refuse to extend.
const REFUSED: &str = "lock-7";

/// A server that refuses an extension with this error if one of its keys is [`REFUSED`].
#[derive(Debug)]
struct Refusing {
    node: MemoryNode,
    error: &'static str,
}

#[async_trait]
impl RedisNode for Refusing {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        match command.operation() {
            Operation::Extend { entries }
                if entries
                    .iter()
                    .any(|entry| *entry.key == *REFUSED.as_bytes()) =>
            {
                Err(NodeError::server(self.error))
            }
            _ => self.node.execute(command, within).await,
        }
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.node.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.node.label()
    }
}

async fn held<N: RedisNode + ?Sized>(locks: &Redlock<N>, count: usize) -> Vec<(String, LockGuard)> {
    let mut guards = Vec::new();
    for number in 0..count {
        let name = format!("lock-{number}");
        let request = LockRequest::new(&name).ttl(1000 * MS).auto_extend(true);
        guards.push((name, locks.lock(request).await.unwrap()));
    }
    guards
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_loses_its_lock_and_no_other_of_its_batch() {
    for error in [
        "NOPERM No permissions to access a key",
        "ERR The user executing the script can't access this command or subcommand",
        "MOVED 1234 127.0.0.1:7001",
        "ASK 1234 127.0.0.1:7001",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ] {
        for count in [1, 3] {
            let refusing = nodes(count).into_iter();
            let refusing = refusing.map(|node| Refusing { node, error });
            let locks = Redlock::new(refusing).unwrap();
            let guards = held(&locks, 50).await;
            sleep(5000 * MS).await;
            for (name, guard) in &guards {
                assert_eq!(guard.is_valid(), name != REFUSED, "{name}: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn locks_that_were_extended_stay_though_a_node_takes_long_to_find_the_one_key() {
    let node = nodes(1).swap_remove(0);
    let refusing = Refusing {
        node: node.clone(),
        error: "NOPERM No permissions to access a key",
    };
    let locks = Redlock::new([refusing]).unwrap();
    let guards = held(&locks, 50).await;
    // Five answers take longer than the node may.
    node.set_fault(Fault::Delay(30 * MS));
    sleep(5000 * MS).await;
    for (name, guard) in &guards {
        assert_eq!(guard.is_valid(), name != REFUSED, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_a_minority_refuses_loses_nothing() {
    let [first, second, third] = <[_; 3]>::try_from(nodes(3)).unwrap();
    let first = Refusing {
        node: first,
        error: "NOPERM No permissions to access a key",
    };
    let locks = Redlock::builder().node(first).node(second).node(third);
    let locks = locks.build().unwrap();
    let guards = held(&locks, 50).await;
    sleep(5000 * MS).await;
    assert!(guards.iter().all(|(_, guard)| guard.is_valid()));
}

/// Two servers behind a proxy that looks at the first key of a command alone.
#[derive(Debug)]
struct Sharded([MemoryNode; 2]);

#[async_trait]
impl RedisNode for Sharded {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let last = command.operation().key().last().copied();
        let shard = usize::from(last.unwrap_or_default()) % 2;
        self.0[shard].execute(command, within).await
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.0[0].subscribe(channel).await
    }

    fn label(&self) -> &str {
        "proxy"
    }
}

/// Returns whether both of what is said of several keys holds behind the proxy.
async fn works_behind_a_proxy(one_key_per_command: bool) -> bool {
    let [one, other] = <[_; 2]>::try_from(nodes(2)).unwrap();
    let locks = Redlock::builder()
        .nodes([Sharded([one, other])])
        .one_key_per_command(one_key_per_command)
        .build()
        .unwrap();
    let both = locks.lock(LockRequest::many(["a", "b"])).await.unwrap();
    let is_exclusive = locks.try_lock("b").await.unwrap().is_none();
    both.release().await.ok();
    let guards = held(&locks, 10).await;
    sleep(5000 * MS).await;
    is_exclusive && guards.iter().all(|(_, guard)| guard.is_valid())
}

#[tokio::test(start_paused = true)]
async fn one_key_per_command_is_safe_behind_a_proxy_that_shards() {
    assert!(works_behind_a_proxy(true).await);
    assert!(
        !works_behind_a_proxy(false).await,
        "the proxy proves nothing"
    );
}
