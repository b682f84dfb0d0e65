//! What the replies of a server mean.

use std::time::Duration;

use super::KeyVote;
use crate::inspection::LockKey;
use crate::node::{NodeError, Operation, Reply};

/// A node's answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcquireAnswer {
    Granted,
    /// With the holder, if the command asked for him.
    Refused(Option<LockKey>),
}

/// A node's answer about a key that shall hold our token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAnswer {
    /// It did: it is extended or released.
    Ours,
    /// There is no key.
    Missing,
    /// It holds something else.
    Foreign,
}

impl AcquireAnswer {
    pub(crate) fn read(operation: &Operation, reply: Reply) -> Result<Self, NodeError> {
        match &reply {
            Reply::Bytes(status) if status == b"OK" => Ok(Self::Granted),
            Reply::Int(1) => Ok(Self::Granted),
            Reply::Nil => Ok(Self::Refused(None)),
            _ => holder(operation, &reply).map(|holder| Self::Refused(Some(holder))),
        }
    }
}

/// Reads the reply to an inspection.
pub(crate) fn inspected(
    operation: &Operation,
    reply: &Reply,
) -> Result<Option<LockKey>, NodeError> {
    match reply {
        Reply::Int(0) => Ok(None),
        _ => holder(operation, reply).map(Some),
    }
}

/// Reads the reply to a scan: the keys, and where to go on if that is not the end.
pub(crate) fn scanned(
    operation: &Operation,
    reply: Reply,
) -> Result<(Vec<Vec<u8>>, Option<u64>), NodeError> {
    let unexpected = NodeError::unexpected_reply(operation, &reply);
    let read = || {
        let Reply::Array(parts) = reply else {
            return None;
        };
        let [Reply::Bytes(cursor), Reply::Array(keys)] = <[_; 2]>::try_from(parts).ok()? else {
            return None;
        };
        let cursor: u64 = std::str::from_utf8(&cursor).ok()?.parse().ok()?;
        let keys = keys.into_iter().map(|key| match key {
            Reply::Bytes(key) => Some(key),
            _ => None,
        });
        Some((
            keys.collect::<Option<_>>()?,
            (cursor != 0).then_some(cursor),
        ))
    };
    read().ok_or(unexpected)
}

/// Reads who holds a lock, as a node told.
fn holder(operation: &Operation, reply: &Reply) -> Result<LockKey, NodeError> {
    if let Reply::Array(items) = reply
        && let [token @ (Reply::Bytes(_) | Reply::Nil), Reply::Int(pttl)] = &items[..]
    {
        let token = match token {
            Reply::Bytes(token) => Some(token.clone()),
            // The key is of another type.
            _ => None,
        };
        let ttl = u64::try_from(*pttl).ok().map(Duration::from_millis);
        return Ok(LockKey { token, ttl });
    }
    Err(NodeError::unexpected_reply(operation, reply))
}

impl KeyAnswer {
    /// Reads the reply to a release or an extension of one lock. Of several keys, the lock has to
    /// have all: the answer is the worst one.
    pub(crate) fn read(operation: &Operation, reply: &Reply) -> Result<Self, NodeError> {
        let answer = match reply {
            Reply::Array(_) => {
                let answers = Self::read_each(operation, reply)?;
                let worse = |one: KeyVote, other: KeyVote| Some(one?.worse(other?));
                answers.into_iter().reduce(worse).flatten()
            }
            _ => Self::of(reply),
        };
        answer.ok_or_else(|| NodeError::unexpected_reply(operation, reply))
    }

    pub(crate) fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Foreign, _) | (_, Self::Foreign) => Self::Foreign,
            (Self::Missing, _) | (_, Self::Missing) => Self::Missing,
            (Self::Ours, Self::Ours) => Self::Ours,
        }
    }

    /// Reads the reply about each key of an operation, of which some may be unknown.
    pub(crate) fn read_each(
        operation: &Operation,
        reply: &Reply,
    ) -> Result<Vec<KeyVote>, NodeError> {
        let unexpected = || NodeError::unexpected_reply(operation, reply);
        match reply {
            Reply::Array(items) if items.len() == operation.count() => {
                let answers = items.iter().map(|item| match item {
                    Reply::Nil => Ok(None),
                    item => Self::of(item).map(Some).ok_or_else(unexpected),
                });
                answers.collect()
            }
            _ => Err(unexpected()),
        }
    }

    fn of(code: &Reply) -> Option<Self> {
        match code {
            Reply::Int(1) => Some(Self::Ours),
            Reply::Int(0) => Some(Self::Missing),
            Reply::Int(-1) => Some(Self::Foreign),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::{ExtendEntry, Keys, NodeErrorKind, Token};
    use crate::ttl::Ttl;

    fn operation() -> Operation {
        Keys::One(Arc::from(*b"k")).acquire(Token::from_random([0; 16]), Ttl::MIN, true)
    }

    fn refused(token: Option<&[u8]>, ttl: Option<u64>) -> AcquireAnswer {
        let token = token.map(<[u8]>::to_vec);
        let ttl = ttl.map(Duration::from_millis);
        AcquireAnswer::Refused(Some(LockKey { token, ttl }))
    }

    #[test]
    fn an_acquire_is_granted_refused_or_refused_with_the_holder() {
        let bytes = |bytes: &[u8]| Reply::Bytes(bytes.to_vec());
        let table = [
            (Reply::ok(), AcquireAnswer::Granted),
            (Reply::Int(1), AcquireAnswer::Granted),
            (Reply::Nil, AcquireAnswer::Refused(None)),
            (
                Reply::Array(vec![bytes(b"\xff"), Reply::Int(9)]),
                refused(Some(b"\xff"), Some(9)),
            ),
            (
                Reply::Array(vec![Reply::Nil, Reply::Int(-1)]),
                refused(None, None),
            ),
        ];
        for (reply, answer) in table {
            assert_eq!(AcquireAnswer::read(&operation(), reply).unwrap(), answer);
        }
    }

    #[test]
    fn a_reply_that_makes_no_sense_is_an_error_and_no_vote() {
        let odd = [
            Reply::Int(0),
            Reply::Int(2),
            Reply::Bytes(b"QUEUED".to_vec()),
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Int(1), Reply::Int(1)]),
        ];
        for reply in odd {
            let error = AcquireAnswer::read(&operation(), reply).unwrap_err();
            assert_eq!(error.kind(), NodeErrorKind::UnexpectedReply);
        }
        for reply in [Reply::Nil, Reply::Int(2), Reply::Array(vec![Reply::Nil])] {
            let error = KeyAnswer::read(&operation(), &reply).unwrap_err();
            assert_eq!(error.kind(), NodeErrorKind::UnexpectedReply);
        }
    }

    #[test]
    fn a_part_of_a_scan_says_where_to_go_on() {
        let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        let reply = |cursor, keys| Reply::Array(vec![cursor, keys]);
        let read = |reply| scanned(&operation(), reply).ok();
        let keys = || Reply::Array(vec![bytes("a"), bytes("b")]);
        let both = vec![b"a".to_vec(), b"b".to_vec()];
        assert_eq!(
            read(reply(bytes("7"), keys())),
            Some((both.clone(), Some(7)))
        );
        assert_eq!(read(reply(bytes("0"), keys())), Some((both, None)));
        for odd in [
            keys(),
            Reply::Nil,
            reply(bytes("-1"), keys()),
            reply(bytes("0"), Reply::Nil),
            reply(bytes("0"), Reply::Array(vec![Reply::Nil])),
        ] {
            assert_eq!(read(odd), None);
        }
    }

    #[test]
    fn of_several_keys_some_may_be_unknown() {
        let entry = |key: &[u8]| ExtendEntry {
            key: Arc::from(key),
            token: Token::from_random([0; 16]),
            ttl: Ttl::MIN,
        };
        let operation = Operation::Extend {
            entries: Arc::from([entry(b"a"), entry(b"b")]),
        };
        let read = |items: [Reply; 2]| {
            let reply = Reply::Array(items.into());
            let one = KeyAnswer::read(&operation, &reply).ok();
            (KeyAnswer::read_each(&operation, &reply).ok(), one)
        };
        let (ours, missing) = (KeyAnswer::Ours, KeyAnswer::Missing);
        assert_eq!(
            read([Reply::Int(1), Reply::Int(0)]),
            (Some(vec![Some(ours), Some(missing)]), Some(missing))
        );
        // Of a lock that stands for both, nothing is known then.
        assert_eq!(
            read([Reply::Int(1), Reply::Nil]),
            (Some(vec![Some(ours), None]), None)
        );
        assert_eq!(read([Reply::Int(1), Reply::Int(2)]), (None, None));
    }

    #[test]
    fn a_key_is_ours_missing_or_foreign() {
        let read = |reply| KeyAnswer::read(&operation(), &reply).unwrap();
        assert_eq!(read(Reply::Int(1)), KeyAnswer::Ours);
        assert_eq!(read(Reply::Int(0)), KeyAnswer::Missing);
        let one = Reply::Array(vec![Reply::Int(-1)]);
        assert_eq!(read(one), KeyAnswer::Foreign);
    }
}
