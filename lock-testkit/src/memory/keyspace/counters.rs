//! The counters of fencing tokens, as the scripts `acquire_fenced` and `confirm` keep them.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Fence, Keys};
use lock_core::{FencingToken, NodeError, Reply, Token, Ttl};

use super::{Keyspace, Value};

/// A counter: its number, and the token that raised it.
struct Counter {
    number: u64,
    by: Vec<u8>,
}

impl Counter {
    fn parse(value: &Value) -> Option<Self> {
        let Value::Bytes(bytes) = value else {
            return None;
        };
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
        let (number, rest) = bytes.split_at(digits.count());
        let by = rest.strip_prefix(b" ").filter(|by| !by.is_empty())?;
        let number = std::str::from_utf8(number).ok().filter(|it| !it.is_empty());
        Some(Self {
            // One that is too long for the type is too large for a script too.
            number: number?.parse().unwrap_or(u64::MAX),
            by: by.to_vec(),
        })
    }

    fn value(number: u64, by: &Token) -> Value {
        Value::Bytes([format!("{number} ").as_bytes(), by.as_bytes()].concat())
    }
}

impl Keyspace {
    /// Acquires a lock with a fencing token.
    pub(super) fn acquire_fenced(
        &mut self,
        keys: &Keys,
        token: &Token,
        ttl: Ttl,
        fence: &Fence,
        at: Duration,
    ) -> Result<Reply, NodeError> {
        let mut own = Vec::new();
        for key in keys.as_slice() {
            match self.live(key, at) {
                Some(entry) if entry.value.is(token) => own.push(entry.told(at)),
                Some(entry) => return Ok(entry.told(at)),
                None => {}
            }
        }
        let mut number = fence.above.get().saturating_add(1);
        let mut is_raised = own.len() == keys.as_slice().len();
        let time = self.time(at);
        for key in fence.counters.iter() {
            let Some(entry) = self.live(key, at) else {
                number = number.max(time);
                is_raised = false;
                continue;
            };
            let counter = Counter::parse(&entry.value).ok_or_else(|| {
                NodeError::server("WRONGTYPE the key of the fencing counter holds something else")
            })?;
            number = number.max(counter.number.saturating_add(1));
            is_raised &= counter.by == token.as_bytes();
        }
        is_raised |= mutant!(GrantedWithoutIdentity) && own.len() == keys.as_slice().len();
        if is_raised {
            return Ok(answer(number - 1));
        }
        if let Some(told) = own.into_iter().next() {
            return Ok(told);
        }
        if number > FencingToken::MAX.get() {
            return Err(NodeError::server("ERR the fencing counter is exhausted"));
        }
        self.raise(fence, number, token, at);
        for key in keys.as_slice() {
            self.set_token(key, token, at + ttl.as_duration(), at);
        }
        Ok(answer(number))
    }

    /// Raises the counters of a lock that is held from what was granted to a larger number.
    pub(super) fn confirm(
        &mut self,
        keys: &Keys,
        token: &Token,
        fence: &Fence,
        [granted, raised]: [FencingToken; 2],
        at: Duration,
    ) -> i64 {
        let is_held = |key: &Arc<[u8]>| {
            let entry = self.live(key, at);
            entry.is_some_and(|entry| entry.value.is(token))
        };
        let is_held = keys.as_slice().iter().all(is_held) || mutant!(ConfirmedWithoutLock);
        let expected = Counter::value(granted.get(), token);
        let is_ours = |key: &Arc<[u8]>| {
            let entry = self.live(key, at);
            entry.is_some_and(|entry| entry.value == expected)
        };
        let is_ours = fence.counters.iter().all(is_ours) || mutant!(ConfirmedWithoutLock);
        if !is_held || !is_ours {
            return 0;
        }
        self.raise(fence, raised.get(), token, at);
        1
    }

    fn raise(&mut self, fence: &Fence, number: u64, token: &Token, at: Duration) {
        let expires_at = at + fence.retention.as_duration();
        for key in fence.counters.iter() {
            let value = Counter::value(number, token);
            self.insert(key, value, Some(expires_at), at);
        }
    }
}

fn answer(number: u64) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
