//! The commands that the algorithm sends to a node.

use std::any::Any;
use std::borrow::Cow;
use std::slice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Operation;

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
    /// What a client made of it first.
    encoded: OnceLock<Arc<dyn Any + Send + Sync>>,
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
                encoded: OnceLock::new(),
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
        let kept = self.shared.encoded.get().cloned();
        if let Some(Ok(kept)) = kept.map(Arc::downcast) {
            return kept;
        }
        let made = Arc::new(encode(self));
        // If another one is kept already, this one serves the caller alone.
        self.shared.encoded.set(Arc::<T>::clone(&made)).ok();
        made
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
        let operation = self.operation();
        let mut args = match operation {
            Operation::Acquire {
                keys, fence, guard, ..
            } => {
                let counters = fence.as_ref().map_or(&[][..], |fence| &fence.counters);
                let guard = guard.as_ref().map(|guard| &guard.key);
                self.name_and_keys(keys.as_slice().iter().chain(counters).chain(guard))
            }
            Operation::Confirm { keys, fence, .. } => {
                self.name_and_keys(keys.as_slice().iter().chain(&*fence.counters))
            }
            Operation::Exchange { keys, .. } | Operation::Release { keys, .. } => {
                self.name_and_keys(keys.as_slice())
            }
            Operation::Extend { entries } => self.name_and_keys(entries.iter().map(|it| &it.key)),
            Operation::Bootstrap { key, .. }
            | Operation::Inspect { key }
            | Operation::Remove { key } => self.name_and_keys(slice::from_ref(key)),
            Operation::Scan { prefix, cursor } => return scan(prefix, *cursor),
            Operation::Describe => self.name_and_keys([]),
        };
        match operation {
            Operation::Acquire {
                token,
                ttl,
                fence,
                guard,
                ..
            } => {
                args.push(word(token.as_bytes()));
                if operation.script().is_none() {
                    args.extend([word("NX"), word("PX")]);
                }
                args.push(number(ttl.as_millis()));
                if let Some(fence) = fence {
                    args.push(number(fence.above.get().saturating_add(1)));
                    args.push(number(fence.retention.as_millis()));
                }
                if let Some(guard) = guard {
                    args.push(number(guard.quarantine.as_millis()));
                }
            }
            Operation::Bootstrap { quarantine, .. } => args.push(number(quarantine.as_millis())),
            Operation::Confirm {
                token,
                fence,
                granted,
                raised,
                ..
            } => {
                args.push(word(token.as_bytes()));
                args.push(number(granted.get()));
                args.push(number(raised.get()));
                args.push(number(fence.retention.as_millis()));
            }
            Operation::Extend { entries } => {
                for entry in entries.iter() {
                    args.push(word(entry.token.as_bytes()));
                    args.push(number(entry.ttl.as_millis()));
                }
            }
            Operation::Exchange { old, new, ttl, .. } => {
                args.push(word(new.as_bytes()));
                args.push(number(ttl.as_millis()));
                args.extend(old.iter().map(|token| word(token.as_bytes())));
            }
            Operation::Release { token, keep, .. } => {
                args.push(word(token.as_bytes()));
                if !keep.is_zero() {
                    args.push(number(whole_millis(*keep)));
                }
            }
            Operation::Inspect { .. }
            | Operation::Remove { .. }
            | Operation::Scan { .. }
            | Operation::Describe => {}
        }
        args
    }

    /// Returns the words that come first: those of the script, or `SET`, and the keys.
    fn name_and_keys<'a>(
        &'a self,
        keys: impl IntoIterator<Item = &'a Arc<[u8]>, IntoIter: Clone>,
    ) -> Vec<Cow<'a, [u8]>> {
        let keys = keys.into_iter();
        let count = keys.clone().count();
        let mut args = Vec::with_capacity(3 + 3 * count);
        match self.operation().script() {
            None => args.push(word("SET")),
            Some(script) => {
                args.extend(match self.shared.with_source {
                    true => [word("EVAL"), word(script.source)],
                    false => [word("EVALSHA"), word(script.digest())],
                });
                args.push(match count {
                    1 => word("1"),
                    count => number(count as u64),
                });
            }
        }
        args.extend(keys.map(word));
        args
    }
}

/// Asks for few keys at a time: a server may answer with more, and a client may not read an answer of any
/// length.
fn scan<'a>(prefix: &[u8], cursor: u64) -> Vec<Cow<'a, [u8]>> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for byte in prefix {
        if b"*?[]\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    vec![
        word("SCAN"),
        number(cursor),
        word("MATCH"),
        Cow::Owned(pattern),
        word("COUNT"),
        word("20"),
        word("TYPE"),
        word("string"),
    ]
}

fn word<T: AsRef<[u8]> + ?Sized>(word: &T) -> Cow<'_, [u8]> {
    Cow::Borrowed(word.as_ref())
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
    use crate::node::{ExtendEntry, Keys, Token};
    use crate::scripts;
    use crate::ttl::Ttl;

    fn words(command: &Command) -> Vec<String> {
        let text = |arg: &Cow<'_, [u8]>| String::from_utf8_lossy(arg).into_owned();
        command.args().iter().map(text).collect()
    }

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    fn key() -> Keys {
        Keys::One(Arc::from(*b"k"))
    }

    const TOKEN: &str = "00000000-0000-4000-8000-000000000000";

    #[test]
    fn an_acquire_is_one_atomic_set() {
        let command = Command::from(key().acquire(Token::from_random([0; 16]), ttl(1500), false));
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
    fn an_exchange_names_the_new_token_first_and_the_old_ones_last() {
        let [old, new] = [1, 2].map(|byte| Token::from_random([byte; 16]));
        let words = words(&Command::from(key().exchange(
            new,
            [old, old].into(),
            ttl(7),
        )));
        assert_eq!(words[1], scripts::EXCHANGE.digest());
        let tail = ["1", "k", new.as_str(), "7", old.as_str(), old.as_str()];
        assert_eq!(words[2..], tail.map(String::from));
    }

    #[test]
    fn a_release_keeps_a_key_for_whole_milliseconds_rounded_up() {
        let keep = |keep| {
            let command = Command::from(key().release(Token::from_random([0; 16]), keep));
            words(&command).last().cloned()
        };
        assert_eq!(keep(Duration::ZERO).as_deref(), Some(TOKEN));
        assert_eq!(keep(Duration::from_nanos(1)).as_deref(), Some("1"));
        assert_eq!(keep(Duration::from_millis(5)).as_deref(), Some("5"));
    }

    #[test]
    fn a_scan_takes_its_prefix_byte_for_byte() {
        let command = Command::from(Operation::Scan {
            prefix: Arc::from(*b"a*[b]?\\"),
            cursor: u64::MAX,
        });
        let pattern = r"a\*\[b\]\?\\*";
        let expected = ["SCAN", "18446744073709551615", "MATCH", pattern];
        assert_eq!(words(&command)[..4], expected.map(String::from));
        assert!(!command.is_digest());
    }

    #[test]
    fn a_command_is_encoded_once_for_all_clients_that_want_one_type() {
        let key = Arc::from(*b"k");
        let command = Command::from(Operation::Inspect { key });
        let clone = command.clone();
        assert_eq!(*command.encoded(|_| 1), 1);
        assert_eq!(*clone.encoded(|_| 2), 1);
        assert_eq!(*command.encoded(|_| "other"), "other");
        assert_eq!(*command.encoded(|_| "another"), "another");
        assert_eq!(*command.encoded(|_| 3), 1);
    }
}
