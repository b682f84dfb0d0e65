//! What makes tests with servers short to write.

#![allow(dead_code, unused_imports, reason = "no test needs all of it")]

#[path = "../rt/mod.rs"]
mod rt;
#[path = "../../../lock-testkit/tests/support/mod.rs"]
mod shared;

pub(crate) use rt::*;
pub(crate) use shared::*;
