//! A lock that one side has lost belongs to the other side, and the loser cannot touch it.

use lock_core::{ExtendError, LockGuard, LockRequest, ReleaseError};

use crate::peer::{Ask, Told};
use crate::scene::{LONG, SHORT, Scene, ask};

pub(super) async fn what_they_let_expire_is_ours_and_they_cannot_touch_it(scene: &mut Scene) {
    assert!(scene.they_get(&["k"], SHORT).await);
    let guard = scene.we_wait_for("k").await;
    they_cannot_touch(scene, &guard).await;
}

pub(super) async fn what_an_operator_took_from_them_is_ours_and_they_cannot_touch_it(
    scene: &mut Scene,
) {
    // Here the servers have to tell them: by their own clocks they hold it still.
    scene.they_hold("k", LONG).await;
    assert!(scene.ours.force_release("k").await.unwrap());
    let guard = scene.we_wait_for("k").await;
    they_cannot_touch(scene, &guard).await;
}

async fn they_cannot_touch(scene: &mut Scene, guard: &LockGuard) {
    assert!(!scene.they_extend(LONG).await);
    let told = scene.theirs.ask(Ask::Release).await;
    assert!(matches!(told, Told::No | Told::Nothing), "{told:?}");
    let values = scene.values("k");
    let token = guard.token().as_bytes();
    assert!(values.are(token, scene.quorum()), "{values:?}");
    guard.extend(2 * LONG).await.unwrap();
    guard.release().await.unwrap();
}

pub(super) async fn what_we_let_expire_is_theirs_and_we_cannot_touch_it(scene: &mut Scene) {
    let guard = scene.we_wait_for(LockRequest::new("k").ttl(SHORT)).await;
    scene.they_wait_for("k", LONG).await;
    assert!(!guard.is_valid(), "it is theirs, and ours still");
    we_cannot_touch(scene, &guard).await;
}

pub(super) async fn what_servers_forgot_is_theirs_and_we_cannot_touch_it(scene: &mut Scene) {
    // Here the servers have to tell us: by our own clock we hold it still.
    let guard = scene.we_hold("k").await;
    for server in &*scene.servers {
        ask(server, &["DEL", "k"]);
    }
    scene.they_hold("k", LONG).await;
    we_cannot_touch(scene, &guard).await;
}

async fn we_cannot_touch(scene: &mut Scene, guard: &LockGuard) {
    let before = scene.values("k");
    let extended = guard.extend(LONG).await;
    assert!(matches!(extended, Err(ExtendError::Lost)), "{extended:?}");
    let released = guard.release().await;
    assert!(
        matches!(released, Err(ReleaseError::NotHeld)),
        "{released:?}"
    );
    let after = scene.values("k");
    let theirs = before.0.iter().flatten().next().unwrap();
    assert!(
        after.are(theirs, scene.quorum()),
        "{after:?}, before {before:?}"
    );
    assert!(scene.they_extend(LONG).await);
}
