//! What operations name.

use lock_core::Token;
use lock_core::node::{Command, Operation};

/// The keys of an operation.
pub(crate) fn keys_of(operation: &Operation) -> Vec<&[u8]> {
    match operation {
        Operation::AcquireAll { keys, .. } | Operation::ReleaseAll { keys, .. } => {
            keys.iter().map(|key| &**key).collect()
        }
        Operation::Extend { entries } => entries.iter().map(|entry| &*entry.key).collect(),
        one => vec![one.key()],
    }
}

/// The locks that a command is about, each by its token and its keys. An extension is for many.
pub(crate) fn locks_of(operation: &Operation) -> Vec<(Token, Vec<&[u8]>)> {
    match operation {
        Operation::Acquire { token, .. }
        | Operation::AcquireOrReport { token, .. }
        | Operation::AcquireAll { token, .. }
        | Operation::Release { token, .. }
        | Operation::ReleaseAll { token, .. } => vec![(*token, keys_of(operation))],
        Operation::Extend { entries } => {
            let mut locks = Vec::<(Token, Vec<&[u8]>)>::new();
            for entry in entries.iter() {
                match locks.last_mut().filter(|(token, _)| *token == entry.token) {
                    Some((_, keys)) => keys.push(&entry.key),
                    None => locks.push((entry.token, vec![&entry.key])),
                }
            }
            locks
        }
        _ => Vec::new(),
    }
}

/// Whether the source of its script goes with it.
pub(crate) fn has_source(command: &Command) -> bool {
    let is_plain = matches!(command.operation(), Operation::Acquire { .. });
    !is_plain
        && command
            .args()
            .first()
            .is_some_and(|word| &**word == b"EVAL")
}

/// Whether it sets keys.
pub(crate) fn is_acquire(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Acquire { .. }
            | Operation::AcquireOrReport { .. }
            | Operation::AcquireAll { .. }
    )
}

/// Whether it gives keys back.
pub(crate) fn is_release(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Release { .. } | Operation::ReleaseAll { .. }
    )
}
