//! What each command answers, and what it leaves.

use lock_core::Reply;

use crate::conformance::CheckResult;
use crate::conformance::node::cx::{NodeCx, acquire};
use crate::conformance::node::harness::Entry;

pub(crate) async fn a_free_key_is_set(cx: &NodeCx) -> CheckResult {
    let token = cx.token();
    cx.expect(&acquire("k", token), &Reply::ok()).await?;
    cx.expect_held("k", token).await
}

pub(crate) async fn a_taken_key_is_refused_and_left_alone(cx: &NodeCx) -> CheckResult {
    let foreign = Entry::forever("foreign");
    cx.bed().put(b"k", &foreign).await?;
    cx.expect(&acquire("k", cx.token()), &Reply::Nil).await?;
    cx.expect_entry("k", &foreign).await
}
