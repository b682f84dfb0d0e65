//! Bugs of operations on several keys.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Keys, Operation};
use lock_core::{NodeError, Reply, Token, Ttl};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, is, living, pause};

/// The script that sets all keys or none; `None` where the bug is elsewhere.
pub(crate) async fn acquire(
    node: &BrokenNode,
    keys: &[Arc<[u8]>],
    token: Token,
    ttl: Ttl,
) -> Option<Answer> {
    let well = |keys: Vec<Arc<[u8]>>, ttl| {
        node.do_well(Operation::Acquire {
            keys: Keys::Several(keys.into()),
            token,
            ttl,
            report_holder: true,
            fence: None,
            guard: None,
        })
    };
    let held = living(token.as_bytes(), ttl.as_duration());
    let others = others(node, keys, token).await;
    Some(match node.bug {
        Bug::AllSetNothing if others.is_empty() => Ok(Reply::Int(1)),
        Bug::AllSetTheFirstAlone => well(keys[..1].to_vec(), ttl).await,
        Bug::AllSet64AtMost => well(keys[..keys.len().min(64)].to_vec(), ttl).await,
        Bug::AllJoinTheirNames => well(vec![keys.concat().into()], ttl).await,
        Bug::AllSetWithoutPx if others.is_empty() => {
            put_missing(node, keys, &Entry::forever(token.as_bytes())).await;
            Ok(Reply::Int(1))
        }
        Bug::AllCutToWholeSeconds => {
            let seconds = Duration::from_secs(ttl.as_duration().as_secs());
            well(keys.to_vec(), Ttl::new(seconds).unwrap()).await
        }
        Bug::AllSetTheFreeOnes => {
            put_missing(node, keys, &held).await;
            well(keys.to_vec(), ttl).await
        }
        Bug::AllSetOneByOne => {
            for key in keys {
                let answer = well(vec![Arc::clone(key)], ttl).await;
                if !is(&answer, &Reply::Int(1)) {
                    return Some(answer);
                }
                pause().await;
            }
            Ok(Reply::Int(1))
        }
        Bug::AllGiveUpTheirOwnKeys if !others.is_empty() => {
            for key in keys {
                if node.holds(key, token).await {
                    node.put(key, &Entry::Missing).await;
                }
            }
            well(keys.to_vec(), ttl).await
        }
        Bug::AllRefreshOnRefusal if !others.is_empty() => {
            put_own(node, keys, token, &held).await;
            well(keys.to_vec(), ttl).await
        }
        Bug::AllTakeAnotherType => {
            for key in keys {
                if node.look(key).await == Entry::OtherType {
                    node.put(key, &held).await;
                }
            }
            well(keys.to_vec(), ttl).await
        }
        Bug::AllCompareAPrefix => {
            for key in keys {
                let value = node.value(key).await.unwrap_or_default();
                if value.get(..8) == token.as_bytes().get(..8) {
                    node.put(key, &held).await;
                }
            }
            well(keys.to_vec(), ttl).await
        }
        Bug::AllForgetTheirOwnToken => {
            for key in keys {
                if node.holds(key, token).await {
                    let holder = Reply::Bytes(token.as_bytes().to_vec());
                    return Some(Ok(Reply::Array(vec![holder, Reply::Int(-1)])));
                }
            }
            return None;
        }
        Bug::AllRefreshTheirOwnKeys if others.is_empty() => {
            put_own(node, keys, token, &held).await;
            well(keys.to_vec(), ttl).await
        }
        Bug::AllAreSetIfOneIs if others.is_empty() => {
            for key in keys {
                if node.holds(key, token).await {
                    return Some(Ok(Reply::Int(1)));
                }
            }
            return None;
        }
        Bug::AllTellTheLast => {
            let backwards = keys.iter().rev().cloned().collect();
            well(backwards, ttl).await
        }
        Bug::AllTellTheFirstByName => {
            let mut sorted = keys.to_vec();
            sorted.sort();
            well(sorted, ttl).await
        }
        Bug::AllTellTheWholeValue => match (well(keys.to_vec(), ttl).await, others.first()) {
            (Ok(Reply::Array(parts)), Some(key)) => {
                let holder = node.value(key).await.map_or(Reply::Nil, Reply::Bytes);
                Ok(Reply::Array(vec![holder, parts[1].clone()]))
            }
            (answer, _) => answer,
        },
        Bug::AllTellNoHolder => match well(keys.to_vec(), ttl).await {
            Ok(Reply::Array(_)) => Ok(Reply::Int(0)),
            answer => answer,
        },
        Bug::AllCheckAndThenSet if others.is_empty() => {
            pause().await;
            put_missing(node, keys, &held).await;
            Ok(Reply::Int(1))
        }
        _ => return None,
    })
}

/// Those of the keys that are neither free nor the token's.
async fn others(node: &BrokenNode, keys: &[Arc<[u8]>], token: Token) -> Vec<Arc<[u8]>> {
    let mut others = Vec::new();
    for key in keys {
        if node.look(key).await != Entry::Missing && !node.holds(key, token).await {
            others.push(Arc::clone(key));
        }
    }
    others
}

async fn put_missing(node: &BrokenNode, keys: &[Arc<[u8]>], entry: &Entry) {
    for key in keys {
        if node.look(key).await == Entry::Missing {
            node.put(key, entry).await;
        }
    }
}

async fn put_own(node: &BrokenNode, keys: &[Arc<[u8]>], token: Token, entry: &Entry) {
    for key in keys {
        if node.holds(key, token).await {
            node.put(key, entry).await;
        }
    }
}

/// The script that releases several keys; `None` where the bug is elsewhere.
pub(crate) async fn release(
    node: &BrokenNode,
    keys: &[Arc<[u8]>],
    token: Token,
    keep: Duration,
) -> Option<Answer> {
    let well = |keys: Vec<Arc<[u8]>>, keep| {
        let keys = Keys::Several(keys.into());
        node.do_well(Operation::Release { keys, token, keep })
    };
    let padded = |answer: Answer| match answer? {
        Reply::Array(mut answers) => {
            answers.resize(keys.len(), Reply::Int(1));
            Ok(Reply::Array(answers))
        }
        other => Ok(other),
    };
    Some(match node.bug {
        Bug::AllReleaseTheFirstAlone => {
            padded(well(keys.iter().take(1).cloned().collect(), keep).await)
        }
        Bug::AllRelease64AtMost => {
            padded(well(keys.iter().take(64).cloned().collect(), keep).await)
        }
        Bug::AllReleaseBackwards => match well(keys.to_vec(), keep).await {
            Ok(Reply::Array(answers)) => Ok(Reply::Array(answers.into_iter().rev().collect())),
            answer => answer,
        },
        Bug::AllReleasesAreCounted => match well(keys.to_vec(), keep).await {
            Ok(Reply::Array(answers)) => {
                let released = answers.iter().filter(|answer| **answer == Reply::Int(1));
                Ok(Reply::Int(released.count() as i64))
            }
            answer => answer,
        },
        Bug::AllReleaseNothingOfNothing if keys.is_empty() => {
            Err(NodeError::server("ERR wrong number of arguments"))
        }
        Bug::AllReleaseTheirToken => {
            let answer = well(keys.to_vec(), keep).await;
            for other in node.server.keys().await.unwrap() {
                if node.holds(&other, token).await {
                    node.put(&other, &Entry::Missing).await;
                }
            }
            answer
        }
        Bug::AllKeepDelete => well(keys.to_vec(), Duration::ZERO).await,
        Bug::AllKeepCutsFractions if !keep.is_zero() => {
            well(
                keys.to_vec(),
                Duration::from_millis(keep.as_millis() as u64),
            )
            .await
        }
        Bug::AllKeepCutsToWholeSeconds if !keep.is_zero() => {
            well(keys.to_vec(), Duration::from_secs(keep.as_secs())).await
        }
        _ => {
            let mut answers = Vec::new();
            for key in keys {
                let failed = answers.iter().any(|answer| *answer != Reply::Int(1));
                if node.bug == Bug::AllReleaseUpToAFailure && failed {
                    answers.push(Reply::Int(0));
                    continue;
                }
                match release_one(node, key, token, keep).await? {
                    Ok(answer) => answers.push(answer),
                    error => return Some(error),
                }
            }
            Ok(Reply::Array(answers))
        }
    })
}

/// One key of several; `None` where the bug is not one of these.
async fn release_one(
    node: &BrokenNode,
    key: &Arc<[u8]>,
    token: Token,
    keep: Duration,
) -> Option<Answer> {
    let found = node.look(key).await;
    let mine = node.holds(key, token).await;
    let kept = mine && !keep.is_zero();
    let put = match node.bug {
        Bug::AllReleaseNothing => mine.then_some(found),
        Bug::AllReleaseWithoutComparing => (found != Entry::Missing).then_some(Entry::Missing),
        Bug::AllReleaseAnotherType => (found == Entry::OtherType).then_some(Entry::Missing),
        Bug::AllReleaseComparingAPrefix => {
            let value = node.value(key).await.unwrap_or_default();
            let alike = value.get(..8) == token.as_bytes().get(..8);
            alike.then_some(Entry::Missing)
        }
        Bug::AllKeepDoesNothing => kept.then_some(found),
        Bug::AllKeepLengthens => kept.then(|| living(token.as_bytes(), keep)),
        Bug::AllKeepCreates => {
            let creates = found == Entry::Missing && !keep.is_zero();
            creates.then(|| living(token.as_bytes(), keep))
        }
        Bug::AllKeepLeavesForEverAlone => {
            let for_ever = node.left(key).await.is_none();
            (kept && for_ever).then_some(found)
        }
        Bug::AllReleaseUpToAFailure => None,
        _ => return None,
    };
    if let Some(put) = put {
        node.put(key, &put).await;
        return Some(Ok(Reply::Int(1)));
    }
    let keys = Keys::One(Arc::clone(key));
    Some(node.do_well(Operation::Release { keys, token, keep }).await)
}
