//! Bugs of exchanges.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Keys, Operation};
use lock_core::{Reply, Token};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, living};

/// The exchange script; `None` where the bug is elsewhere.
pub(crate) async fn exchange(
    node: &BrokenNode,
    keys: &Keys,
    new: Token,
    ttl: Duration,
    well: Operation,
) -> Option<Answer> {
    let keys = keys.as_slice();
    let found = |key: Arc<[u8]>| async move { node.look(&key).await };
    let set =
        |key: Arc<[u8]>, ttl| async move { node.put(&key, &living(new.as_bytes(), ttl)).await };
    Some(match node.bug {
        Bug::ExchangeExtendsAlone => {
            let mut before = Vec::new();
            for key in keys {
                before.push(node.value(key).await);
            }
            let answer = node.do_well(well).await;
            for (key, value) in keys.iter().zip(before) {
                if let (Some(value), Some(left)) = (value, node.left(key).await) {
                    node.put(key, &living(&value, left)).await;
                }
            }
            answer
        }
        Bug::ExchangeShortens => {
            let answer = node.do_well(well).await;
            if let Ok(Reply::Array(codes)) = &answer {
                for (key, _) in keys
                    .iter()
                    .zip(codes)
                    .filter(|(_, code)| **code == Reply::Int(1))
                {
                    set(Arc::clone(key), ttl).await;
                }
            }
            answer
        }
        Bug::ExchangesTheKeyOfAnother => {
            for key in keys {
                if matches!(found(Arc::clone(key)).await, Entry::Value { .. }) {
                    set(Arc::clone(key), ttl).await;
                }
            }
            node.do_well(well).await
        }
        Bug::ExchangesTheFirstAlone if keys.len() > 1 => {
            let first = match well {
                Operation::Exchange { old, .. } => Operation::Exchange {
                    keys: Keys::One(Arc::clone(&keys[0])),
                    old,
                    new,
                    ttl: lock_core::Ttl::new(ttl).unwrap(),
                },
                other => other,
            };
            node.do_well(first).await
        }
        _ => return None,
    })
}
