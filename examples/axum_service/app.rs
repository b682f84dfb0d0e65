//! The handlers.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use lock_core::{DistributedLockExt, LockRequest, Redlock, WithLockError};
use serde_json::json;
use tracing::{error, warn};

use crate::answer;
use crate::payments::{OrderId, Payments};

/// How long others wait for an order if this process crashes. The lock is extended for as long as
/// the work takes.
const TTL: Duration = Duration::from_secs(10);

/// What handlers share. Clones are cheap and share it too.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// `Arc<dyn DistributedLock>` would do, but for `/health`.
    locks: Redlock,
    payments: Payments,
    wait: Duration,
}

impl App {
    /// `wait` is how long a request waits for another one of the same order, `work` how long it
    /// takes to charge one.
    pub(crate) fn new(locks: Redlock, wait: Duration, work: Duration) -> Self {
        Self {
            locks,
            payments: Payments::new(work),
            wait,
        }
    }

    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/orders/{id}/charge", post(charge))
            .route("/health", get(health))
            .with_state(self)
    }

    #[cfg(test)]
    pub(crate) fn payments(&self) -> &Payments {
        &self.payments
    }
}

/// Charges an order, unless another request does, here or on another instance.
///
/// If the client goes away, axum drops this future: the work stops where it is, and the lock is
/// released in the background. Work that must come to its end all the same belongs in a task of its
/// own: `tokio::spawn(async move { .. with_lock(..) .. }).await`.
async fn charge(State(app): State<App>, Path(id): Path<String>) -> Response {
    let Some(order) = OrderId::parse(id) else {
        return answer::failure(StatusCode::BAD_REQUEST);
    };
    let request = LockRequest::new(format!("order:{}", order.as_str()))
        .ttl(TTL)
        .auto_extend(true)
        .max_wait(app.wait);
    let work = async |guard: &_| app.payments.charge(&order, guard).await;
    let receipt = match app.locks.with_lock(request, work).await {
        Ok(receipt) => receipt,
        // The work is done, and the client is to know it. Whoever comes next finds the receipt.
        Err(WithLockError::NotReleased { output, error }) => {
            warn!(%error, order = order.as_str(), "charged, but the lock was not released");
            output
        }
        Err(error) => return refuse(&order, &error),
    };
    match receipt {
        Some(receipt) => answer::charged(&order, receipt),
        // The work noticed that the lock was lost before `with_lock` did.
        None => answer::failure(StatusCode::SERVICE_UNAVAILABLE),
    }
}

fn refuse<T>(order: &OrderId, error: &WithLockError<T>) -> Response {
    let (status, order) = (answer::status(error), order.as_str());
    match status {
        // Nothing is wrong, so nobody needs to be told.
        StatusCode::CONFLICT => {}
        StatusCode::SERVICE_UNAVAILABLE => warn!(%error, order, "not charged"),
        _ => error!(%error, order, "not charged"),
    }
    answer::failure(status)
}

/// Whether this instance can take locks, for a load balancer (readiness). It names no node and no
/// error. It is not for what restarts processes (liveness): that would not mend a server of Redis.
async fn health(State(app): State<App>) -> Response {
    if app.locks.check().await.is_available() {
        Json(json!({ "locks": "ok" })).into_response()
    } else {
        let body = Json(json!({ "locks": "unavailable" }));
        (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
    }
}
