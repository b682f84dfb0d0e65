//! A limit to the time that something may take.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use lock_core::runtime::ambient;

/// Waits for a future, but no longer than `limit`. An output that is there counts even if it came
/// late.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    match select(pin!(future), ambient().sleep(limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(((), _)) => None,
    }
}
