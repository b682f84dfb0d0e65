//! When the task that waits for votes is woken: when they can decide, and for each if that takes long.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Operation, Subscription};
use lock_core::{Command, DistributedLockExt, NodeError, RedisNode, Redlock, Reply};
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// A node whose client takes some steps, one after each pause, and then has the answer.
#[derive(Debug)]
struct Steps {
    label: String,
    pauses: Mutex<Vec<Duration>>,
    /// When each step of the last call was taken.
    taken: Mutex<Vec<Instant>>,
}

impl Steps {
    /// For each node its pauses, in ms.
    fn nodes<const N: usize>(pauses: [&[u32]; N]) -> impl Iterator<Item = Self> {
        let mut number = 0;
        pauses.into_iter().map(move |pauses| {
            number += 1;
            Self {
                label: format!("node {number}"),
                pauses: Mutex::new(pauses.iter().map(|pause| *pause * MS).collect()),
                taken: Mutex::default(),
            }
        })
    }

    fn locks<const N: usize>(pauses: [&[u32]; N]) -> Redlock<Self> {
        let nodes = Self::nodes(pauses);
        let builder = Redlock::builder().nodes(nodes).node_timeout(NODE_TIMEOUT);
        builder.connect_timeout(NODE_TIMEOUT).build().unwrap()
    }
}

#[async_trait]
impl RedisNode for Steps {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let pauses = self.pauses.lock().unwrap().clone();
        let steps = async {
            self.taken.lock().unwrap().clear();
            for pause in pauses {
                sleep(pause).await;
                self.taken.lock().unwrap().push(Instant::now());
            }
        };
        let in_time = timeout(within, steps).await;
        in_time.map_err(|_| NodeError::no_answer(within))?;
        Ok(match command.operation() {
            Operation::Acquire { .. } => Reply::ok(),
            _ => Reply::Int(1),
        })
    }

    async fn subscribe(&self, _: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.label
    }
}

/// How often a task that does this was run, and for how long.
async fn runs<T>(work: impl Future<Output = T>) -> (T, u32, Duration) {
    let mut work = pin!(work);
    let mut runs = 0;
    let counted = poll_fn(|cx| {
        runs += 1;
        work.as_mut().poll(cx)
    });
    let (result, took) = timed(counted).await;
    (result, runs, took)
}

#[tokio::test(start_paused = true)]
async fn votes_that_decide_nothing_wake_nobody() {
    let locks = Steps::locks([&[5], &[1], &[4], &[2], &[3]]);
    let (guard, acquired, took) = runs(locks.lock(KEY)).await;
    assert_eq!((acquired, took), (2, 3 * MS));
    let guard = guard.unwrap();
    sleep(10 * MS).await;
    let (extended, runs_of_extend, took) = runs(guard.extend(60_000 * MS)).await;
    assert_eq!((runs_of_extend, took), (2, 3 * MS));
    extended.unwrap();
    let (released, runs_of_release, took) = runs(guard.release()).await;
    assert_eq!((runs_of_release, took), (2, 3 * MS));
    released.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_has_answered_is_heard_while_the_others_take_long() {
    let locks = Steps::locks([&[1], &[2], &[60], &[1_000], &[1_000]]);
    let (guard, runs, took) = runs(locks.lock(KEY)).await;
    // At its start, when patience ends, and at the vote that decides.
    assert_eq!((runs, took), (3, 60 * MS));
    assert_eq!(guard.unwrap().votes().granted, 3);
}

/// The first steps of a client that takes several may wait for other nodes, but not for long.
async fn a_client_of_several_steps(one: [u32; 3], other: [u32; 3], last_step_within: Duration) {
    // Without the third one nothing is decided, but the first two have to come to their next steps.
    let locks = Steps::locks([&one, &other, &[80], &[1_000], &[1_000]]);
    let started = Instant::now();
    let (guard, _, took) = runs(locks.lock(KEY)).await;
    assert_eq!(took, 80 * MS);
    drop(guard.unwrap());
    for node in locks.nodes().take(2) {
        let taken = node.taken.lock().unwrap();
        let last = taken[2].duration_since(started);
        assert!(last < last_step_within, "{taken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_several_steps_waits_for_the_others_once_and_not_for_long() {
    a_client_of_several_steps([1, 1, 1], [2, 1, 1], 35 * MS).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_late_and_takes_several_steps_waits_for_nobody() {
    a_client_of_several_steps([30, 1, 1], [31, 1, 1], 40 * MS).await;
}

#[tokio::test(start_paused = true)]
async fn who_extends_for_less_has_less_patience() {
    let locks = Redlock::new(Steps::nodes([&[6, 6], &[18], &[1_000]])).unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    sleep(200 * MS).await;
    // A node may take 20 ms for that.
    let (extended, _, took) = runs(guard.extend(200 * MS)).await;
    extended.unwrap();
    assert_eq!(took, 18 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_heard_at_once_and_so_are_those_with_it() {
    let locks = Steps::locks([&[1_000], &[4], &[5], &[6], &[7]]);
    drop(locks.lock("other").await.unwrap());
    sleep(2 * NODE_TIMEOUT).await;
    let suspect = locks.nodes().next().unwrap();
    *suspect.pauses.lock().unwrap() = vec![MS];
    let (guard, runs, took) = runs(locks.lock(KEY)).await;
    assert_eq!((runs, took), (4, 5 * MS));
    drop(guard.unwrap());
}
