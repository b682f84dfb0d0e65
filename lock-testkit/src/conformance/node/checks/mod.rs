//! The checks, by subject.

pub(super) mod bytes;
pub(super) mod concurrency;
pub(super) mod expiry;
pub(super) mod extending;
pub(super) mod releasing;
pub(super) mod replies;
pub(super) mod scripts;
