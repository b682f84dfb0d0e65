//! Looks at keys, with allowance for a slow machine.

use std::time::Duration;

use lock_core::{Command, Reply, Token};

use super::cx::{NodeCx, acquire_or_report};
use super::harness::Entry;
use super::show::{all_shown, reply_shown};
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

/// By how much the time that has passed may differ between the server's clock and that of the check.
const SLACK: Duration = Duration::from_millis(10);

impl NodeCx {
    /// Returns the earliest moment from which a lifetime counts: read it before the command is sent.
    pub(crate) fn now(&self) -> Duration {
        self.runtime().now()
    }

    /// Fails unless the key has held this since `since` at the earliest: its whole lifetime is left,
    /// less the time that may have passed.
    pub(crate) async fn expect_aged(
        &self,
        key: impl AsRef<[u8]>,
        expected: &Entry,
        since: Duration,
    ) -> CheckResult {
        let entry = self.bed().look(key.as_ref()).await?;
        let passed = self.now().saturating_sub(since) + SLACK;
        let alike = match (expected, &entry) {
            (Entry::Value { ttl: Some(ttl), .. }, Entry::Missing) => *ttl <= passed,
            (
                Entry::Value {
                    value,
                    ttl: Some(ttl),
                },
                Entry::Value {
                    value: found,
                    ttl: Some(left),
                },
            ) => value == found && left <= ttl && ttl.saturating_sub(passed) <= *left,
            (expected, found) => expected == found,
        };
        if alike {
            return Ok(());
        }
        Err(Failure::new(
            format!(
                "the key to hold {expected}, less at most {} ms",
                passed.as_millis()
            ),
            entry.to_string(),
        ))
    }

    /// Returns what a refused acquire by script reports about the key: its holder and its PTTL.
    pub(crate) async fn told(&self, key: impl AsRef<[u8]>) -> CheckResult<(Reply, i64)> {
        let command = acquire_or_report(key, self.token());
        self.told_by(&command).await
    }

    /// Returns what this command reports about a key.
    pub(crate) async fn told_by(&self, command: &Command) -> CheckResult<(Reply, i64)> {
        let reply = self.reply(command).await?;
        if let Reply::Array(parts) = &reply
            && let [holder, Reply::Int(left)] = &parts[..]
        {
            return Ok((holder.clone(), *left));
        }
        Err(Failure::new(
            "to be told who holds the key, and for how long",
            reply_shown(&reply),
        ))
    }

    /// Fails unless the command reports what the key has held since then.
    pub(crate) async fn expect_told_by(
        &self,
        command: &Command,
        held: &Entry,
        since: Duration,
    ) -> CheckResult {
        let (holder, left) = self.told_by(command).await?;
        let (value, ttl) = match held {
            Entry::Value { value, ttl } => (Reply::Bytes(value.clone()), *ttl),
            _ => (Reply::Nil, None),
        };
        if holder != value {
            let expected = format!("to be told that {} holds the key", reply_shown(&value));
            return Err(Failure::new(expected, reply_shown(&holder)));
        }
        self.expect_left(ttl, left, since)
    }

    /// Fails unless the PTTL is what is left of a lifetime that began then; without a lifetime it is
    /// -1.
    fn expect_left(&self, ttl: Option<Duration>, left: i64, since: Duration) -> CheckResult {
        let Some(ttl) = ttl else {
            return expect_eq("the PTTL of a key that lives for ever", &-1, &left);
        };
        let passed = self.now().saturating_sub(since) + SLACK;
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let (least, most) = (millis(ttl) - millis(passed), millis(ttl));
        let wanted = format!("a PTTL of {least} to {most} ms");
        expect((least..=most).contains(&left), &wanted, left)
    }

    /// Fails unless a refused acquire by script names this holder.
    pub(crate) async fn expect_told(&self, key: impl AsRef<[u8]>, holder: &[u8]) -> CheckResult {
        let (told, _) = self.told(key).await?;
        let expected = Reply::Bytes(holder.to_vec());
        if told == expected {
            return Ok(());
        }
        Err(Failure::new(
            format!("to be told that {} holds the key", reply_shown(&expected)),
            reply_shown(&told),
        ))
    }

    /// Sets the key to this, and returns the instant before.
    pub(crate) async fn prepare(
        &self,
        key: impl AsRef<[u8]>,
        entry: &Entry,
    ) -> CheckResult<Duration> {
        let since = self.now();
        self.bed().put(key.as_ref(), entry).await?;
        Ok(since)
    }

    /// Fails unless the server has exactly these keys.
    pub(crate) async fn expect_keys(&self, expected: &[&[u8]]) -> CheckResult {
        let mut expected: Vec<Vec<u8>> = expected.iter().map(|key| key.to_vec()).collect();
        let mut keys = self.bed().keys().await?;
        expected.sort();
        keys.sort();
        if keys == expected {
            return Ok(());
        }
        Err(Failure::new(
            format!("these keys: {}", all_shown(&expected)),
            all_shown(&keys),
        ))
    }
}

/// Returns a string that lives this long.
pub(crate) fn living(value: impl Into<Vec<u8>>, ttl: Duration) -> Entry {
    Entry::Value {
        value: value.into(),
        ttl: Some(ttl),
    }
}

/// Values that look like the token and are not.
pub(crate) fn lookalikes(token: Token) -> Vec<Vec<u8>> {
    let text = token.as_bytes();
    let mut last_differs = text.to_vec();
    let mut first_differs = text.to_vec();
    if let (Some(last), Some(first)) = (last_differs.last_mut(), first_differs.first_mut()) {
        *last = if *last == b'0' { b'1' } else { b'0' };
        *first = if *first == b'0' { b'1' } else { b'0' };
    }
    vec![
        last_differs,
        first_differs,
        text[..text.len() - 1].to_vec(),
        text[..8].to_vec(),
        Vec::new(),
        [text, b"x"].concat(),
        [text, b"\0"].concat(),
        [b" ", text].concat(),
        text.to_ascii_uppercase(),
    ]
}
