//! Both sides mean the same key.

use lock_core::{DistributedLockExt, ForceReleaseError, LockRequest, Reply};

use crate::peer::Ask;
use crate::scene::{LONG, Scene, ask};
use std::time::Duration;

pub(super) async fn a_prefix_is_part_of_the_key(scene: &mut Scene) {
    let ours = scene.builder().prefix("app:").build().unwrap();
    let request = LockRequest::new("k").max_wait(LONG);
    let guard = ours.lock(&request).await.unwrap();
    assert!(!scene.they_get(&["app:k"], LONG).await);
    assert!(scene.they_get(&["k"], LONG).await, "it is another lock");
    guard.release().await.unwrap();
    assert!(scene.they_get(&["app:k"], LONG).await);
    assert!(ours.try_lock(&request).await.unwrap().is_none());
}

pub(super) async fn names_are_the_bytes_of_utf_8(scene: &mut Scene) {
    let key = "café:🔒";
    scene.they_hold(key, LONG).await;
    assert!(!scene.we_get(key).await);
    scene.theirs.ask(Ask::Release).await;
    let guard = scene.we_hold(key).await;
    assert!(!scene.they_get(&[key], LONG).await);
    guard.release().await.unwrap();
}

pub(super) async fn several_names_in_one_request_are_as_many_keys(scene: &mut Scene) {
    let guard = scene.we_hold(LockRequest::many(["a", "b"])).await;
    assert!(!scene.they_get(&["b", "c"], LONG).await);
    assert!(!scene.they_get(&["a"], LONG).await);
    guard.release().await.unwrap();

    assert!(scene.they_get(&["b", "c"], LONG).await);
    assert!(!scene.we_get(LockRequest::many(["a", "b"])).await);
    assert!(!scene.we_get("c").await);
    assert!(scene.we_get("a").await, "all or nothing");
    scene.theirs.ask(Ask::Release).await;
    assert!(scene.we_get(LockRequest::many(["a", "b", "c"])).await);
}

pub(super) async fn a_lock_of_theirs_may_live_for_ever(scene: &mut Scene) {
    scene.they_hold("k", Duration::ZERO).await;
    assert!(!scene.we_get("k").await);
    let holder = scene.ours.inspect("k").await.unwrap().holder().unwrap();
    assert_eq!(holder.ttl, None);
    assert!(scene.ours.force_release("k").await.unwrap());
    assert!(scene.we_get("k").await);
}

pub(super) async fn a_hash_under_the_name_keeps_both_out_and_stays(scene: &mut Scene) {
    // Data, or the lock of a library with another layout.
    for server in &*scene.servers {
        ask(server, &["HSET", "k", "field", "value"]);
    }
    assert!(!scene.we_get("k").await);
    assert!(!scene.they_get(&["k"], LONG).await);
    let forced = scene.ours.force_release("k").await;
    assert!(matches!(forced, Err(ForceReleaseError::Unavailable { .. })));
    for server in &*scene.servers {
        let value = ask(server, &["HGET", "k", "field"]);
        assert_eq!(value, Reply::Bytes(b"value".to_vec()));
        assert_eq!(ask(server, &["PTTL", "k"]), Reply::Int(-1));
    }
}
