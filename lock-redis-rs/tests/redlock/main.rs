//! The whole lock on real servers: Redlock over `RedisRsNode`.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

mod everyday;
mod faults;
mod load;
mod permissions;
#[path = "../rt/mod.rs"]
mod rt;
mod support;
