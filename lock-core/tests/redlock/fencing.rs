//! Fencing tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Operation, Subscription};
use lock_core::tick::{TickClaim, TickJob};
use lock_core::{
    AcquireError, BuildError, Command, DistributedLock, DistributedLockExt, FencingToken, Lease,
    LockRequest, NodeError, RedisNode, Redlock, Reply,
};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

use crate::support::*;

/// The key of the counter that belongs to the key of most tests.
const COUNTER: &str = "{k}:fencing-counter";

fn fenced() -> LockRequest {
    LockRequest::new(KEY).fencing(true)
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

/// The number of a node's counter.
fn counter(node: &MemoryNode) -> Option<u64> {
    let value = String::from_utf8(node.get(COUNTER)?).unwrap();
    Some(value.split(' ').next().unwrap().parse().unwrap())
}

/// Nodes whose counters have these numbers, by somebody else's acquisitions.
fn nodes_at<const N: usize>(numbers: [u64; N]) -> Vec<MemoryNode> {
    let nodes = nodes(N);
    for (node, number) in nodes.iter().zip(numbers) {
        node.set_foreign(COUNTER, format!("{number} somebody"));
    }
    nodes
}

/// A node that does something of its own with confirmations.
#[derive(Debug)]
struct Confirming {
    node: MemoryNode,
    how: How,
    is_asked: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Never,
    WithAnError,
    AfterTheKeyHasGone,
    AfterTheCounterHasGone,
    Late(Duration),
}

#[async_trait]
impl RedisNode for Confirming {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        if matches!(command.operation(), Operation::Confirm { .. }) {
            self.is_asked.store(true, Ordering::SeqCst);
            match self.how {
                How::Never => {
                    sleep(within).await;
                    return Err(NodeError::no_answer(within));
                }
                How::WithAnError => return Err(NodeError::server("OOM command not allowed")),
                How::AfterTheKeyHasGone => assert!(self.node.remove(KEY)),
                How::AfterTheCounterHasGone => assert!(self.node.remove(COUNTER)),
                How::Late(late) => sleep(late).await,
            }
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

/// Locks over these nodes, which confirm in this way, and whether one was asked to.
fn confirming(nodes: &[MemoryNode], how: How) -> (Redlock<Confirming>, Arc<AtomicBool>) {
    let is_asked = Arc::new(AtomicBool::new(false));
    let nodes = nodes.iter().cloned().map(|node| Confirming {
        node,
        how,
        is_asked: Arc::clone(&is_asked),
    });
    (Redlock::new(nodes).unwrap(), is_asked)
}

#[tokio::test(start_paused = true)]
async fn nodes_in_step_are_asked_once_and_have_a_counter_beside_the_key() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(fenced()).await.unwrap();
    settle().await;
    let first = guard.fencing_token().unwrap();
    for node in &nodes {
        assert_eq!(node.calls().total(), 1);
        assert_eq!(node.keys(), [KEY.as_bytes(), COUNTER.as_bytes()]);
        let value = format!("{first} {}", guard.token());
        assert_eq!(node.get(COUNTER).unwrap(), value.as_bytes());
        let left = 7 * 24 * 60 * 60 * 1000 - node.pttl(COUNTER);
        assert!((0..=1).contains(&left), "{left} ms of a week have passed");
    }
    let now = lock_core::runtime::ambient().system_time();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = now.as_micros() - u128::from(first.get());
    assert!(age < 1_000_000, "it began at the clock");
    guard.release().await.unwrap();
    settle().await;
    assert_eq!(nodes[0].keys(), [COUNTER.as_bytes()]);
    let next = locks.lock(fenced()).await.unwrap();
    assert_eq!(next.fencing_token().unwrap().get(), first.get() + 1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_without_fencing_is_a_plain_key() {
    let nodes = nodes(3);
    let locks = builder(&nodes).fencing(true).build().unwrap();
    let guard = locks.lock(fenced().fencing(false)).await.unwrap();
    settle().await;
    assert_eq!(guard.fencing_token(), None);
    for node in &nodes {
        assert_eq!((node.calls().acquire, node.calls().total()), (1, 1));
        assert_eq!(node.keys(), [KEY.as_bytes()]);
    }
    drop(guard);
    settle().await;
    assert!(locks.lock(KEY).await.unwrap().fencing_token().is_some());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_behind_confirm_the_token_and_are_in_step_from_then_on() {
    let nodes = nodes_at([5, 9, 5, 20, 3]);
    let locks = locks(&nodes);
    // The last two answer when the lock is won already.
    nodes[3..]
        .iter()
        .for_each(|node| node.set_fault(Fault::Delay(50 * MS)));
    let guard = locks.lock(fenced()).await.unwrap();
    assert_eq!(guard.fencing_token(), Some(token(10)), "of the first three");
    sleep(200 * MS).await;
    let counters = nodes.iter().map(counter);
    let expected = [10, 10, 10, 21, 10].map(Some);
    assert_eq!(counters.collect::<Vec<_>>(), expected);
    assert_eq!(guard.votes().granted, 5);
    guard.release().await.unwrap();

    nodes.iter().for_each(MemoryNode::heal);
    settle().await;
    let before = nodes[0].calls().total();
    let guard = locks.lock(fenced()).await.unwrap();
    settle().await;
    assert_eq!(guard.fencing_token(), Some(token(11)));
    assert_eq!(nodes[0].calls().total(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_whichever_nodes_answer() {
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let mut largest = token(0);
    for down in [
        [0, 1],
        [2, 3],
        [4, 0],
        [1, 2],
        [3, 4],
        [0, 2],
        [1, 3],
        [2, 4],
    ] {
        nodes.iter().for_each(MemoryNode::heal);
        down.iter()
            .for_each(|node| nodes[*node].set_fault(Fault::Refuse));
        let guard = locks.lock(fenced()).await.unwrap();
        let token = guard.fencing_token().unwrap();
        assert!(token > largest, "{token} after {largest}, without {down:?}");
        largest = token;
        guard.release().await.unwrap();
        sleep(1000 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_above_the_floor_even_where_counters_and_clocks_were_lost() {
    let nodes = nodes_at([5, 5, 5]);
    let locks = locks(&nodes);
    for (floor, expected) in [(3, 6), (100, 101), (101, 102)] {
        let request = fenced().fencing_floor(token(floor));
        let guard = locks.lock(request).await.unwrap();
        assert_eq!(guard.fencing_token(), Some(token(expected)));
        guard.release().await.unwrap();
        settle().await;
    }
    assert!(nodes.iter().all(|node| counter(node) == Some(102)));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_too_few_nodes_confirm_is_not_held_and_leaves_no_key() {
    let gone = "not confirmed: the key or its fencing counter is gone";
    let table = [
        (How::Never, "no answer in 100 ms"),
        (How::WithAnError, "OOM command not allowed"),
        (How::AfterTheKeyHasGone, gone),
        (How::AfterTheCounterHasGone, gone),
    ];
    for (how, told) in table {
        let nodes = nodes_at([5, 9, 5]);
        let (locks, is_asked) = confirming(&nodes, how);
        let error = locks
            .try_lock(fenced().hold_at_least(9000 * MS))
            .await
            .unwrap_err();
        assert!(matches!(error, AcquireError::Unavailable(_)), "{error:?}");
        assert!(error.to_string().contains(told), "{error}");
        assert!(is_asked.load(Ordering::SeqCst));
        sleep(1000 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0], "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn confirmations_are_waited_for_no_longer_than_the_validity() {
    let nodes = nodes_at([5, 9, 5]);
    let (locks, _) = confirming(&nodes, How::Late(60 * MS));
    let request = fenced().ttl(50 * MS);
    let locks = Redlock::builder()
        .nodes(locks.nodes().map(|node| Confirming {
            node: node.node.clone(),
            how: node.how,
            is_asked: Arc::default(),
        }))
        .node_timeout(40 * MS)
        .build()
        .unwrap();
    let (result, took) = timed(locks.try_lock(request)).await;
    let error = result.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable(_)), "{error:?}");
    assert!(took <= 90 * MS, "{took:?}");
    sleep(1000 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_is_slow_but_in_time_wins_the_lock() {
    let nodes = nodes_at([5, 9, 5]);
    let (locks, _) = confirming(&nodes, How::Late(70 * MS));
    let (guard, took) = timed(locks.lock(fenced())).await;
    let guard = guard.unwrap();
    assert_eq!(guard.fencing_token(), Some(token(10)));
    assert_eq!(took, 70 * MS);
    let used = 30_000 * MS - 302 * MS - guard.remaining();
    assert_eq!(used, 70 * MS, "counted from before the first send");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_confirmed_once_the_release_has_begun() {
    let nodes = nodes_at([9, 9, 5]);
    nodes[2].set_fault(Fault::Delay(50 * MS));
    let (locks, is_asked) = confirming(&nodes, How::WithAnError);
    let guard = locks.lock(fenced()).await.unwrap();
    guard.release().await.unwrap();
    sleep(1000 * MS).await;
    assert!(!is_asked.load(Ordering::SeqCst));
    assert_eq!(counter(&nodes[2]), Some(6), "granted, and released");
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_before_or_while_nodes_confirm_leaves_no_key() {
    let mut finished = false;
    for polls in 0..30 {
        let nodes = nodes_at([5, 9, 7, 3, 8]);
        for (node, delay) in nodes.iter().zip([5, 15, 25, 35, 45]) {
            node.set_fault(Fault::Delay(delay * MS));
        }
        let locks = locks(&nodes);
        let request = fenced().ttl(60_000 * MS);
        let result = drop_after(polls, locks.acquire(&request)).await;
        if let Some(guard) = &result {
            assert!(guard.as_ref().unwrap().fencing_token().is_some());
            finished = true;
        }
        drop(result);
        sleep(300 * MS).await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0], "after {polls} polls");
    }
    assert!(finished);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_nodes_confirm_leaves_no_key() {
    let nodes = nodes_at([5, 9, 5]);
    let (locks, is_asked) = confirming(&nodes, How::Late(50 * MS));
    let (result, shut) = tokio::join!(locks.lock(fenced()), async {
        sleep(20 * MS).await;
        locks.shutdown().await
    });
    assert!(is_asked.load(Ordering::SeqCst));
    assert!(matches!(result, Err(AcquireError::ShutDown)), "{result:?}");
    shut.unwrap();
    sleep(1000 * MS).await;
    assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_extension_and_a_copy_that_is_set_again_leave_token_and_counters_alone() {
    let nodes = nodes_at([5, 5, 5]);
    let locks = locks(&nodes);
    let guard = locks.lock(fenced().auto_extend(true)).await.unwrap();
    settle().await;
    let counters = nodes[0].get(COUNTER);
    assert!(nodes[1].remove(KEY));
    guard.extend(40_000 * MS).await.unwrap();
    sleep(100_000 * MS).await;
    assert!(guard.is_valid());
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    assert_eq!(guard.fencing_token(), Some(token(6)));
    assert!(nodes.iter().all(|node| node.get(COUNTER) == counters));
}

#[tokio::test(start_paused = true)]
async fn several_resources_have_one_token_above_all_of_theirs() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    nodes
        .iter()
        .for_each(|node| node.set_foreign("{a}:fencing-counter", "5 x"));
    nodes
        .iter()
        .for_each(|node| node.set_foreign("{b}:fencing-counter", "8 x"));
    let both = LockRequest::many(["b", "a"]).fencing(true);
    let guard = locks.lock(both).await.unwrap();
    assert_eq!(guard.fencing_token(), Some(token(9)));
    settle().await;
    assert_eq!(nodes[0].calls().total(), 1);
    assert!(locks.try_lock("a").await.unwrap().is_none());
    guard.release().await.unwrap();
    settle().await;
    let a = locks
        .lock(LockRequest::new("a").fencing(true))
        .await
        .unwrap();
    assert_eq!(a.fencing_token(), Some(token(10)));
}

#[tokio::test(start_paused = true)]
async fn a_lease_carries_the_token_to_whoever_resumes_it() {
    let nodes = nodes_at([5, 9, 5]);
    let guard = locks(&nodes).lock(fenced()).await.unwrap();
    let lease = guard.into_lease().unwrap().to_string();
    let lease: Lease = lease.parse().unwrap();
    assert_eq!(lease.fencing_token(), Some(token(10)));
    let locks = builder(&nodes).fencing(true).build().unwrap();
    let guard = locks.resume(&lease).await.unwrap();
    assert_eq!(guard.fencing_token(), Some(token(10)));
    assert_eq!(locks.held()[0].fencing_token, Some(token(10)));
    guard.release().await.unwrap();
    settle().await;
    let next = locks.lock(KEY).await.unwrap();
    assert_eq!(next.fencing_token(), Some(token(11)));

    let plain = self::locks(&nodes).lock("plain").await.unwrap();
    let guard = locks.resume(&plain.into_lease().unwrap()).await.unwrap();
    assert_eq!(guard.fencing_token(), None);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_tick_has_no_counter() {
    let nodes = nodes(3);
    let locks = builder(&nodes).fencing(true).build().unwrap();
    let job = TickJob::every("report", Duration::from_secs(10))
        .build()
        .unwrap();
    let now = lock_core::runtime::ambient().system_time();
    let tick = job.period().unwrap().tick_at_or_before(now).unwrap();
    let claim = job.claim(&locks, tick).await.unwrap();
    assert!(matches!(claim, TickClaim::Won { .. }), "{claim:?}");
    assert_eq!(nodes[0].keys().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_holds_something_else_is_an_error_and_no_grant() {
    for spoil in [
        |node: &MemoryNode| node.set_other_type(COUNTER),
        |node: &MemoryNode| node.set_foreign(COUNTER, "many"),
        |node: &MemoryNode| node.set_foreign(COUNTER, "7"),
        |node: &MemoryNode| node.set_foreign(COUNTER, " x"),
        |node: &MemoryNode| node.set_foreign(COUNTER, "-7 x"),
    ] {
        let nodes = nodes(3);
        nodes.iter().for_each(spoil);
        let error = locks(&nodes).try_lock(fenced()).await.unwrap_err();
        let told = "WRONGTYPE the key of the fencing counter holds something else";
        assert!(error.to_string().contains(told), "{error}");
        settle().await;
        assert_eq!(holding(&nodes, KEY), [0_usize; 0]);
    }
    let nodes = nodes_at([FencingToken::MAX.get(); 3]);
    let error = locks(&nodes).try_lock(fenced()).await.unwrap_err();
    assert!(error.to_string().contains("exhausted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn counters_are_no_locks_and_their_names_are_refused() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let _guard = locks.lock(fenced()).await.unwrap();
    let listing = locks.list("", 100).await;
    let resources = listing.locks.iter().map(|lock| &lock.resource[..]);
    assert_eq!(resources.collect::<Vec<_>>(), [KEY.as_bytes()]);
    let before = nodes[0].calls().total();
    for request in [COUNTER.into(), LockRequest::many(["a", COUNTER])] {
        let error = locks.lock(request).await.unwrap_err();
        let expected =
            format!("resource \"{COUNTER}\" ends with the reserved suffix \":fencing-counter\"");
        assert!(matches!(error, AcquireError::Invalid(_)));
        assert_eq!(error.to_string(), expected);
    }
    assert!(locks.force_release(COUNTER).await.is_err());
    assert_eq!(nodes[0].calls().total(), before);
}

#[tokio::test(start_paused = true)]
async fn a_floor_or_a_retention_that_cannot_work_is_refused_with_value_and_limit() {
    let nodes = nodes(3);
    let floor = token(FencingToken::MAX_FLOOR.get() + 1);
    let refused = locks(&nodes).lock(fenced().fencing_floor(floor)).await;
    let told = "fencing floor 4503599627370497 is above the maximum of 4503599627370496";
    assert_eq!(refused.unwrap_err().to_string(), told);
    let retention = |retention| builder(&nodes).fencing_retention(retention).build();
    for (given, shown) in [(29_999 * MS, "29999 ms"), (Duration::ZERO, "0 ms")] {
        let error = retention(given).unwrap_err();
        assert!(matches!(error, BuildError::FencingRetention { .. }));
        let told = format!("fencing_retention {shown} is outside 30000 ms..=31536000000 ms");
        assert_eq!(error.to_string(), told);
    }
    assert!(retention(Duration::MAX).is_err());
    let locks = retention(60_000 * MS).unwrap();
    for (ttl, kept) in [(1000, 60_000), (90_000, 90_000)] {
        let guard = locks.lock(fenced().ttl(ttl * MS)).await.unwrap();
        assert_eq!(nodes[0].pttl(COUNTER), kept);
        guard.release().await.unwrap();
        settle().await;
    }
    assert_eq!(nodes[0].calls().total(), 4);
}

#[tokio::test(start_paused = true)]
async fn keys_that_do_not_go_in_one_command_cannot_have_a_token() {
    let nodes = nodes(3);
    let several = || LockRequest::many(["a", "b"]).fencing(true);
    let told = "fencing was asked for, but the nodes do not take the keys of the lock and of its \
                fencing counter in one command (4 keys in all): on a cluster they must share a slot";
    let sharding = builder(&nodes).one_key_per_command(true).build().unwrap();
    let error = sharding.lock(several()).await.unwrap_err();
    assert_eq!(error.to_string(), told);
    assert_eq!(nodes[0].calls().total(), 0);
    // One lock and its counter go to the server of the lock.
    assert!(sharding.lock(fenced()).await.is_ok());

    let line = "CROSSSLOT Keys in request don't hash to the same slot";
    nodes
        .iter()
        .for_each(|node| node.set_fault(Fault::Error(line.to_owned())));
    let locks = locks(&nodes);
    for _ in 0..2 {
        let error = locks.lock(several()).await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid(_)), "{error:?}");
        assert_eq!(error.to_string(), told);
    }
    let error = locks.lock(fenced()).await.unwrap_err().to_string();
    assert!(error.contains("(2 keys in all)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_short_ttl_is_enough_for_nodes_that_answer() {
    let nodes = nodes_at([5, 9, 7]);
    let guard = locks(&nodes).lock(fenced().ttl(3 * MS)).await.unwrap();
    assert_eq!(guard.fencing_token(), Some(token(10)));
}
