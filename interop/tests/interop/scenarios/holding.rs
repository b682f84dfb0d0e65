//! One side holds the lock, and the other one is kept out until it is released.

use lock_core::{AcquireError, DistributedLockExt, LockRequest, NodeVote};

use crate::count::MS;
use crate::peer::Ask;
use crate::scene::{LONG, Scene, ask};

pub(super) async fn their_lock_keeps_us_out_and_our_error_says_who_holds_it(scene: &mut Scene) {
    scene.they_hold("k", LONG).await;
    assert!(!scene.we_get("k").await);

    let request = LockRequest::new("k").max_wait(LONG).fail_if_held(true);
    let error = scene.ours.lock(request).await.unwrap_err();
    let AcquireError::Contended(contended) = error else {
        panic!("no contention: {error}");
    };
    let nodes = contended.nodes.as_slice();
    let refused = nodes
        .iter()
        .filter(|node| matches!(node.vote, NodeVote::Refused));
    assert!(refused.count() >= scene.quorum(), "{contended}");
    let holder = contended.holder.unwrap();
    let values = scene.values("k");
    assert!(values.are(&holder, scene.servers.len()), "{values:?}");
    let ttl = contended.holder_ttl.unwrap();
    assert!(ttl <= LONG, "{ttl:?}");

    let seen = scene.ours.inspect("k").await.unwrap();
    assert_eq!(seen.is_locked(), Some(true));
    assert_eq!(seen.holder().unwrap().token, Some(holder));
    // Whatever we did, it is theirs still.
    assert!(scene.they_extend(LONG).await);
}

pub(super) async fn our_lock_keeps_them_out(scene: &mut Scene) {
    let guard = scene.we_hold("k").await;
    for _ in 0..3 {
        assert!(!scene.they_get(&["k"], LONG).await);
    }
    // They leave alone what is not theirs, also when they clean up after their attempts.
    let values = scene.values("k");
    assert!(
        values.are(guard.token().as_bytes(), scene.servers.len()),
        "{values:?}"
    );
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

pub(super) async fn what_they_release_is_ours_at_once(scene: &mut Scene) {
    scene.they_hold("k", LONG).await;
    scene.theirs.ask(Ask::Release).await;
    assert!(scene.we_get("k").await);

    scene.they_hold("k", LONG).await;
    let ours = scene.ours.clone();
    let waiting =
        tokio::spawn(async move { ours.lock(LockRequest::new("k").max_wait(LONG)).await });
    tokio::time::sleep(50 * MS).await;
    assert!(!waiting.is_finished(), "we did not wait");
    scene.theirs.ask(Ask::Release).await;
    let guard = waiting.await.unwrap().unwrap();
    assert!(!scene.they_get(&["k"], LONG).await);
    guard.release().await.unwrap();
}

pub(super) async fn what_we_release_is_theirs_at_once(scene: &mut Scene) {
    let guard = scene.we_hold("k").await;
    guard.release().await.unwrap();
    assert!(scene.they_get(&["k"], LONG).await);
    assert!(!scene.we_get("k").await);
    scene.theirs.ask(Ask::Release).await;

    let guard = scene.we_hold("k").await;
    let token = guard.token().to_owned();
    let dropping = async {
        tokio::time::sleep(50 * MS).await;
        drop(guard);
    };
    let keys = &["k"];
    let waiting = scene.theirs.ask(Ask::Acquire { ttl: LONG, keys });
    tokio::join!(waiting, dropping);
    // They need two servers of three, and may have them before our release is at the last one.
    let stands = |value: &Vec<u8>| *value == token.as_bytes();
    let is_gone = || !scene.values("k").0.iter().flatten().any(stands);
    scene.until("our token is gone", is_gone).await;
    assert!(!scene.we_get("k").await);
}

pub(super) async fn what_we_hold_at_least_is_kept_from_them_after_our_release(scene: &mut Scene) {
    let guard = scene
        .we_hold(LockRequest::new("k").hold_at_least(LONG / 2))
        .await;
    guard.release().await.unwrap();
    assert!(!scene.they_get(&["k"], LONG).await);
    // They do not prolong it by asking.
    let ttl = scene.ours.inspect("k").await.unwrap().holder().unwrap().ttl;
    assert!(ttl.is_some_and(|ttl| ttl <= LONG / 2), "{ttl:?}");
}

pub(super) async fn a_server_that_forgot_changes_nothing(scene: &mut Scene) {
    let guard = scene.we_hold("ours").await;
    ask(&scene.servers[0], &["DEL", "ours"]);
    assert!(!scene.they_get(&["ours"], LONG).await);
    guard.extend(2 * LONG).await.unwrap();
    guard.release().await.unwrap();

    scene.they_hold("theirs", LONG).await;
    ask(&scene.servers[0], &["DEL", "theirs"]);
    assert!(!scene.we_get("theirs").await);
}

pub(super) async fn a_dead_server_changes_nothing(scene: &mut Scene) {
    scene.servers.last().unwrap().kill().unwrap();

    assert!(scene.they_get(&["theirs"], LONG).await);
    assert!(!scene.we_get("theirs").await);
    scene.theirs.ask(Ask::Release).await;
    assert!(scene.we_get("theirs").await);

    let request = LockRequest::new("ours").max_wait(LONG);
    let guard = scene.ours.lock(request).await.unwrap();
    assert!(!scene.they_get(&["ours"], LONG).await);
    guard.release().await.unwrap();
    assert!(scene.they_get(&["ours"], LONG).await);
}
