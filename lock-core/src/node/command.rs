//! The commands that the algorithm sends to a node.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::Operation;
use super::encoded::Encoded;
use crate::scripts::{self, Script};

/// One command for one node: an [`Operation`], and whether its script goes by digest or by source.
///
/// It has two faces. A network backend sends [`args`](Self::args), a complete Redis command as plain
/// words. An in-process node matches on [`operation`](Self::operation) and never looks at a script.
/// A command owns everything in it, because a call outlives a caller that gave up on it. Cloning it
/// is cheap.
#[derive(Clone, Debug)]
pub struct Command {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    operation: Operation,
    with_source: bool,
    encoded: Encoded,
}

impl From<Operation> for Command {
    fn from(operation: Operation) -> Self {
        Self::new(operation, false)
    }
}

impl Command {
    fn new(operation: Operation, with_source: bool) -> Self {
        Self {
            shared: Arc::new(Shared {
                operation,
                with_source,
                encoded: Encoded::default(),
            }),
        }
    }

    /// What the command asks for.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.shared.operation
    }

    /// Returns the same command with the source of its script (`EVAL`) instead of its digest
    /// (`EVALSHA`), for a server that answered `NOSCRIPT`. The core does this by itself; a backend
    /// needs it only for commands that it makes itself, such as the releases of rule N12.
    #[must_use]
    pub fn with_source(&self) -> Self {
        Self::new(self.operation().clone(), true)
    }

    /// Returns the client's own encoding of the command, which is made once and kept for all clones.
    ///
    /// A lock sends clones of one command to all its nodes, so the command is encoded once for all
    /// of them. Only one type is kept: if another backend was first, with a type of its own,
    /// `encode` runs each time.
    pub fn encoded<T: Any + Send + Sync>(&self, encode: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.shared.encoded.get_or_make(|| encode(self))
    }

    /// Returns whether [`args`](Self::args) is an `EVALSHA`, which a server may answer with `NOSCRIPT`.
    pub(crate) fn is_digest(&self) -> bool {
        !self.shared.with_source && self.operation().script().is_some()
    }

    /// Returns the words of the command, its name first, as a client sends them.
    ///
    /// A script's keys are always passed as `KEYS`, so that clusters can route them, and servers that
    /// refuse undeclared keys can check them.
    #[must_use]
    pub fn args(&self) -> Vec<Cow<'_, [u8]>> {
        match self.operation() {
            Operation::Acquire { key, token, ttl } => vec![
                word("SET"),
                Cow::Borrowed(key),
                Cow::Borrowed(token.as_bytes()),
                word("NX"),
                word("PX"),
                number(ttl.as_millis()),
            ],
            Operation::AcquireOrReport { key, token, ttl } => {
                let mut args = self.script_args(&scripts::ACQUIRE, 1);
                args.push(Cow::Borrowed(key));
                args.push(Cow::Borrowed(token.as_bytes()));
                args.push(number(ttl.as_millis()));
                args
            }
            Operation::Extend { entries } => {
                let mut args = self.script_args(&scripts::EXTEND, entries.len());
                args.extend(entries.iter().map(|entry| Cow::Borrowed(&*entry.key)));
                for entry in entries.iter() {
                    args.push(Cow::Borrowed(entry.token.as_bytes()));
                    args.push(number(entry.ttl.as_millis()));
                }
                args
            }
            Operation::Release { key, token, keep } => {
                let mut args = self.script_args(&scripts::RELEASE, 1);
                args.push(Cow::Borrowed(key));
                args.push(Cow::Borrowed(token.as_bytes()));
                if !keep.is_zero() {
                    args.push(number(whole_millis(*keep)));
                }
                args
            }
            Operation::AcquireAll { keys, token, ttl } => {
                let mut args = self.script_args(&scripts::ACQUIRE_ALL, keys.len());
                args.extend(keys.iter().map(|key| Cow::Borrowed(&**key)));
                args.push(Cow::Borrowed(token.as_bytes()));
                args.push(number(ttl.as_millis()));
                args
            }
            Operation::ReleaseAll { keys, token, keep } => {
                let mut args = self.script_args(&scripts::RELEASE_ALL, keys.len());
                args.extend(keys.iter().map(|key| Cow::Borrowed(&**key)));
                args.push(Cow::Borrowed(token.as_bytes()));
                if !keep.is_zero() {
                    args.push(number(whole_millis(*keep)));
                }
                args
            }
            Operation::Inspect { key } => {
                let mut args = self.script_args(&scripts::INSPECT, 1);
                args.push(Cow::Borrowed(key));
                args
            }
            Operation::Remove { key } => {
                let mut args = self.script_args(&scripts::REMOVE, 1);
                args.push(Cow::Borrowed(key));
                args
            }
        }
    }

    fn script_args(&self, script: &'static Script, keys: usize) -> Vec<Cow<'_, [u8]>> {
        let mut args = Vec::with_capacity(3 + 3 * keys);
        if self.shared.with_source {
            args.push(word("EVAL"));
            args.push(word(script.source()));
        } else {
            args.push(word("EVALSHA"));
            args.push(word(script.digest()));
        }
        args.push(match keys {
            1 => word("1"),
            _ => number(keys as u64),
        });
        args
    }
}

fn word(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

fn number<'a>(value: u64) -> Cow<'a, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

/// Rounds up, since a key that is to be kept must not expire early.
fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{ExtendEntry, Token};
    use crate::ttl::Ttl;

    fn words(command: &Command) -> Vec<String> {
        let text = |arg: &Cow<'_, [u8]>| String::from_utf8_lossy(arg).into_owned();
        command.args().iter().map(text).collect()
    }

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    const TOKEN: &str = "00000000-0000-4000-8000-000000000000";

    #[test]
    fn an_acquire_is_one_atomic_set() {
        let command = Command::from(Operation::Acquire {
            key: Arc::from(*b"k"),
            token: Token::from_random([0; 16]),
            ttl: ttl(1500),
        });
        assert_eq!(
            words(&command),
            ["SET", "k", TOKEN, "NX", "PX", "1500"].map(String::from)
        );
        assert!(!command.is_digest());
    }

    #[test]
    fn a_script_goes_by_digest_first_and_by_source_on_demand_with_its_keys_as_keys() {
        let command = Command::from(Operation::Extend {
            entries: Arc::from([b"a", b"b"].map(|key| ExtendEntry {
                key: Arc::from(*key),
                token: Token::from_random([0; 16]),
                ttl: ttl(7),
            })),
        });
        let digest = scripts::EXTEND.digest();
        let tail = ["2", "a", "b", TOKEN, "7", TOKEN, "7"];
        assert_eq!(words(&command)[..2], ["EVALSHA", digest].map(String::from));
        assert_eq!(words(&command)[2..], tail.map(String::from));
        assert!(command.is_digest());

        let source = command.with_source();
        assert_eq!(words(&source)[0], "EVAL");
        assert_eq!(words(&source)[2..], tail.map(String::from));
        assert!(!source.is_digest());
    }

    #[test]
    fn a_release_keeps_a_key_for_whole_milliseconds_rounded_up() {
        let keep = |keep| {
            let command = Command::from(Operation::Release {
                key: Arc::from(*b"k"),
                token: Token::from_random([0; 16]),
                keep,
            });
            words(&command).last().cloned()
        };
        assert_eq!(keep(Duration::ZERO).as_deref(), Some(TOKEN));
        assert_eq!(keep(Duration::from_nanos(1)).as_deref(), Some("1"));
        assert_eq!(keep(Duration::from_millis(5)).as_deref(), Some("5"));
    }
}
