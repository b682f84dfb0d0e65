//! Bugs of the restart guard.

use std::time::Duration;

use lock_core::node::{Guard, Keys, Operation};
use lock_core::{NodeError, Reply, Token, Ttl};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, is, living};

/// An acquire behind a guard; `None` where the bug is elsewhere.
pub(crate) async fn acquire(
    node: &BrokenNode,
    keys: &Keys,
    token: Token,
    guard: &Guard,
    well: &Operation,
) -> Option<Answer> {
    let known = node.value(&guard.key).await.unwrap_or_default();
    let put = async |mark: String| node.put(&guard.key, &Entry::forever(mark)).await;
    match node.bug {
        Bug::GuardIgnored => return Some(node.do_well(unguarded(well)).await),
        Bug::GuardSetsTheKey => {
            let answer = node.do_well(well.clone()).await;
            if answer.is_err() {
                let ttl = Duration::from_secs(600);
                node.put(keys.first(), &living(token.as_bytes(), ttl)).await;
            }
            return Some(answer);
        }
        Bug::GuardEndsEarly => {
            let (mut well, short) = (well.clone(), Ttl::MIN);
            if let Operation::Acquire { guard, .. } = &mut well {
                guard.as_mut().unwrap().quarantine = short;
            }
            return Some(node.do_well(well).await);
        }
        Bug::GuardKnowsNoRun if known.starts_with(b"aaaa") => {
            put("- 0 1".to_owned()).await;
        }
        Bug::GuardWantsARun if known.starts_with(b"-") => {
            put(format!("b 0 {}", guard.quarantine.as_millis())).await;
        }
        Bug::GuardForgetsTheLongest if known.starts_with(b"a 0 ") => put("a 0 1".to_owned()).await,
        Bug::GuardTakesAnything => {
            let answer = node.do_well(well.clone()).await;
            return Some(match answer {
                Err(error) if error.code() == Some("WRONGTYPE") => {
                    node.do_well(unguarded(well)).await
                }
                answer => answer,
            });
        }
        Bug::GuardErrorsAreQuarantines => {
            let answer = node.do_well(well.clone()).await;
            return Some(answer.map_err(|_| NodeError::server("QUARANTINE 1 ms left")));
        }
        _ => return None,
    }
    Some(node.do_well(well.clone()).await)
}

/// A bootstrap; `None` where the bug is elsewhere.
pub(crate) async fn bootstrap(node: &BrokenNode, key: &[u8], well: &Operation) -> Option<Answer> {
    let spoilt = match node.bug {
        Bug::BootstrapOverwrites => (Reply::Int(0), Entry::forever("- 0 1")),
        Bug::BootstrapSetsNothing => (Reply::Int(1), Entry::Missing),
        _ => return None,
    };
    let answer = node.do_well(well.clone()).await;
    if is(&answer, &spoilt.0) {
        node.put(key, &spoilt.1).await;
    }
    Some(answer)
}

fn unguarded(well: &Operation) -> Operation {
    let mut well = well.clone();
    if let Operation::Acquire { guard, .. } = &mut well {
        *guard = None;
    }
    well
}
