//! Bugs of extensions.

use lock_core::node::{ExtendEntry, Operation};
use lock_core::{NodeError, Reply};
use lock_testkit::conformance::node::Entry;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, living};

/// The extend script; `None` where the bug is elsewhere.
pub(crate) async fn extend(node: &BrokenNode, entries: &[ExtendEntry]) -> Option<Answer> {
    let well = |entries: Vec<ExtendEntry>| {
        node.do_well(Operation::Extend {
            entries: entries.into(),
        })
    };
    Some(match node.bug {
        Bug::ExtendsTheFirstAlone => {
            let first = entries.iter().take(1).cloned().collect();
            well(first)
                .await
                .map(|_| Reply::Array(vec![Reply::Int(1); entries.len()]))
        }
        Bug::Extends256AtMost => {
            let answer = well(entries.iter().take(256).cloned().collect()).await;
            answer.map(|reply| match reply {
                Reply::Array(mut answers) => {
                    answers.resize(entries.len(), Reply::Int(1));
                    Reply::Array(answers)
                }
                other => other,
            })
        }
        Bug::ExtendsByTheFirstToken => {
            let token = entries.first()?.token;
            let entry = |entry: &ExtendEntry| ExtendEntry {
                token,
                ..entry.clone()
            };
            well(entries.iter().map(entry).collect()).await
        }
        Bug::ExtendsByTheFirstTtl => {
            let ttl = entries.first()?.ttl;
            let entry = |entry: &ExtendEntry| ExtendEntry {
                ttl,
                ..entry.clone()
            };
            well(entries.iter().map(entry).collect()).await
        }
        Bug::RefusesAnEmptyExtend if entries.is_empty() => {
            Err(NodeError::server("ERR wrong number of arguments"))
        }
        Bug::AnswersAnEmptyExtendWithNil if entries.is_empty() => Ok(Reply::Nil),
        Bug::AnswersExtendsBackwards => well(entries.to_vec()).await.map(|reply| match reply {
            Reply::Array(answers) => Reply::Array(answers.into_iter().rev().collect()),
            other => other,
        }),
        _ => {
            let mut answers = Vec::new();
            for entry in entries {
                let failed = answers.iter().any(|answer| *answer != Reply::Int(1));
                if node.bug == Bug::StopsExtendingAtAFailure && failed {
                    answers.push(Reply::Int(0));
                    continue;
                }
                match one(node, entry).await? {
                    Ok(Reply::Array(answer)) => answers.extend(answer),
                    other => return Some(other),
                }
            }
            Ok(Reply::Array(answers))
        }
    })
}

/// Extends one key; `None` where the bug is not one of these.
async fn one(node: &BrokenNode, entry: &ExtendEntry) -> Option<Answer> {
    let key = &*entry.key;
    let held = living(entry.token.as_bytes(), entry.ttl.as_duration());
    let found = node.look(key).await;
    let mine = node.holds(key, entry.token).await;
    let left = node.left(key).await;
    let put = match node.bug {
        Bug::StopsExtendingAtAFailure => None,
        Bug::ExtendsNothing if mine => Some(found),
        Bug::ExtendRevives if found == Entry::Missing => Some(held),
        Bug::ExtendShortens if mine => Some(held),
        Bug::ExtendAddsUp if mine => {
            let longer = left.unwrap_or_default() + entry.ttl.as_duration();
            Some(living(entry.token.as_bytes(), longer))
        }
        Bug::ChecksAndThenExtends if mine => {
            node.pause_for_a_while().await;
            let value = node.value(key).await;
            value.map(|value| living(&value, entry.ttl.as_duration()))
        }
        Bug::ExtendPersists if mine => Some(Entry::forever(entry.token.as_bytes())),
        Bug::ExtendLeavesForEverAlone if mine && left.is_none() => Some(found),
        Bug::ExtendRoundsToSeconds if mine => {
            let seconds = std::time::Duration::from_secs(entry.ttl.as_duration().as_secs());
            Some(living(entry.token.as_bytes(), seconds))
        }
        Bug::ExtendsTheKeyOfAnother => match &found {
            Entry::Value { value, .. } => Some(living(value, entry.ttl.as_duration())),
            _ => None,
        },
        Bug::ExtendsAnotherType if found == Entry::OtherType => Some(held),
        Bug::ExtendComparesAPrefix => match &found {
            Entry::Value { value, .. } if value.get(..8) == entry.token.as_bytes().get(..8) => {
                Some(held)
            }
            _ => None,
        },
        Bug::ExtendsNothing
        | Bug::ExtendRevives
        | Bug::ExtendShortens
        | Bug::ExtendAddsUp
        | Bug::ChecksAndThenExtends
        | Bug::ExtendPersists
        | Bug::ExtendLeavesForEverAlone
        | Bug::ExtendRoundsToSeconds
        | Bug::ExtendsAnotherType => None,
        _ => return None,
    };
    if let Some(put) = put {
        node.put(key, &put).await;
        return Some(Ok(Reply::Array(vec![Reply::Int(1)])));
    }
    let entries = [entry.clone()].into();
    Some(node.do_well(Operation::Extend { entries }).await)
}
