//! Several resources in one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::{
    AcquireError, DistributedLockExt, ExtendError, Lease, LockRequest, Loss, ReleaseError,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

use crate::support::*;

fn all(resources: &[&str]) -> LockRequest {
    LockRequest::many(resources).ttl(3000 * MS)
}

fn keys(node: &MemoryNode) -> Vec<String> {
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    node.keys().into_iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn all_are_locked_in_one_round_and_released_together() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(all(&["b", "a", "c"])).await.unwrap();
    settle().await;
    for node in &nodes {
        assert_eq!(keys(node), ["a", "b", "c"]);
        assert_eq!(node.calls().total(), 1, "one command for all");
    }
    for taken in [all(&["c", "x"]), all(&["a"]), LockRequest::new("b")] {
        assert!(locks.try_lock(taken).await.unwrap().is_none());
    }
    settle().await;
    assert_eq!(
        keys(&nodes[0]),
        ["a", "b", "c"],
        "the refused one left nothing"
    );
    let other = locks.lock(all(&["x", "y"])).await.unwrap();
    guard.extend(30_000 * MS).await.unwrap();
    settle().await;
    assert!(
        ["a", "b", "c"]
            .iter()
            .all(|key| nodes[0].pttl(key) > 20_000)
    );
    guard.release().await.unwrap();
    settle().await;
    assert_eq!(keys(&nodes[0]), ["x", "y"]);
    drop(other);
    settle().await;
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn names_are_never_joined() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let _one = locks.lock(all(&["a", "bc"])).await.unwrap();
    assert!(locks.try_lock(all(&["ab", "c"])).await.unwrap().is_some());
    assert!(locks.try_lock("abc").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_loses_all() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    for auto_extend in [false, true] {
        let guard = locks
            .lock(all(&["a", "b"]).auto_extend(auto_extend))
            .await
            .unwrap();
        nodes[..3]
            .iter()
            .for_each(|node| node.set_foreign("b", "stolen"));
        if auto_extend {
            assert_eq!(guard.lost().await, Loss::Revoked);
        }
        assert!(matches!(
            guard.extend(3000 * MS).await,
            Err(ExtendError::Lost)
        ));
        assert!(!guard.is_valid());
        assert!(matches!(guard.release().await, Err(ReleaseError::NotHeld)));
        settle().await;
        assert_eq!(
            keys(&nodes[0]),
            ["b"],
            "the rest is free, the thief's is not"
        );
        nodes[..3].iter().for_each(|node| assert!(node.remove("b")));
    }
}

#[tokio::test(start_paused = true)]
async fn they_are_extended_automatically_and_set_again_where_they_were_forgotten() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let several = locks
        .lock(all(&["a", "b"]).auto_extend(true))
        .await
        .unwrap();
    let one = locks.lock(all(&["c"]).auto_extend(true)).await.unwrap();
    nodes[0].forget();
    assert!(nodes[1].remove("a"));
    sleep(20_000 * MS).await;
    assert!(several.is_valid() && one.is_valid());
    assert!(nodes.iter().all(|node| keys(node) == ["a", "b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn a_doubtful_node_is_cleaned_up_whatever_the_number_of_keys() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    nodes
        .iter()
        .for_each(|node| node.set_fault(Fault::LoseReply));
    let failed = locks.lock(all(&["a", "b"]).max_wait(1000 * MS)).await;
    assert!(matches!(failed, Err(AcquireError::Unavailable(_))));
    nodes.iter().for_each(MemoryNode::heal);
    sleep(1000 * MS).await;
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_stands_for_all() {
    let nodes = nodes(5);
    let guard = locks(&nodes).lock(all(&["b", "a"])).await.unwrap();
    let lease = guard
        .into_lease()
        .unwrap()
        .to_string()
        .parse::<Lease>()
        .unwrap();
    let guard = locks(&nodes).resume(&lease).await.unwrap();
    guard.release().await.unwrap();
    settle().await;
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn bad_lists_are_refused_before_anything_is_sent() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let many = (0..101).map(|number| number.to_string());
    let refused = [
        (all(&[]), "no resources given, at least 1 is needed"),
        (all(&["a", "b", "a"]), "resource \"a\" is listed twice"),
        (
            all(&["a", ""]),
            "resource is empty, at least 1 byte is needed",
        ),
        (
            LockRequest::many(many),
            "101 resources given, above the maximum of 100",
        ),
    ];
    for (request, expected) in refused {
        match locks.lock(request).await {
            Err(AcquireError::Invalid(invalid)) => assert_eq!(invalid.to_string(), expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(nodes[0].calls().total(), 0);
}

/// Nodes as those of a cluster whose keys are apart.
mod apart {
    use std::time::Duration;

    use async_trait::async_trait;
    use lock_core::node::{Operation, Subscription};
    use lock_core::{Command, NodeError, RedisNode, Redlock, Reply};

    use super::*;
    use crate::logs::Log;

    /// Releases of several keys at once: there is nothing to release that way.
    static RELEASES_OF_SEVERAL: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    struct Cluster(MemoryNode);

    #[async_trait]
    impl RedisNode for Cluster {
        async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
            let keys = match command.operation() {
                Operation::Acquire { keys, .. } | Operation::Release { keys, .. } => {
                    keys.as_slice().len()
                }
                Operation::Extend { entries } => entries.len(),
                _ => 1,
            };
            if keys > 1 {
                let is_release = matches!(command.operation(), Operation::Release { .. });
                RELEASES_OF_SEVERAL.fetch_add(usize::from(is_release), Ordering::SeqCst);
                let line = "CROSSSLOT Keys in request don't hash to the same slot";
                return Err(NodeError::server(line));
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
    async fn they_are_locked_one_after_the_other_all_or_nothing() {
        let nodes = nodes(3);
        let locks = Redlock::new(nodes.iter().cloned().map(Cluster)).unwrap();
        let guard = locks
            .lock(all(&["b", "a"]).auto_extend(true))
            .await
            .unwrap();
        sleep(20_000 * MS).await;
        assert!(guard.is_valid(), "also when they are extended together");
        assert!(nodes.iter().all(|node| keys(node) == ["a", "b"]));
        let start = tokio::time::Instant::now();
        let held = locks.lock(all(&["a0", "b", "c"]).max_wait(500 * MS)).await;
        assert!(matches!(held, Err(AcquireError::Contended(_))), "{held:?}");
        assert!(start.elapsed() >= 400 * MS, "{:?}", start.elapsed());
        assert!(
            locks
                .try_lock(all(&["a0", "b", "c"]))
                .await
                .unwrap()
                .is_none()
        );
        settle().await;
        assert!(nodes.iter().all(|node| keys(node) == ["a", "b"]));
        guard.extend(5000 * MS).await.unwrap();
        guard.release().await.unwrap();
        settle().await;
        assert!(nodes.iter().all(|node| node.keys().is_empty()));
        drop(locks.lock(all(&["b", "a"])).await.unwrap());
        settle().await;
        assert!(nodes.iter().all(|node| node.keys().is_empty()));
        assert_eq!(RELEASES_OF_SEVERAL.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_loss_of_one_is_told_even_if_too_few_nodes_answered_for_another() {
        let nodes = nodes(3);
        let locks = Redlock::new(nodes.iter().cloned().map(Cluster)).unwrap();
        let guard = locks.lock(all(&["a", "b"])).await.unwrap();
        settle().await;
        nodes[0].set_fault(Fault::Refuse);
        assert!(nodes[2].remove("a"), "two do not know");
        assert!(nodes[1..].iter().all(|node| node.remove("b")), "lost");
        let extended = guard.extend(3000 * MS).await;
        assert!(matches!(extended, Err(ExtendError::Lost)), "{extended:?}");
        assert!(!guard.is_valid());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_and_what_is_given_back_is_the_same_one_by_one() {
        let nodes = nodes(3);
        let locks = Redlock::new(nodes.iter().cloned().map(Cluster)).unwrap();
        drop(locks.lock(all(&["a", "b"])).await.unwrap());
        settle().await;
        let calls = nodes[0].calls().total();
        for bad in [all(&[]), all(&["a", "a"]), all(&["a", ""])] {
            let refused = locks.try_lock(bad).await;
            assert!(
                matches!(refused, Err(AcquireError::Invalid(_))),
                "{refused:?}"
            );
        }
        assert_eq!(nodes[0].calls().total(), calls, "nothing was sent");
        let held = locks.lock("b").await.unwrap();
        let request = all(&["a", "b"]).hold_at_least(2000 * MS);
        assert!(locks.try_lock(request.clone()).await.unwrap().is_none());
        settle().await;
        assert!(
            nodes.iter().all(|node| keys(node) == ["b"]),
            "nothing is kept of a failure"
        );
        held.release().await.unwrap();
        settle().await;
        locks.lock(request).await.unwrap().release().await.unwrap();
        settle().await;
        assert!(
            nodes.iter().all(|node| keys(node) == ["a", "b"]),
            "the promise is kept"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn neither_the_first_refusal_nor_what_is_given_back_is_told_as_a_failure() {
        let (log, _on) = Log::start(tracing::Level::DEBUG);
        let nodes = nodes(3);
        let locks = Redlock::new(nodes.iter().cloned().map(Cluster)).unwrap();
        let guard = locks.lock(all(&["a", "b"])).await.unwrap();
        assert_eq!(log.count("not acquired"), 0, "{}", log.text());
        sleep(MS).await;
        // The part that was acquired is dropped with the call.
        let taken = locks.try_lock(all(&["Z", "a"])).await.unwrap();
        assert!(taken.is_none());
        assert_eq!(log.count("dropped at once"), 0, "{}", log.text());
        assert_eq!(log.count("contended resource=a"), 1, "{}", log.text());
        drop(guard);
        settle().await;
        assert!(nodes.iter().all(|node| node.keys().is_empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn philosophers_all_eat() {
        let nodes = nodes(3);
        let meals = Arc::new(AtomicUsize::new(0));
        let tasks = (0..5).map(|seat| {
            let locks = Redlock::new(nodes.iter().cloned().map(Cluster)).unwrap();
            let meals = Arc::clone(&meals);
            let forks = [seat, (seat + 1) % 5].map(|fork| format!("fork-{fork}"));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let forks = LockRequest::many(&forks).max_wait(None);
                    let guard = locks.lock(forks).await.unwrap();
                    sleep(5 * MS).await;
                    meals.fetch_add(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(meals.load(Ordering::SeqCst), 50);
    }
}
