//! Bugs of acquires.

use std::time::Duration;

use lock_core::node::{Keys, Operation};
use lock_core::{NodeError, Reply, Token, Ttl};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, is, living, pause};

/// `SET NX PX`; `None` where the bug is elsewhere.
pub(crate) async fn set(node: &BrokenNode, key: &[u8], token: Token, ttl: Ttl) -> Option<Answer> {
    let well = |ttl| node.do_well(acquire(key, token, ttl, false));
    let held = living(token.as_bytes(), ttl.as_duration());
    Some(match node.bug {
        Bug::SetsNothing => Ok(match node.look(key).await {
            Entry::Missing => Reply::ok(),
            _ => Reply::Nil,
        }),
        Bug::SetsWithoutNx => {
            node.put(key, &held).await;
            Ok(Reply::ok())
        }
        Bug::SetsWithoutPx => {
            let answer = well(ttl).await;
            if is(&answer, &Reply::ok()) {
                node.put(key, &Entry::forever(token.as_bytes())).await;
            }
            answer
        }
        Bug::RefreshesOnRefusal => {
            let answer = well(ttl).await;
            if is(&answer, &Reply::Nil) {
                refresh(node, key, ttl).await;
            }
            answer
        }
        Bug::SetsItsOwnKeyAgain if node.holds(key, token).await => {
            node.put(key, &held).await;
            Ok(Reply::ok())
        }
        Bug::TakesAnotherType if node.look(key).await == Entry::OtherType => {
            node.put(key, &held).await;
            Ok(Reply::ok())
        }
        Bug::ChecksAndThenSets => {
            let found = node.look(key).await;
            pause().await;
            if found != Entry::Missing {
                return Some(Ok(Reply::Nil));
            }
            node.put(key, &held).await;
            Ok(Reply::ok())
        }
        bug => well(altered(bug, ttl)?).await,
    })
}

/// The acquire script; `None` where the bug is elsewhere.
pub(crate) async fn set_or_tell(
    node: &BrokenNode,
    key: &[u8],
    token: Token,
    ttl: Ttl,
) -> Option<Answer> {
    let well = |ttl| node.do_well(acquire(key, token, ttl, true));
    let held = living(token.as_bytes(), ttl.as_duration());
    let mine = node.holds(key, token).await;
    Some(match node.bug {
        Bug::ScriptSetsNothing if node.look(key).await == Entry::Missing => Ok(Reply::Int(1)),
        Bug::ScriptSetsWithoutPx => {
            let answer = well(ttl).await;
            if is(&answer, &Reply::Int(1)) && !mine {
                node.put(key, &Entry::forever(token.as_bytes())).await;
            }
            answer
        }
        Bug::ScriptRefreshesOnRefusal if !mine => {
            let answer = well(ttl).await;
            if !is(&answer, &Reply::Int(1)) {
                refresh(node, key, ttl).await;
            }
            answer
        }
        Bug::ForgetsItsOwnToken if mine => {
            let left = node
                .left(key)
                .await
                .map_or(-1, |left| left.as_millis() as i64);
            let holder = Reply::Bytes(token.as_bytes().to_vec());
            Ok(Reply::Array(vec![holder, Reply::Int(left)]))
        }
        Bug::RefreshesItsOwnKey if mine => {
            node.put(key, &held).await;
            Ok(Reply::Int(1))
        }
        Bug::AnotherTypeIsAnError if node.look(key).await == Entry::OtherType => {
            Err(NodeError::server("WRONGTYPE Operation against a key"))
        }
        Bug::ScriptChecksAndThenSets if node.look(key).await == Entry::Missing => {
            pause().await;
            node.put(key, &held).await;
            Ok(Reply::Int(1))
        }
        Bug::TellsTheWholeValue => match (well(ttl).await, node.value(key).await) {
            (Ok(Reply::Array(parts)), Some(value)) => {
                Ok(Reply::Array(vec![Reply::Bytes(value), parts[1].clone()]))
            }
            (answer, _) => answer,
        },
        Bug::TellsTheAskersToken => match well(ttl).await {
            Ok(Reply::Array(parts)) => {
                let asker = Reply::Bytes(token.as_bytes().to_vec());
                Ok(Reply::Array(vec![asker, parts[1].clone()]))
            }
            answer => answer,
        },
        bug => well(altered(bug, ttl)?).await,
    })
}

/// The lifetime that these bugs make of one.
fn altered(bug: Bug, ttl: Ttl) -> Option<Ttl> {
    let millis = ttl.as_millis();
    let altered = match bug {
        Bug::CountsInSeconds => millis * 1000,
        Bug::CutsToWholeSeconds => millis / 1000 * 1000,
        Bug::RoundsUpToWholeSeconds => millis.div_ceil(1000) * 1000,
        Bug::Counts32Bits => millis & 0x7fff_ffff,
        _ => return None,
    };
    let altered = Duration::from_millis(altered);
    Some(Ttl::new(altered).unwrap_or(if altered.is_zero() {
        Ttl::MIN
    } else {
        Ttl::MAX
    }))
}

/// Gives whatever is there the lifetime that was asked for.
async fn refresh(node: &BrokenNode, key: &[u8], ttl: Ttl) {
    if let Some(value) = node.value(key).await {
        node.put(key, &living(&value, ttl.as_duration())).await;
    }
}

fn acquire(key: &[u8], token: Token, ttl: Ttl, report_holder: bool) -> Operation {
    Operation::Acquire {
        keys: Keys::One(key.into()),
        token,
        ttl,
        report_holder,
        fence: None,
        guard: None,
    }
}
