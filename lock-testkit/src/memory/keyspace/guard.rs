//! The key of the restart guard, as the scripts `guard` and `bootstrap` keep it.

use std::time::Duration;

use lock_core::node::Guard;
use lock_core::{NodeError, Ttl};

use super::{Keyspace, Value};

/// What the key says.
struct Mark {
    run: String,
    /// When the quarantine ends, in ms by the server's clock.
    ends: u64,
    /// The longest quarantine that was asked for, in ms.
    longest: u64,
}

impl Mark {
    fn parse(value: &Value) -> Option<Self> {
        let Value::Bytes(bytes) = value else {
            return None;
        };
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let mark = Self {
            run: words.next()?.to_owned(),
            ends: words.next()?.parse().ok()?,
            longest: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(mark)
    }

    fn value(&self) -> Value {
        let Self { run, ends, longest } = self;
        Value::Bytes(format!("{run} {ends} {longest}").into_bytes())
    }
}

impl Keyspace {
    /// Refuses while the server may have forgotten a lock.
    pub(super) fn guard(&mut self, guard: &Guard, at: Duration) -> Result<(), NodeError> {
        if mutant!(NoGuard) {
            return Ok(());
        }
        let now = self.time(at) / 1000;
        let found = self.live(&guard.key, at).map(|entry| entry.value.clone());
        let known = match &found {
            None => None,
            Some(value) => Some(Mark::parse(value).ok_or_else(|| {
                NodeError::server("WRONGTYPE the key of the restart guard holds something else")
            })?),
        };
        let quarantine = guard.quarantine.as_millis();
        let asked = known.as_ref().map_or(quarantine, |known| known.longest);
        let longest = quarantine.max(asked);
        let latest = now.saturating_add(longest);
        let run = self.run_id();
        let ends = match known {
            Some(known) if known.run == run || known.run == "-" => match known.ends {
                0 => 0,
                // It was asked for less than what it may have forgotten.
                ends => ends.saturating_add(longest - asked).min(latest),
            },
            _ => latest,
        };
        let mark = Mark { run, ends, longest }.value();
        if found.as_ref() != Some(&mark) {
            self.insert(&guard.key, mark, None, at);
        }
        match ends.checked_sub(now).filter(|left| *left > 0) {
            Some(left) => Err(NodeError::server(format!(
                "QUARANTINE {left} ms left, since the server may have forgotten locks"
            ))),
            None => Ok(()),
        }
    }

    /// Says that there was no lock to forget.
    pub(super) fn bootstrap(&mut self, key: &[u8], quarantine: Ttl, at: Duration) -> i64 {
        if self.live(key, at).is_some() {
            return 0;
        }
        let (run, ends, longest) = (self.run_id(), 0, quarantine.as_millis());
        let mark = Mark { run, ends, longest }.value();
        self.insert(key, mark, None, at);
        1
    }

    pub(super) fn run_id(&self) -> String {
        format!("{:040x}", self.run)
    }

    /// These keys are from an earlier time of that server, whose runs have gone on.
    pub(crate) fn follow(&mut self, newest: &Self) {
        self.run = newest.run;
    }

    /// The server starts anew, with the keys that it has.
    pub(crate) fn restart(&mut self) {
        self.run += 1;
    }
}
