//! The checks, by subject.

pub(super) mod everyday;
