//! Holds the locks and measures.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use lock_core::{DistributedLock, LockGuard, LockRequest, Redlock, Reply};
use lock_redis_rs::RedisRsNode;
use lock_testkit::RedisServer;
use tokio::time::sleep;

use crate::cpu::cpu_time;
use crate::{BenchResult, LOCKS, NODES, TTL, usage};

/// So many are acquired at a time.
const AT_ONCE: usize = 32;

/// What the locks cost.
#[derive(Debug)]
pub(crate) struct Costs {
    /// Memory of all locks together.
    pub(crate) bytes: f64,
    /// The share of one core.
    pub(crate) cpu: f64,
    /// Commands that were sent.
    pub(crate) requests: u64,
    /// Commands that one for each lock and node would have been.
    pub(crate) naive: f64,
    /// How long it was measured.
    pub(crate) held: Duration,
}

pub(crate) async fn run(servers: &[RedisServer], hold: Duration) -> BenchResult<Costs> {
    let nodes = servers.iter().map(|server| RedisRsNode::new(server.url()));
    let locks = Redlock::builder()
        .nodes(nodes.collect::<Result<Vec<_>, _>>()?)
        .ttl(TTL)
        .auto_extend(true)
        .build()?;
    warm_up(&locks).await?;

    let before = usage::memory()?;
    let guards = acquire_all(&locks).await?;
    // Each lock is extended once before it is measured what that takes.
    sleep(TTL).await;

    let start = Instant::now();
    let (cpu, requests) = (cpu_time()?, usage::requests(servers)?);
    sleep(hold).await;
    let bytes = usage::memory()? - before;
    let held = start.elapsed();
    let cpu = cpu_time()?.saturating_sub(cpu);
    let requests = usage::requests(servers)? - requests;

    check(servers, &guards).await?;
    let extensions = held.as_secs_f64() / interval().as_secs_f64();
    Ok(Costs {
        bytes,
        cpu: cpu.as_secs_f64() / held.as_secs_f64(),
        requests,
        naive: (LOCKS * NODES) as f64 * extensions,
        held,
    })
}

/// After how long a lock is extended again: a third of its validity.
fn interval() -> Duration {
    let drift = TTL / 100 + Duration::from_millis(2);
    (TTL - drift) / 3
}

/// Connects, and has the servers load scripts.
async fn warm_up(locks: &Redlock<RedisRsNode>) -> BenchResult<()> {
    for round in 0..100 {
        let request = LockRequest::new(format!("warm-up:{round}"));
        let guard = locks.acquire(&request).await?;
        guard.extend(2 * TTL).await?;
        guard.release().await?;
    }
    Ok(())
}

async fn acquire_all(locks: &Redlock<RedisRsNode>) -> BenchResult<Vec<LockGuard>> {
    let acquire = |number: usize| async move {
        let request = LockRequest::new(format!("invoice-{number}"));
        locks.acquire(&request).await
    };
    let guards = stream::iter(0..LOCKS)
        .map(acquire)
        .buffer_unordered(AT_ONCE);
    let mut all = Vec::with_capacity(LOCKS);
    guards
        .try_for_each(|guard| {
            all.push(guard);
            std::future::ready(Ok(()))
        })
        .await?;
    Ok(all)
}

/// All locks must still be held, at every server.
async fn check(servers: &[RedisServer], guards: &[LockGuard]) -> BenchResult<()> {
    let valid = guards.iter().filter(|guard| guard.is_valid()).count();
    if valid < LOCKS {
        return Err(format!("only {valid} of {LOCKS} locks are held at the end").into());
    }
    let expected = Reply::Int(i64::try_from(LOCKS)?);
    for server in servers {
        // One that was late with a key has it after the next extension.
        let mut tries = 100;
        while server.command(&["DBSIZE"])? != expected {
            tries -= 1;
            if tries == 0 {
                return Err(format!("{} does not have all {LOCKS} keys", server.addr()).into());
            }
            sleep(TTL / 100).await;
        }
    }
    Ok(())
}
