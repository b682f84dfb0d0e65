//! Bugs of fencing counters.

use lock_core::node::{Fence, Keys, Operation};
use lock_core::{FencingToken, Reply, Token};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, living};

/// The script that acquires with a fencing token; `None` where the bug is elsewhere.
pub(crate) async fn acquire(
    node: &BrokenNode,
    keys: &Keys,
    token: Token,
    fence: &Fence,
    well: Operation,
) -> Option<Answer> {
    let before = counters(node, fence).await;
    Some(match node.bug {
        Bug::FencedSetsNoCounter => {
            let answer = node.do_well(well).await;
            put_counters(node, fence, &before).await;
            answer
        }
        Bug::FencedShowsFloats => {
            let answer = node.do_well(well).await;
            if let Ok(Reply::Int(number)) = &answer {
                for key in fence.counters.iter() {
                    let value = format!("{:e} {token}", *number as f64);
                    put_counter(node, key, fence, value).await;
                }
            }
            answer
        }
        Bug::FencedKeepsCountersForEver => {
            let answer = node.do_well(well).await;
            for key in fence.counters.iter() {
                if let Some(value) = node.value(key).await {
                    node.put(key, &Entry::forever(value)).await;
                }
            }
            answer
        }
        Bug::FencedBeginsAtOne => {
            for key in fence.counters.iter() {
                if node.look(key).await == Entry::Missing {
                    put_counter(node, key, fence, "0 nobody".to_owned()).await;
                }
            }
            node.do_well(well).await
        }
        Bug::FencedHasNoFloor => {
            let mut well = well;
            if let Operation::Acquire { fence, .. } = &mut well {
                fence.as_mut().unwrap().above = FencingToken::new(0);
            }
            node.do_well(well).await
        }
        Bug::FencedCountsEachForItself => {
            let answer = node.do_well(well).await;
            if matches!(answer, Ok(Reply::Int(_))) {
                for (key, before) in fence.counters.iter().zip(&before) {
                    if let Some(number) = number(before) {
                        let value = format!("{} {token}", number + 1);
                        put_counter(node, key, fence, value).await;
                    }
                }
            }
            answer
        }
        Bug::FencedRaisesOnRefusal => {
            let answer = node.do_well(well).await;
            if matches!(answer, Ok(Reply::Array(_))) {
                for (key, before) in fence.counters.iter().zip(&before) {
                    if let Some(number) = number(before) {
                        put_counter(node, key, fence, format!("{} {token}", number + 1)).await;
                    }
                }
            }
            answer
        }
        Bug::FencedKnowsItselfByTheLock => {
            let mut own = true;
            for key in keys.as_slice() {
                own &= node.holds(key, token).await;
            }
            let number = before.iter().filter_map(number).max();
            match number.filter(|_| own) {
                Some(number) => Ok(Reply::Int(number as i64)),
                None => node.do_well(well).await,
            }
        }
        Bug::FencedTakesAnyCounter => {
            for (key, before) in fence.counters.iter().zip(&before) {
                if *before != Entry::Missing && number(before).is_none() {
                    node.put(key, &Entry::Missing).await;
                }
            }
            node.do_well(well).await
        }
        _ => return None,
    })
}

/// The script that confirms a fencing token; `None` where the bug is elsewhere.
pub(crate) async fn confirm(
    node: &BrokenNode,
    keys: &Keys,
    token: Token,
    fence: &Fence,
    [granted, raised]: [FencingToken; 2],
) -> Option<Answer> {
    let mut is_held = true;
    for key in keys.as_slice() {
        is_held &= node.holds(key, token).await;
    }
    let expected = format!("{granted} {token}").into_bytes();
    let before = counters(node, fence).await;
    let is_ours = |entry: &Entry| matches!(entry, Entry::Value { value, .. } if *value == expected);
    let is_raised_by_us = before.iter().all(is_ours);
    let confirms = match node.bug {
        Bug::ConfirmsNothing => return Some(Ok(Reply::Int((is_held && is_raised_by_us).into()))),
        Bug::ConfirmsWithoutTheLock => is_raised_by_us,
        Bug::ConfirmsWithoutTheCounter => is_held,
        Bug::ConfirmsByTheFirstCounter => is_held && before.first().is_some_and(is_ours),
        _ => return None,
    };
    if confirms {
        for key in fence.counters.iter() {
            put_counter(node, key, fence, format!("{raised} {token}")).await;
        }
    }
    Some(Ok(Reply::Int(confirms.into())))
}

async fn counters(node: &BrokenNode, fence: &Fence) -> Vec<Entry> {
    let mut counters = Vec::new();
    for key in fence.counters.iter() {
        counters.push(node.look(key).await);
    }
    counters
}

async fn put_counters(node: &BrokenNode, fence: &Fence, counters: &[Entry]) {
    for (key, entry) in fence.counters.iter().zip(counters) {
        node.put(key, entry).await;
    }
}

async fn put_counter(node: &BrokenNode, key: &[u8], fence: &Fence, value: String) {
    let retention = fence.retention.as_duration();
    node.put(key, &living(value.as_bytes(), retention)).await;
}

/// The number of a counter.
fn number(entry: &Entry) -> Option<u64> {
    let Entry::Value { value, .. } = entry else {
        return None;
    };
    let (number, _) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    number.parse().ok()
}
