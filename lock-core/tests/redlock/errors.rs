//! Contention is never reported as an outage nor the reverse, and each node's cause is kept.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use lock_core::node::Subscription;
use lock_core::{
    AcquireError, Command, DistributedLockExt, LockRequest, NodeError, RedisNode, Redlock, Reply,
};
use lock_testkit::Fault;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn all_nodes_down_is_an_outage_that_names_each_cause() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(Fault::Refuse);
    nodes[1].set_fault(Fault::Hang);
    nodes[2].set_fault(Fault::error("READONLY You can't write"));
    let request = LockRequest::new(KEY).max_wait(1_000 * MS);
    let (result, took) = timed(locks.lock(request)).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    assert!(took <= 1_001 * MS, "{took:?}");
    let shown = outage.to_string();
    assert!(
        shown.starts_with("too few nodes answered, 2 of 3 are needed"),
        "{shown}"
    );
    assert!(shown.contains("memory-1: connection refused"), "{shown}");
    assert!(shown.contains("memory-2: no"), "{shown}");
    assert!(
        shown.contains("memory-3: READONLY You can't write"),
        "{shown}"
    );
    assert!(outage.source().is_none(), "what it shows already");

    for node in &nodes {
        node.heal();
    }
    let guard = locks.lock(KEY).await.unwrap();
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_fails_does_not_hide_contention() {
    let nodes = nodes(5);
    let locks = warm_locks(&nodes).await;
    let _guard = locks.lock(KEY).await.unwrap();
    nodes[0].set_fault(Fault::Refuse);
    nodes[1].set_fault(Fault::Hang);
    let request = LockRequest::new(KEY).max_wait(500 * MS);
    let result = locks.lock(request).await;
    assert!(
        matches!(result, Err(AcquireError::Contended(_))),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_may_turn_an_outage_into_contention() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let _guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes[0].set_fault(Fault::Refuse);
    nodes[2].set_fault(Fault::Delay(90 * MS));
    let (result, took) = timed(locks.try_lock(KEY)).await;
    assert!(result.unwrap().is_none());
    assert_eq!(took, 90 * MS);
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_end_the_wait_only_if_they_decide() {
    let denied = || Fault::error("NOPERM User u has no permissions to run the 'set' command");
    let request = LockRequest::new(KEY).max_wait(5_000 * MS);

    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[0].set_fault(denied());
    nodes[1].set_fault(denied());
    let (result, took) = timed(locks.lock(request.clone())).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    assert!(took.is_zero());
    assert_eq!(outage.attempts, 1);
    assert!(outage.to_string().contains("memory-2: NOPERM"), "{outage}");

    // With one permission missing and one node away for a while, waiting helps.
    nodes[1].set_fault(Fault::Refuse);
    let back = {
        let node = nodes[1].clone();
        async move {
            tokio::time::sleep(1_000 * MS).await;
            node.heal();
        }
    };
    let (guard, ()) = tokio::join!(locks.lock(request), back);
    assert!(guard.is_ok(), "{guard:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_cluster_end_the_wait_at_once_and_are_told_as_such() {
    for line in ["MOVED 3999 10.0.0.1:6379", "ASK 3999 10.0.0.1:6379"] {
        let nodes = nodes(3);
        let locks = warm_locks(&nodes).await;
        nodes[0].set_fault(Fault::error(line));
        nodes[1].set_fault(Fault::error(line));
        let request = LockRequest::new(KEY).max_wait(5_000 * MS);
        let (result, took) = timed(locks.lock(request)).await;
        let Err(AcquireError::Unavailable(outage)) = result else {
            panic!("{result:?}");
        };
        assert!(took.is_zero());
        assert_eq!(outage.attempts, 1);
        let told = format!("memory-2: {line} (this node is part of a cluster)");
        assert!(outage.to_string().contains(&told), "{outage}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_names_and_tokens_of_holders_are_not_shown() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let long = "n".repeat(60_000);
    let guard = locks.lock(&long).await.unwrap();
    let shown = format!("{guard:?} {:?}", LockRequest::many([&long, KEY]));
    assert!(shown.len() < 1_000, "{shown}");
    let twice = locks.lock(LockRequest::many([&long, &long])).await;
    let error = twice.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.len() < 1_000, "{shown}");

    let request = LockRequest::new(&long).fail_if_held(true);
    let error = locks.lock(request).await.unwrap_err();
    let AcquireError::Contended(contended) = &error else {
        panic!("{error:?}");
    };
    let token = contended.holder.clone().unwrap();
    let inspection = locks.inspect(&long).await.unwrap();
    let shown = format!("{error} {error:?} {inspection:?}");
    let as_numbers = format!("{token:?}");
    let as_text = String::from_utf8(token).unwrap();
    assert!(!shown.contains(&as_text), "{shown}");
    assert!(
        !shown.contains(as_numbers.trim_matches(['[', ']'])),
        "{shown}"
    );
}

/// A node with a bug in its client, which shows when it is asked for a future, when that is polled,
/// or when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Panics {
    Asked,
    Polled,
    Dropped,
}

struct PanickingCall(Panics);

impl Future for PanickingCall {
    type Output = Result<Reply, NodeError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert_ne!(self.0, Panics::Polled, "a bug in a client");
        Poll::Ready(Ok(Reply::ok()))
    }
}

impl Drop for PanickingCall {
    fn drop(&mut self) {
        panic!("a bug in a client that is dropped");
    }
}

#[async_trait]
impl RedisNode for Panics {
    fn execute<'n, 'c, 'f>(
        &'n self,
        _command: &'c Command,
        _within: Duration,
    ) -> BoxFuture<'f, Result<Reply, NodeError>>
    where
        'n: 'f,
        'c: 'f,
        Self: 'f,
    {
        assert_ne!(*self, Self::Asked, "a bug in a client");
        Box::pin(PanickingCall(*self))
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        "panics"
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_panics_is_a_node_that_fails() {
    for panics in [Panics::Asked, Panics::Polled, Panics::Dropped] {
        a_panic_is_a_failure(panics).await;
    }
}

async fn a_panic_is_a_failure(panics: Panics) {
    let nodes = nodes(2);
    let all: [Arc<dyn RedisNode>; 3] = [
        Arc::new(panics),
        Arc::new(nodes[0].clone()),
        Arc::new(nodes[1].clone()),
    ];
    let locks = Redlock::new(all).unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    guard.extend(60_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    drop(locks.lock(KEY).await.unwrap());
    settle().await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);

    nodes[0].set_fault(Fault::Refuse);
    let Err(AcquireError::Unavailable(outage)) = locks.try_lock(KEY).await else {
        panic!("not an outage");
    };
    let shown = outage.to_string();
    assert!(shown.contains("panics: the client panicked"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_holders_alone_ends_with_the_first_outage() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let request = LockRequest::new(KEY)
        .ttl(2_000 * MS)
        .max_wait(None)
        .fail_if_unavailable(true);
    let _holder = locks.lock(&request).await.unwrap();
    let (second, took) = timed(locks.lock(&request)).await;
    let second = second.unwrap();
    assert!(took >= 1_500 * MS, "it waits for a holder: {took:?}");

    nodes[0].set_fault(Fault::Hang);
    nodes[1].set_fault(Fault::Hang);
    let (result, took) = timed(locks.lock(&request)).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    assert_eq!((outage.attempts, took), (1, 100 * MS));

    // Many that come next do not even wait for that.
    let calls =
        (0..200).map(|i| locks.lock(LockRequest::new(format!("k{i}")).fail_if_unavailable(true)));
    let (results, took) = timed(futures::future::join_all(calls)).await;
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Err(AcquireError::Unavailable(_))))
    );
    assert!(took <= 100 * MS, "{took:?}");
    nodes.iter().for_each(|node| node.heal());
    drop(second);
}

/// The error with all its causes, as a program prints it.
fn chain(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        chain = format!("{chain}: {error}");
        cause = error.source();
    }
    chain
}

#[tokio::test(start_paused = true)]
async fn an_outage_says_each_cause_once_and_names_every_node() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    let acquired = locks.try_lock("other").await.unwrap_err();
    let extended = guard.extend(60_000 * MS).await.unwrap_err();
    let released = guard.release().await.unwrap_err();
    for shown in [chain(&acquired), chain(&extended), chain(&released)] {
        let said = "memory-1, memory-2, memory-3: connection refused";
        assert!(shown.contains(said), "{shown}");
        assert_eq!(shown.matches("refused").count(), 1, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_timeout_below_the_latency_is_named_with_the_time_that_answers_take() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes
        .iter()
        .for_each(|node| node.set_fault(Fault::Delay(120 * MS)));
    let request = LockRequest::new(KEY).max_wait(3_000 * MS);
    let error = locks.lock(request).await.unwrap_err();
    let late = "memory-1, memory-2, memory-3: no answer in 100 ms; answers came late, after up to 120 ms: \
                `node_timeout` is too short for them";
    assert!(chain(&error).ends_with(late), "{error}");
    let AcquireError::Unavailable(outage) = error else {
        panic!("{error:?}");
    };
    assert!(outage.nodes.iter().all(|node| node.late == Some(120 * MS)));

    // Each attempt has left one release and nothing behind it.
    tokio::time::sleep(300 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    for node in &nodes {
        let calls = node.calls();
        assert_eq!(calls.acquire, calls.release, "{calls:?}");
        assert!(calls.acquire <= u64::from(outage.attempts) + 1, "{calls:?}");
    }

    // It is forgotten once answers come in time.
    nodes.iter().for_each(|node| node.heal());
    locks.lock(KEY).await.unwrap().release().await.unwrap();
    settle().await;
    nodes.iter().for_each(|node| node.set_fault(Fault::Hang));
    let error = locks.try_lock(KEY).await.unwrap_err();
    assert!(
        error.to_string().ends_with("no answer in 100 ms"),
        "{error}"
    );
}
