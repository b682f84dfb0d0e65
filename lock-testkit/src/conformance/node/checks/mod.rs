//! The checks, by subject.

pub(super) mod bytes;
pub(super) mod cancelling;
pub(super) mod concurrency;
pub(super) mod connections;
pub(super) mod cutting;
pub(super) mod denials;
pub(super) mod exchanging;
pub(super) mod expiry;
pub(super) mod extending;
pub(super) mod fencing;
pub(super) mod guarding;
pub(super) mod hanging;
pub(super) mod inspecting;
pub(super) mod ordering;
pub(super) mod protocols;
pub(super) mod refusing;
pub(super) mod releasing;
pub(super) mod replies;
pub(super) mod restarting;
pub(super) mod scripts;
pub(super) mod secrets;
pub(super) mod several;
