//! Bugs of looking at a lock and removing it.

use std::time::Duration;

use lock_core::node::Operation;
use lock_core::{NodeError, Reply};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, living};

/// The inspect script; `None` where the bug is elsewhere.
pub(crate) async fn inspect(node: &BrokenNode, key: &[u8]) -> Option<Answer> {
    let well = || node.do_well(Operation::Inspect { key: key.into() });
    let found = node.look(key).await;
    let value = node.value(key).await;
    let left = node.left(key).await;
    Some(match (node.bug, value) {
        (Bug::InspectFindsNothing, Some(_)) => Ok(Reply::Int(0)),
        (Bug::InspectTellsNoLifetime, Some(value)) => {
            Ok(Reply::Array(vec![Reply::Bytes(value), Reply::Int(-1)]))
        }
        (Bug::InspectTellsTheWholeValue, Some(value)) => match well().await {
            Ok(Reply::Array(parts)) => {
                Ok(Reply::Array(vec![Reply::Bytes(value), parts[1].clone()]))
            }
            answer => answer,
        },
        (Bug::InspectTellsTheHolderAlone, Some(value)) => Ok(Reply::Bytes(value)),
        (Bug::InspectFindsNoOtherType, _) if found == Entry::OtherType => Ok(Reply::Int(0)),
        (Bug::InspectFailsOnAnotherType, _) if found == Entry::OtherType => {
            Err(NodeError::server("WRONGTYPE Operation against a key"))
        }
        (Bug::InspectIsNilForAMissingKey, _) if found == Entry::Missing => Ok(Reply::Nil),
        (Bug::InspectTellsAMissingKey, _) if found == Entry::Missing => {
            Ok(Reply::Array(vec![Reply::Nil, Reply::Int(-2)]))
        }
        (Bug::InspectCreates, _) if found == Entry::Missing => {
            node.put(key, &living(b"", Duration::from_secs(600))).await;
            Ok(Reply::Int(0))
        }
        (Bug::InspectTakes, Some(_)) => {
            let answer = well().await;
            node.put(key, &Entry::Missing).await;
            answer
        }
        (Bug::InspectPersists, Some(value)) => {
            let answer = well().await;
            node.put(key, &Entry::forever(value)).await;
            answer
        }
        (Bug::InspectEndsWhatLivesForEver, Some(value)) if left.is_none() => {
            let answer = well().await;
            node.put(key, &living(&value, Duration::from_secs(600)))
                .await;
            answer
        }
        _ => return None,
    })
}

/// The remove script; `None` where the bug is elsewhere.
pub(crate) async fn remove(node: &BrokenNode, key: &[u8]) -> Option<Answer> {
    let found = node.look(key).await;
    let value = node.value(key).await;
    let removed = match node.bug {
        Bug::RemovesNothing => value.is_some(),
        Bug::RemovesTokensAlone => {
            if value.is_some_and(|value| value.len() != 36) {
                return Some(Ok(Reply::Int(-1)));
            }
            false
        }
        Bug::RemovesNothingThatLivesForEver => {
            let for_ever = value.is_some() && node.left(key).await.is_none();
            if for_ever {
                return Some(Ok(Reply::Int(-1)));
            }
            false
        }
        Bug::RemovesAnotherType if found == Entry::OtherType => {
            node.put(key, &Entry::Missing).await;
            true
        }
        Bug::RemoveFindsNoOtherType if found == Entry::OtherType => {
            return Some(Ok(Reply::Int(0)));
        }
        Bug::RemovesWhatIsMissing => found == Entry::Missing,
        Bug::RemovesAll if value.is_some() => {
            for key in node.server.keys().await.unwrap() {
                node.put(&key, &Entry::Missing).await;
            }
            true
        }
        _ => return None,
    };
    removed.then_some(Ok(Reply::Int(1)))
}

/// A description; `None` where the bug is elsewhere.
pub(crate) async fn describe(node: &BrokenNode) -> Option<Answer> {
    let [secs, micros, role] = match node.bug {
        Bug::DescribesWithoutTheRole => ["1", "0", ""],
        Bug::DescribesATimeThatGoesBack => {
            let state = &mut *node.state.lock();
            state.calls += 1;
            [["1", "2"][state.calls % 2], "0", "role:master"]
        }
        _ => return None,
    };
    let told = [secs, micros, role].map(|part| Reply::Bytes(part.into()));
    Some(Ok(Reply::Array(told.into())))
}

/// A part of a scan; `None` where the bug is elsewhere.
pub(crate) async fn scan(node: &BrokenNode, prefix: &[u8]) -> Option<Answer> {
    let prefix = match node.bug {
        // What a star stands for is found by its beginning.
        Bug::ScanTakesPatterns => prefix
            .split(|byte| *byte == b'*')
            .next()
            .unwrap_or_default(),
        Bug::ScanEndsEarly | Bug::ScanListsAnotherType => prefix,
        _ => return None,
    };
    let operation = Operation::Scan {
        prefix: prefix.into(),
        cursor: 0,
    };
    let Ok(Reply::Array(mut parts)) = node.do_well(operation).await else {
        return None;
    };
    if let Some(Reply::Array(keys)) = parts.get_mut(1) {
        let other = [prefix, b"other"].concat();
        if node.bug == Bug::ScanEndsEarly {
            keys.pop();
        } else if node.look(&other).await == Entry::OtherType {
            keys.push(Reply::Bytes(other));
        }
    }
    Some(Ok(Reply::Array(parts)))
}
