//! What the replies of a server mean.

use std::time::Duration;

use crate::check::Described;
use crate::fencing::FencingToken;
use crate::inspection::LockKey;
use crate::node::{Fence, NodeError, Operation, Reply, Token};

/// A node's answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcquireAnswer {
    /// With the number of the node's fencing counter, if the command asked for one.
    Granted(Option<FencingToken>),
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
        if let Operation::Acquire {
            token,
            fence: Some(fence),
            ..
        } = operation
        {
            return Self::fenced(operation, &reply, token, fence);
        }
        match &reply {
            Reply::Bytes(status) if status == b"OK" => Ok(Self::Granted(None)),
            Reply::Int(1) => Ok(Self::Granted(None)),
            Reply::Nil => Ok(Self::Refused(None)),
            _ => holder(operation, &reply).map(|holder| Self::Refused(Some(holder))),
        }
    }

    /// The same where a fencing token was asked for.
    fn fenced(
        operation: &Operation,
        reply: &Reply,
        token: &Token,
        fence: &Fence,
    ) -> Result<Self, NodeError> {
        if let Reply::Int(number) = reply {
            let number = u64::try_from(*number).ok().map(FencingToken::new);
            let is_possible =
                |number: &FencingToken| *number > fence.above && *number <= FencingToken::MAX;
            return match number.filter(is_possible) {
                Some(number) => Ok(Self::Granted(Some(number))),
                None => Err(NodeError::unexpected_reply(operation, reply)),
            };
        }
        let holder = holder(operation, reply)?;
        if holder.token.as_deref() == Some(token.as_bytes()) {
            // Neither granted nor refused: the key is there, and has to be released.
            return Err(NodeError::connection(
                "not counted: the key was set, but its fencing counter is gone",
            ));
        }
        Ok(Self::Refused(Some(holder)))
    }

    pub(crate) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

/// Reads the reply to the confirmation of a fencing token.
pub(crate) fn confirmed(operation: &Operation, reply: &Reply) -> Result<(), NodeError> {
    match reply {
        Reply::Int(1) => Ok(()),
        Reply::Int(0) => Err(NodeError::connection(
            "not confirmed: the key or its fencing counter is gone",
        )),
        _ => Err(NodeError::unexpected_reply(operation, reply)),
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

/// Reads what a server told of itself.
pub(crate) fn described(operation: &Operation, reply: &Reply) -> Result<Described, NodeError> {
    let unexpected = || NodeError::unexpected_reply(operation, reply);
    let (time, told) = match reply {
        Reply::Array(parts) => parts.split_at_checked(2).ok_or_else(unexpected)?,
        _ => return Err(unexpected()),
    };
    let text = |reply: &Reply| match reply {
        Reply::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let number = |reply| text(reply)?.parse::<u64>().ok();
    let [secs, micros] = [&time[0], &time[1]].map(number);
    let info = match told {
        [Reply::Bytes(lines)] => {
            let lines = String::from_utf8_lossy(lines);
            let pairs = lines.lines().filter_map(|line| line.split_once(':'));
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            Ok(pairs.map(owned).collect())
        }
        [Reply::Nil, why] => Err(text(why).ok_or_else(unexpected)?),
        _ => return Err(unexpected()),
    };
    let micros = Duration::from_micros(micros.ok_or_else(unexpected)?);
    let time = Duration::from_secs(secs.ok_or_else(unexpected)?).saturating_add(micros);
    Ok(Described { time, info })
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
                let answers = Self::read_all(operation, reply)?;
                answers.into_iter().reduce(Self::worse)
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

    /// Reads the reply about each key of an operation.
    pub(crate) fn read_all(operation: &Operation, reply: &Reply) -> Result<Vec<Self>, NodeError> {
        let unexpected = || NodeError::unexpected_reply(operation, reply);
        match reply {
            Reply::Array(items) if items.len() == operation.count() => {
                let answers = items
                    .iter()
                    .map(|item| Self::of(item).ok_or_else(unexpected));
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
    use crate::node::{Keys, NodeErrorKind, Token};
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
            (Reply::ok(), AcquireAnswer::Granted(None)),
            (Reply::Int(1), AcquireAnswer::Granted(None)),
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
    fn a_key_is_ours_missing_or_foreign() {
        let read = |reply| KeyAnswer::read(&operation(), &reply).unwrap();
        assert_eq!(read(Reply::Int(1)), KeyAnswer::Ours);
        assert_eq!(read(Reply::Int(0)), KeyAnswer::Missing);
        let one = Reply::Array(vec![Reply::Int(-1)]);
        assert_eq!(read(one), KeyAnswer::Foreign);
    }
}

#[cfg(test)]
mod foreign {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::node::{Keys, Token, any_reply};
    use crate::ttl::Ttl;

    proptest! {
        /// A reply that makes no sense is an error, and above all no vote.
        #[test]
        fn only_what_a_server_says_to_a_grant_is_one(reply in any_reply()) {
            let key = || Keys::One(Arc::from(*b"k"));
            let acquire = key().acquire(Token::from_random([0; 16]), Ttl::MIN, true);
            let is_granted = matches!(
                AcquireAnswer::read(&acquire, reply.clone()),
                Ok(AcquireAnswer::Granted)
            );
            prop_assert_eq!(is_granted, reply == Reply::ok() || reply == Reply::Int(1));

            let release = key().release(Token::from_random([0; 16]), Duration::ZERO);
            let is_ours = matches!(KeyAnswer::read(&release, &reply), Ok(KeyAnswer::Ours));
            let says_so = reply == Reply::Int(1) || reply == Reply::Array(vec![Reply::Int(1)]);
            prop_assert_eq!(is_ours, says_so);

            if let Ok(Some(holder)) = inspected(&acquire, &reply) {
                prop_assert!(matches!(&reply, Reply::Array(items) if items.len() == 2), "{:?}", holder);
            }
            if let Ok((keys, _)) = scanned(&acquire, reply.clone()) {
                prop_assert!(matches!(&reply, Reply::Array(items) if items.len() == 2), "{:?}", keys);
            }
        }
    }
}
