//! The whole lock on real servers: what every backend has to hold, each test within a few seconds.
//! `tests/life` has those about other processes, runtimes and long lives.
//!
//! A backend's crate takes these tests in with a few lines, in `tests/redlock.rs`, as those of
//! `tests/life`. Where a test goes back to a failure that was seen in the field, its comment names the
//! case (C02).

mod acl;
mod check;
mod cluster;
mod everyday;
mod faults;
mod guard;
mod load;
mod losses;
mod nodes;
mod permissions;
mod support;
