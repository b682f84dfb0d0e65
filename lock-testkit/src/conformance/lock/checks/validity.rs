//! For how long a lock can be relied on.

use std::time::Duration;

use lock_core::LockRequest;

use super::{MS, long};
use crate::conformance::lock::cx::{LONG, LockCx};
use crate::conformance::node::NodeFault;
use crate::conformance::{CheckResult, Failure, expect};

pub(crate) async fn a_guard_counts_down_from_its_ttl(cx: &LockCx) -> CheckResult {
    for ttl in [Duration::from_secs(5), LONG] {
        let start = cx.now();
        let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
        let acquired = cx.now();
        let before = guard.remaining();
        expect(before <= ttl, "no validity beyond the ttl", before)?;
        cx.sleep(20 * MS).await;
        // In this order: a pause between the two must not count against the lock.
        let passed = cx.now().saturating_sub(acquired);
        let after = guard.remaining();
        expect(passed + after <= ttl, "an end at the ttl", passed + after)?;
        expect(
            after + 10 * MS <= before,
            "less when time passes",
            (before, after),
        )?;
        let is_valid = guard.is_valid();
        let is_early = cx.now().saturating_sub(start) < ttl / 2;
        expect(is_valid || !is_early, "a valid guard", &guard)?;
        drop(guard.release().await);
    }
    Ok(())
}

pub(crate) async fn the_validity_counts_from_before_the_nodes_were_asked(
    cx: &LockCx,
) -> CheckResult {
    super::outage::warm_up(cx, cx.lock()).await?;
    for node in super::outage::all_nodes(cx)? {
        let delay = NodeFault::Delay(40 * MS);
        cx.bed().inject(node, &delay).await?;
    }
    let ttl = 1_200 * MS;
    let mut tries = 0;
    loop {
        tries += 1;
        // Something may be left of an attempt before.
        let request = LockRequest::new(format!("k-{tries}")).ttl(ttl);
        let start = cx.now();
        match cx.ends("a try", cx.lock().try_acquire(&request)).await? {
            Ok(Some(guard)) => {
                let end = cx.now().saturating_sub(start) + guard.remaining();
                return expect(end <= ttl, "an end of the validity within the ttl", end);
            }
            // A node may have been busy.
            _ if tries < 20 => cx.sleep(50 * MS).await,
            other => return Err(Failure::new("a guard", format!("{other:?}"))),
        }
    }
}

pub(crate) async fn a_lock_ends_with_its_ttl(cx: &LockCx) -> CheckResult {
    let ttl = 250 * MS;
    let start = cx.now();
    let guard = cx.take(cx.lock(), LockRequest::new("k").ttl(ttl)).await?;
    let acquired = cx.now();
    loop {
        // The clock is read on the side on which a pause does not count against the lock.
        let lived_at_least = cx.now().saturating_sub(acquired);
        let is_valid = guard.is_valid();
        let lived_at_most = cx.now().saturating_sub(start);
        if !is_valid {
            let expected = "a guard valid for most of its ttl";
            expect(lived_at_most >= ttl / 2, expected, lived_at_most)?;
            break;
        }
        expect(
            lived_at_least < ttl,
            "an end of the validity",
            lived_at_least,
        )?;
        cx.sleep(5 * MS).await;
    }
    cx.sleep(ttl).await;
    expect(!guard.is_valid(), "a guard that stays invalid", &guard)?;
    // It was never released.
    cx.expect_nothing_left().await?;
    drop(cx.take(&cx.rival().await?, long("k")).await?);
    Ok(())
}

pub(crate) async fn a_lock_is_taken_as_long_as_its_guard_is_valid(cx: &LockCx) -> CheckResult {
    let rival = cx.rival().await?;
    let guard = cx
        .take(cx.lock(), LockRequest::new("k").ttl(300 * MS))
        .await?;
    let start = cx.now();
    loop {
        let second = cx.ask(&rival, &long("k")).await?;
        // Asked afterwards: if it is valid now, it was when the other one was given.
        let is_valid = guard.is_valid();
        if second.is_some() {
            return expect(!is_valid, "one valid guard", (&guard, &second));
        }
        let waited = cx.now().saturating_sub(start);
        expect(waited < LONG / 20, "the lock to become free", waited)?;
        cx.sleep(5 * MS).await;
    }
}
