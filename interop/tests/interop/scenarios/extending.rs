//! A lock that is extended outlives its first ttl, for both sides.

use std::time::Duration;

use lock_core::LockRequest;
use tokio::time::{Instant, sleep, sleep_until};

use crate::count::MS;
use crate::scene::{LONG, SHORT, Scene};

/// What may pass between a reading of the clock and the server's.
const MARGIN: Duration = Duration::from_millis(100);

pub(super) async fn their_extension_keeps_us_out(scene: &mut Scene) {
    scene.they_hold("k", SHORT).await;
    let end = Instant::now() + SHORT + MARGIN;
    assert!(scene.they_extend(LONG).await);
    assert!(!scene.we_get("k").await);
    sleep_until(end).await;
    assert!(!scene.we_get("k").await);
    let ttl = scene.ours.inspect("k").await.unwrap().holder().unwrap().ttl;
    assert!(ttl.is_some_and(|ttl| SHORT < ttl && ttl <= LONG), "{ttl:?}");
}

pub(super) async fn our_extension_keeps_them_out(scene: &mut Scene) {
    let guard = scene.we_hold(LockRequest::new("k").ttl(SHORT)).await;
    let end = Instant::now() + SHORT + MARGIN;
    guard.extend(LONG).await.unwrap();
    sleep_until(end).await;
    assert!(!scene.they_get(&["k"], LONG).await);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(scene.they_get(&["k"], LONG).await);
}

pub(super) async fn our_automatic_extension_keeps_them_out(scene: &mut Scene) {
    let request = LockRequest::new("k").ttl(SHORT).auto_extend(true);
    let guard = scene.we_hold(request).await;
    let end = Instant::now() + 2 * SHORT;
    while Instant::now() < end {
        assert!(!scene.they_get(&["k"], LONG).await);
        sleep(50 * MS).await;
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert!(scene.they_get(&["k"], LONG).await);
}
