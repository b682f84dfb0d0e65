//! What the service answers.

use axum::Json;
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use lock_core::{AcquireError, WithLockError};
use serde_json::json;

use crate::payments::{OrderId, Receipt};

/// When to ask again after a 503, in seconds. Nodes that come back are noticed within a quarter.
const RETRY_AFTER_SECONDS: &str = "1";

/// The status code of an error, by what it means for the client:
///
/// | error | status | meaning |
/// |---|---|---|
/// | `Contended` | 409 | Another request has this order, and had it until our deadline. It is no fault of ours: the client may look what became of the order. |
/// | `Unavailable`, `TooSlow` | 503 | Too few nodes answer, or not in time. Nothing was done; ask again. |
/// | `ShutDown` | 503 | This instance ends. Another one does it. |
/// | `Lost` | 503 | The work was stopped half-way, since the lock was lost. It is safe to ask again, because the work looks first what is done already. |
/// | `Invalid` | 500 | Misuse: no client can cause it, as each id was checked before. |
/// | `NotReleased` | 200 | No failure of the request: the work is done. See `app.rs`. |
///
/// All of them are `#[non_exhaustive]`: what is not known yet is a 500.
pub(crate) fn status<T>(error: &WithLockError<T>) -> StatusCode {
    match error {
        WithLockError::Acquire(AcquireError::Contended(_)) => StatusCode::CONFLICT,
        WithLockError::Acquire(
            AcquireError::Unavailable(_) | AcquireError::TooSlow(_) | AcquireError::ShutDown,
        ) => StatusCode::SERVICE_UNAVAILABLE,
        WithLockError::Lost(_) => StatusCode::SERVICE_UNAVAILABLE,
        WithLockError::NotReleased { .. } => StatusCode::OK,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A failure, in words that tell nothing of what is inside: errors name nodes, so they go to the
/// log alone.
pub(crate) fn failure(status: StatusCode) -> Response {
    let error = match status {
        StatusCode::BAD_REQUEST => "an order's id is 1 to 36 letters, digits and hyphens",
        StatusCode::CONFLICT => "another request has this order",
        StatusCode::SERVICE_UNAVAILABLE => "not possible at the moment, ask again",
        _ => "a mistake of this service",
    };
    let body = Json(json!({ "error": error }));
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            (status, [(RETRY_AFTER, RETRY_AFTER_SECONDS)], body).into_response()
        }
        _ => (status, body).into_response(),
    }
}

pub(crate) fn charged(order: &OrderId, receipt: Receipt) -> Response {
    Json(json!({ "order": order.as_str(), "receipt": receipt.number() })).into_response()
}

#[cfg(test)]
mod tests {
    use lock_core::{Contended, InvalidInput, Loss, ReleaseError, TooSlow, Unavailable};

    use super::*;

    #[test]
    fn each_error_has_the_status_that_tells_the_client_what_to_do() {
        let acquire = WithLockError::<()>::Acquire;
        let contended = AcquireError::Contended(Contended::default());
        let unavailable = AcquireError::Unavailable(Unavailable::default());
        let too_slow = AcquireError::TooSlow(TooSlow::default());
        let misuse = AcquireError::Invalid(InvalidInput::ResourceEmpty);
        let not_released = WithLockError::NotReleased {
            output: (),
            error: ReleaseError::NotHeld,
        };
        for (error, code, retry_after) in [
            (acquire(contended), 409, None),
            (acquire(unavailable), 503, Some("1")),
            (acquire(too_slow), 503, Some("1")),
            (acquire(AcquireError::ShutDown), 503, Some("1")),
            (acquire(misuse), 500, None),
            (WithLockError::Lost(Loss::Expired), 503, Some("1")),
            (WithLockError::Lost(Loss::Revoked), 503, Some("1")),
            (not_released, 200, None),
        ] {
            let status = status(&error);
            assert_eq!(status.as_u16(), code, "{error}");
            let headers = failure(status).headers().clone();
            let given = headers
                .get(RETRY_AFTER)
                .map(|value| value.to_str().unwrap());
            assert_eq!(given, retry_after, "{error}");
        }
    }
}
