//! What is shown to the people who look after locks: who holds them, and what is held here.

use std::time::Duration;

use lock_core::{AcquireError, BuildError, DistributedLockExt, LockRequest, Redlock};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;

fn owned_by(nodes: &[MemoryNode], owner: &str) -> Redlock<MemoryNode> {
    builder(nodes).owner(owner).build().unwrap()
}

async fn contended(locks: &Redlock<MemoryNode>) -> lock_core::Contended {
    let request = LockRequest::new(KEY).max_wait(50 * MS);
    match locks.lock(request).await {
        Err(AcquireError::Contended(contended)) => contended,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_owner_stands_behind_the_token_and_is_told_whoever_meets_the_lock() {
    let nodes = nodes(3);
    let locks = owned_by(&nodes, "web-1: job 7, 100 %");
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    let value = String::from_utf8(nodes[0].get(KEY).unwrap()).unwrap();
    assert_eq!(value, guard.token());
    assert_eq!(value.split_once(' ').unwrap().1, "web-1: job 7, 100 %");

    let other = owned_by(&nodes, "web-2");
    let contended = contended(&other).await;
    assert_eq!(contended.owner.as_deref(), Some("web-1: job 7, 100 %"));
    let shown = contended.to_string();
    assert!(
        shown.starts_with("held by web-1: job 7, 100 % for up to "),
        "{shown}"
    );
    let holder = other.inspect(KEY).await.unwrap().holder().unwrap();
    assert_eq!(holder.owner(), Some("web-1: job 7, 100 %"));

    // Whoever goes on with the lock puts its own words there.
    let lease = guard.into_lease().unwrap().to_string().parse().unwrap();
    let guard = other.resume(&lease).await.unwrap();
    guard.extend(Duration::from_secs(9)).await.unwrap();
    let holder = other.inspect(KEY).await.unwrap().holder().unwrap();
    assert_eq!(holder.owner(), Some("web-2"));
    guard.release().await.unwrap();
    settle().await;
    assert!(holding(&nodes, KEY).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_owner_is_host_and_process_unless_it_is_left_out() {
    let nodes = nodes(3);
    let token =
        async |locks: Redlock<MemoryNode>| locks.lock(KEY).await.unwrap().token().to_owned();
    let by_default = token(locks(&nodes)).await;
    settle().await;
    assert!(
        by_default.ends_with(&format!(" pid {}", std::process::id())),
        "{by_default}"
    );
    assert_eq!(token(owned_by(&nodes, "")).await.len(), 36);
    settle().await;
    let longest = "x".repeat(90);
    assert_eq!(token(owned_by(&nodes, &longest)).await.len(), 127);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_stand_behind_a_token_is_refused() {
    for owner in ["x".repeat(91), "two\nlines".to_owned()] {
        let error = builder(&nodes(3)).owner(&*owner).build().unwrap_err();
        assert!(matches!(&error, BuildError::Owner { len, max: 90, .. } if *len == owner.len()));
        let shown = error.to_string();
        assert!(
            !shown.contains('\n') && shown.contains("at most 90"),
            "{shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_words_of_a_stranger_are_no_owner() {
    let nodes = nodes(3);
    for value in [
        "web-1 pid 7",
        "00000000-0000-4000-8000-000000000000 two\nlines",
    ] {
        nodes.iter().for_each(|node| node.set_foreign(KEY, value));
        let contended = contended(&locks(&nodes)).await;
        assert_eq!(contended.owner, None);
        assert!(contended.to_string().starts_with("held by somebody else"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_locks_of_all_nodes_are_listed_with_their_holders_whoever_they_are() {
    let nodes = nodes(3);
    let locks = builder(&nodes)
        .prefix("app:")
        .owner("web-1")
        .build()
        .unwrap();
    let guards = [
        locks.lock("b*1").await.unwrap(),
        locks.lock("a").await.unwrap(),
    ];
    settle().await;
    // Known to one node, somebody else's, behind another prefix, and not a lock.
    nodes[2].set_foreign("app:b2", "foreign");
    nodes[0].set_foreign("other:b3", "foreign");
    nodes[0].set_other_type("app:b4");

    let all = locks.list("", 10).await;
    let names = all.locks.iter().map(|lock| &lock.resource[..]);
    assert_eq!(names.collect::<Vec<_>>(), [&b"a"[..], b"b*1", b"b2"]);
    assert!(!all.is_cut && all.failures.is_empty());
    let holder = all.locks[1].inspection.holder().unwrap();
    assert_eq!(holder.owner(), Some("web-1"));
    assert_eq!(all.locks[2].inspection.is_locked(), Some(false));
    assert!(format!("{all:?}").contains(r#"resource: "b*1""#));

    let some = locks.list("b*", 10).await;
    assert_eq!(some.locks.len(), 1, "a prefix is no pattern");
    let few = locks.list("", 2).await;
    assert!(few.is_cut && few.locks.len() == 2);

    nodes[2].set_fault(Fault::Hang);
    let seen = locks.list("", 10).await;
    assert_eq!(seen.locks.len(), 2);
    let [(label, error)] = &seen.failures[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(
        (&**label, &*error.to_string()),
        ("memory-3", "no answer in 100 ms")
    );
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_here_is_listed_the_oldest_first_and_nothing_else() {
    let nodes = nodes(3);
    let locks = builder(&nodes).prefix("app:").build().unwrap();
    assert!(locks.held().is_empty());
    let first = locks.lock("first").await.unwrap();
    tokio::time::sleep(5 * MS).await;
    let both = LockRequest::many(["b", "a"])
        .auto_extend(true)
        .ttl(Duration::from_secs(3));
    let both = locks.lock(both).await.unwrap();
    settle().await;
    assert!(locks.try_lock("first").await.unwrap().is_none());
    let held = locks.clone().held();
    let names = held.iter().map(|held| held.resources.concat());
    assert_eq!(names.collect::<Vec<_>>(), [&b"first"[..], b"ab"]);
    assert!(held[0].age >= 5 * MS && held[0].age > held[1].age);
    assert_eq!((held[0].votes.granted, held[0].votes.nodes), (3, 3));
    assert_eq!(
        held.iter()
            .map(|held| held.is_auto_extended)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert!(held[1].remaining <= Duration::from_secs(3));
    assert!(held[0].owner.as_ref().unwrap().contains("pid "));
    assert_ne!(held[0].lock, held[1].lock);

    drop(first);
    assert_eq!(locks.held().len(), 1);
    assert!(both.into_lease().is_some());
    assert!(locks.held().is_empty(), "it was handed over");
}
