//! Locking without panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose holders leave it in order even if they panic.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
