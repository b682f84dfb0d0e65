//! What a service may live to see, in two seconds.

use std::time::Duration;

use examples::BoxError;
use lock_core::{DistributedLockExt, LockRequest, Redlock};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

pub(crate) async fn run(locks: &Redlock, nodes: &[MemoryNode]) -> Result<(), BoxError> {
    holders_and_waiters(locks).await?;
    a_loss(locks, nodes).await?;
    a_node_that_goes_and_comes_back(locks, &nodes[0]).await?;
    an_outage(locks, &nodes[1..]).await
}

async fn holders_and_waiters(locks: &Redlock) -> Result<(), BoxError> {
    let holder = locks.lock("report").await?;
    assert!(locks.try_lock("report").await?.is_none());
    let waiter = locks.lock("report");
    let release = async {
        sleep(30 * MS).await;
        holder.extend(60_000 * MS).await.ok();
        holder.release().await
    };
    let (waiter, released) = tokio::join!(waiter, release);
    released?;
    waiter?.release().await?;
    Ok(())
}

/// An operator deletes the keys of a lock, and somebody else takes it.
async fn a_loss(locks: &Redlock, nodes: &[MemoryNode]) -> Result<(), BoxError> {
    let guard = locks.lock("stolen").await?;
    for node in nodes {
        node.set_foreign("stolen", "by somebody");
    }
    let extended = guard.extend(60_000 * MS).await;
    assert!(extended.is_err() && !guard.is_valid());
    Ok(())
}

async fn a_node_that_goes_and_comes_back(
    locks: &Redlock,
    node: &MemoryNode,
) -> Result<(), BoxError> {
    node.set_fault(Fault::Refuse);
    locks.lock("report").await?.release().await?;
    node.heal();
    // It is up when it has served in time for a second.
    for _ in 0..3 {
        locks.lock("report").await?.release().await?;
        sleep(600 * MS).await;
    }
    Ok(())
}

/// It is not over when the metrics are read.
async fn an_outage(locks: &Redlock, nodes: &[MemoryNode]) -> Result<(), BoxError> {
    nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    let request = LockRequest::new("report").fail_if_unavailable(true);
    assert!(locks.lock(request).await.is_err());
    Ok(())
}
