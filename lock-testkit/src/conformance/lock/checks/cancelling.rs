//! Calls that are dropped before they have ended.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};

use super::exclusion::{count_up, eager, patient};
use super::{MS, long};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, expect, expect_eq};

/// Polls a future at most this many times, with a pause after each poll, and drops it.
async fn drop_after<T>(
    cx: &LockCx,
    polls: u64,
    pause: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(result) = polled {
            return Some(result);
        }
        cx.runtime().sleep(pause).await;
    }
    None
}

pub(crate) async fn an_acquire_dropped_after_any_poll_leaves_nothing(cx: &LockCx) -> CheckResult {
    let pauses = [Duration::ZERO, Duration::from_micros(200), MS];
    for polls in 0..8 {
        for pause in pauses {
            let acquired = drop_after(cx, polls, pause, cx.lock().acquire(&long("k"))).await;
            drop(acquired);
            let tried = drop_after(cx, polls, pause, cx.lock().try_acquire(&long("k"))).await;
            drop(tried);
            cx.expect_nothing_left().await?;
        }
    }
    drop(cx.take(&cx.rival().await?, long("k")).await?);
    Ok(())
}

pub(crate) async fn an_acquire_dropped_while_nodes_are_slow_leaves_nothing(
    cx: &LockCx,
) -> CheckResult {
    super::outage::warm_up(cx, cx.lock()).await?;
    let nodes = super::outage::all_nodes(cx)?;
    for (i, node) in nodes.clone().enumerate() {
        let delay = Duration::from_millis(10 * (i as u64 + 1));
        cx.bed().inject(node, &NodeFault::Delay(delay)).await?;
    }
    for polls in 0..8 {
        drop(drop_after(cx, polls, 9 * MS, cx.lock().acquire(&long("k"))).await);
    }
    for node in nodes {
        cx.bed().heal(node).await?;
    }
    cx.expect_nothing_left().await
}

pub(crate) async fn a_dropped_wait_leaves_the_holder_alone(cx: &LockCx) -> CheckResult {
    let guard = cx.take(cx.lock(), long("k")).await?;
    let rival = cx.rival().await?;
    for round in 0..30 {
        let time = Duration::from_micros(cx.below(30_000));
        let request = eager(long("k"));
        let waiting = pin!(rival.acquire(&request));
        if let Either::Left((acquired, _)) = select(waiting, cx.runtime().sleep(time)).await {
            return expect(false, "a wait for the holder", acquired);
        }
        if round % 10 == 0 {
            cx.expect_taken(&rival, &long("k")).await?;
        }
    }
    expect(guard.is_valid(), "the holder to be left alone", &guard)?;
    let released = super::releasing::release(cx, &guard).await?;
    expect(released.is_ok(), "a release of a held lock", &released)?;
    cx.expect_nothing_left().await
}

pub(crate) async fn dropped_waits_are_in_nobodys_way(cx: &LockCx) -> CheckResult {
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let lock = cx.rival().await?;
        for _ in 0..6 {
            let (lock, runtime) = (Arc::clone(&lock), Arc::clone(cx.runtime()));
            tasks.push(cx.spawn(count_up(lock, runtime, Arc::clone(&count))));
        }
        for _ in 0..10 {
            let time = Duration::from_micros(cx.below(20_000));
            let (lock, runtime) = (Arc::clone(&lock), Arc::clone(cx.runtime()));
            // It asks many times, sometimes gets the lock, and never calls release.
            tasks.push(cx.spawn(async move {
                for _ in 0..3 {
                    let request = patient(long("counter"));
                    let waiting = pin!(lock.acquire(&request));
                    let dropped = select(waiting, runtime.sleep(time)).await;
                    drop(dropped);
                }
                Ok(String::new())
            }));
        }
    }
    let all = async {
        for task in tasks {
            task.join().await?;
        }
        CheckResult::Ok(())
    };
    cx.all_end("the turns of those who were not dropped", all)
        .await??;
    expect_eq("the counter", &18, &count.load(Ordering::SeqCst))?;
    cx.expect_nothing_left().await
}
