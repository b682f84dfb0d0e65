//! Bugs of releases.

use std::time::Duration;

use lock_core::node::{Keys, Operation};
use lock_core::{Reply, Token};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, living};

/// The release script; `None` where the bug is elsewhere.
pub(crate) async fn release(
    node: &BrokenNode,
    key: &[u8],
    token: Token,
    keep: Duration,
) -> Option<Answer> {
    let well = |keep| {
        let keys = Keys::One(key.into());
        node.do_well(Operation::Release { keys, token, keep })
    };
    let found = node.look(key).await;
    let value = node.value(key).await.unwrap_or_default();
    let mine = node.holds(key, token).await;
    let alike = match node.bug {
        Bug::ReleasesWithoutComparing => found != Entry::Missing,
        Bug::ReleasesAnotherType => found == Entry::OtherType,
        Bug::ReleaseComparesAPrefix => value.get(..8) == token.as_bytes().get(..8),
        Bug::ReleaseComparesWithoutCase => value.eq_ignore_ascii_case(token.as_bytes()),
        Bug::ReleaseComparesATrimmedValue => value.trim_ascii() == token.as_bytes(),
        _ => false,
    };
    if alike {
        node.put(key, &Entry::Missing).await;
        return Some(Ok(Reply::Int(1)));
    }
    Some(match node.bug {
        Bug::ReleasesNothing if mine && keep.is_zero() => Ok(Reply::Int(1)),
        Bug::ReleasesWhatIsMissing if found == Entry::Missing => Ok(Reply::Int(1)),
        Bug::ReleaseTellsNobodyForAnother if !mine => Ok(Reply::Int(0)),
        Bug::ReleasesAllOfTheToken if mine => {
            for other in node.server.keys().await.unwrap() {
                if node.holds(&other, token).await {
                    node.put(&other, &Entry::Missing).await;
                }
            }
            Ok(Reply::Int(1))
        }
        Bug::ChecksAndThenReleases if mine => {
            node.pause_for_a_while().await;
            node.put(key, &Entry::Missing).await;
            Ok(Reply::Int(1))
        }
        Bug::KeepDeletes => well(Duration::ZERO).await,
        Bug::KeepLengthens if mine && !keep.is_zero() => {
            node.put(key, &living(token.as_bytes(), keep)).await;
            Ok(Reply::Int(1))
        }
        Bug::KeepCreates if found == Entry::Missing && !keep.is_zero() => {
            node.put(key, &living(token.as_bytes(), keep)).await;
            Ok(Reply::Int(1))
        }
        Bug::KeepPersists if mine && !keep.is_zero() => {
            node.put(key, &Entry::forever(token.as_bytes())).await;
            Ok(Reply::Int(1))
        }
        Bug::KeepDoesNothing if mine && !keep.is_zero() => Ok(Reply::Int(1)),
        Bug::KeepLeavesForEverAlone if mine && node.left(key).await.is_none() => Ok(Reply::Int(1)),
        Bug::KeepCutsFractions if !keep.is_zero() => {
            well(Duration::from_millis(keep.as_millis() as u64)).await
        }
        Bug::KeepCutsToWholeSeconds if !keep.is_zero() => {
            well(Duration::from_secs(keep.as_secs())).await
        }
        _ => return None,
    })
}
