//! Bodies that run while a lock is held.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;

use futures::FutureExt;
use lock_core::{DistributedLock, DistributedLockExt, LockRequest, ReleaseError, WithLockError};

use super::support::*;

fn long() -> LockRequest {
    LockRequest::new(KEY).ttl(60 * SECOND).max_wait(LONG)
}

/// C28.
#[apply(async_test!)]
async fn a_body_that_fails_or_panics_releases_and_is_heard_unchanged() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let output = locks
        .with_lock(long(), async |_| Err::<(), _>("no money"))
        .await;
    assert_eq!(output.unwrap(), Err("no money"));
    until("released", 6 * SECOND, || keys(&servers) == 0).await;

    let panicking = locks.with_lock(long(), async |_| -> () { panic!("no luck") });
    let payload = AssertUnwindSafe(panicking)
        .catch_unwind()
        .await
        .unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"no luck"));
    until("released", 6 * SECOND, || keys(&servers) == 0).await;
}

/// C28.
#[apply(async_test!)]
async fn a_body_that_is_aborted_or_panics_in_a_task_releases() {
    let servers = servers(3);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks(&servers).await);
    for panics in [false, true] {
        let (held, is_held) = futures::channel::oneshot::channel();
        let locks = Arc::clone(&locks);
        let task = spawn(async move {
            let body = async |_: &_| {
                held.send(()).unwrap();
                if panics {
                    panic!("no luck");
                }
                std::future::pending::<()>().await
            };
            locks.with_lock(long().auto_extend(true), body).await
        });
        is_held.await.unwrap();
        task.abort();
        let error = task.await.unwrap_err();
        assert_eq!(error.is_panic(), panics);
        until("released", 6 * SECOND, || keys(&servers) == 0).await;
    }
}

/// C47.
#[apply(async_test!)]
async fn what_a_body_returns_comes_with_the_news_that_the_lock_was_lost() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    for output in [Err("no money"), Ok("paid")] {
        let request = LockRequest::new(KEY).ttl(SECOND).max_wait(LONG);
        let result = locks
            .with_lock(request, async |_| {
                // It blocks, and is done when it comes back, so that it cannot be dropped before.
                thread::sleep(1500 * MS);
                output
            })
            .await;
        let Err(WithLockError::NotReleased {
            output: returned,
            error,
        }) = result
        else {
            panic!("{result:?}");
        };
        assert_eq!(returned, output);
        assert!(matches!(error, ReleaseError::NotHeld), "{error}");
    }
}

/// C47.
#[apply(async_test!)]
async fn what_a_body_returns_comes_with_the_news_that_the_release_failed() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let result = locks
        .with_lock(long(), async |guard| {
            granted_everywhere(guard).await;
            servers[..2]
                .iter()
                .for_each(|server| server.kill().unwrap());
            "paid"
        })
        .await;
    let Err(WithLockError::NotReleased { output, error }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(output, "paid");
    let ReleaseError::Unavailable { .. } = &error else {
        panic!("{error}");
    };
    for server in &servers[..2] {
        assert!(
            error.to_string().contains(&server.addr().to_string()),
            "{error}"
        );
    }
}
