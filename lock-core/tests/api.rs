//! The public API as applications and wrappers use it.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::executor::block_on;
use lock_core::tick::{TickClaim, TickJob};
use lock_core::{DistributedLock, DistributedLockExt, LockGuard, RedisNode, Redlock};
use lock_testkit::MemoryNode;

fn locks() -> Redlock<MemoryNode> {
    Redlock::new(MemoryNode::several(3)).unwrap()
}

#[test]
fn a_name_may_be_of_any_usual_type() {
    block_on(async {
        let locks = locks();
        let guards = [
            locks.lock(b"name").await,
            locks.lock("a name").await,
            locks.lock(String::from("an owned name")).await,
            locks.lock(b"bytes".to_vec()).await,
            locks.lock(Arc::<str>::from("a shared name")).await,
            locks.lock(Cow::Borrowed("perhaps borrowed")).await,
        ];
        assert!(
            guards.iter().flatten().all(LockGuard::is_valid),
            "{guards:?}"
        );
        assert!(locks.try_lock(&b"name"[..]).await.unwrap().is_none());
    });
}

/// Anything that is a lock, by value.
async fn resource_of(locks: impl DistributedLock) -> Vec<u8> {
    let guard = locks.lock("name").await.unwrap();
    guard.release().await.unwrap();
    guard.resource().to_vec()
}

#[test]
fn whatever_points_at_a_lock_is_one() {
    block_on(async {
        let locks = locks();
        let boxed: Box<dyn DistributedLock> = Box::new(locks.clone());
        let shared: Arc<dyn DistributedLock> = Arc::new(locks.clone());
        let borrowed: &dyn DistributedLock = &locks;
        assert_eq!(resource_of(borrowed).await, b"name");
        assert_eq!(resource_of(&boxed).await, b"name");
        assert_eq!(resource_of(boxed).await, b"name");
        assert_eq!(resource_of(shared).await, b"name");
    });
}

#[test]
fn a_call_may_be_spawned_over_any_lock() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    block_on(async {
        let locks: Arc<dyn DistributedLock> = Arc::new(locks());
        let guard = is_send(locks.lock("name")).await.unwrap();
        is_send(guard.release()).await.unwrap();
        let guard = is_send(locks.try_lock("name")).await.unwrap().unwrap();
        is_send(guard.release()).await.unwrap();
        let body = async |_: &_| 7;
        assert_eq!(is_send(locks.with_lock("name", body)).await.unwrap(), 7);
    });
}

/// A field needs no type of nodes.
struct App {
    locks: Redlock,
}

#[test]
fn a_redlock_that_hides_its_nodes_is_the_same_lock() {
    block_on(async {
        let typed = locks();
        let app = App {
            locks: typed.clone().into(),
        };
        let guard = app.locks.lock("name").await.unwrap();
        assert!(typed.try_lock("name").await.unwrap().is_none());
        guard.release().await.unwrap();
        let labels = |nodes: Vec<&dyn RedisNode>| {
            let labels = nodes.into_iter().map(|node| node.label().to_owned());
            labels.collect::<Vec<_>>()
        };
        assert_eq!(
            labels(app.locks.nodes().collect()),
            labels(typed.nodes().map(|node| node as _).collect())
        );
        assert_eq!(format!("{:?}", app.locks), format!("{typed:?}"));
    });
}

#[test]
fn nodes_of_several_types_make_one_lock() {
    let of = |label| MemoryNode::with_runtime(label, lock_core::runtime::ambient());
    let shared: Arc<dyn RedisNode> = Arc::new(of("b"));
    let builder = Redlock::builder().node(of("a")).node(shared);
    let locks: Redlock = builder.node(Box::new(of("c"))).build().unwrap();
    let labels: Vec<_> = locks.nodes().map(RedisNode::label).collect();
    assert_eq!(labels, ["a", "b", "c"]);
    let guard = block_on(locks.lock("name")).unwrap();
    assert_eq!(guard.votes().nodes, 3);
}

#[test]
fn what_is_held_shows_no_token_in_its_debug() {
    block_on(async {
        let locks = locks();
        let guard = locks.lock("name").await.unwrap();
        let token = guard.token().to_owned();
        let shown = format!("{guard:?}");
        let start = r#"LockGuard { resource: "name", remaining: "#;
        assert!(shown.starts_with(start) && shown.len() < 80, "{shown}");
        assert!(!shown.contains(&token), "{shown}");

        let lease = guard.into_lease().unwrap();
        let shown = format!("{lease:?}");
        let start = r#"Lease { resources: ["name"], remaining: "#;
        assert!(shown.starts_with(start) && shown.len() < 80, "{shown}");
        assert!(!shown.contains(&token), "{shown}");

        let job = TickJob::every("job", Duration::from_secs(1))
            .build()
            .unwrap();
        let now = SystemTime::now();
        let tick = job.period().unwrap().tick_at_or_before(now).unwrap();
        let claim = job.claim(&locks, tick).await.unwrap();
        let TickClaim::Won(claimed) = &claim else {
            panic!("{claim:?}");
        };
        let shown = format!("{claim:?}");
        assert_eq!(shown, format!("Won(ClaimedTick(\"job:{tick}\"))"));
        assert!(!shown.contains(claimed.guard().token()));
    });
}
