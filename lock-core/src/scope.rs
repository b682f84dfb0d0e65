//! Running something while a lock is held.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::error::{Loss, WithLockError};
use crate::guard::LockGuard;

/// Runs the body until it ends or the lock is lost, and then releases the lock.
pub(crate) async fn run<F, T>(guard: LockGuard, body: F) -> Result<T, WithLockError<T>>
where
    F: AsyncFnOnce(&LockGuard) -> T,
{
    match unless_lost(&guard, body).await {
        Ok(output) => match guard.release().await {
            Ok(()) => Ok(output),
            Err(error) => Err(WithLockError::NotReleased { output, error }),
        },
        Err(loss) => Err(WithLockError::Lost(loss)),
    }
}

/// The body is polled first, so that a result that is ready is kept.
async fn unless_lost<F, T>(guard: &LockGuard, body: F) -> Result<T, Loss>
where
    F: AsyncFnOnce(&LockGuard) -> T,
{
    let mut lost = guard.lost();
    // Dropped behind the body: a shutdown waits for that.
    let _scope = guard.scope();
    let mut body = pin!(body(guard));
    poll_fn(|cx| {
        if let Poll::Ready(output) = body.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        lost.as_mut().poll(cx).map(Err)
    })
    .await
}
