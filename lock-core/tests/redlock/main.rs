//! The algorithm over in-process nodes. Time is virtual: tokio's clock stands still except when
//! everybody sleeps.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

mod cancellation;
mod check;
mod cleanup;
mod contention;
mod early_decision;
mod errors;
mod extension;
mod fencing;
mod fills;
mod guard;
mod handover;
mod hold;
mod input;
mod logs;
mod loss;
mod observer;
mod one_key;
mod operators;
mod pauses;
mod release;
mod renewal;
mod runtimes;
mod schedules;
mod scripts;
mod several;
mod shutdown;
mod stress;
mod support;
mod suspects;
mod twins;
