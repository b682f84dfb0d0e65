//! The keys and locks that operations name.

use lock_core::node::{Command, Operation};
use lock_core::{Reply, Token};

/// Returns the keys of an operation.
pub(crate) fn keys_of(operation: &Operation) -> Vec<&[u8]> {
    match operation {
        Operation::Acquire { keys, .. }
        | Operation::Exchange { keys, .. }
        | Operation::Release { keys, .. } => keys.as_slice().iter().map(|key| &**key).collect(),
        Operation::Extend { entries } => entries.iter().map(|entry| &*entry.key).collect(),
        one => vec![one.key()],
    }
}

/// Returns the locks that an operation is about, each by its token and its keys. An extension is
/// about many.
pub(crate) fn locks_of(operation: &Operation) -> Vec<(Token, Vec<&[u8]>)> {
    match operation {
        Operation::Acquire { token, .. }
        | Operation::Exchange { new: token, .. }
        | Operation::Release { token, .. } => {
            vec![(*token, keys_of(operation))]
        }
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

/// Returns whether the command carries the source of its script.
pub(crate) fn has_source(command: &Command) -> bool {
    let is_script = command.operation().script_name().is_some();
    is_script && *command.args()[0] == *b"EVAL"
}

/// Returns whether a node has exchanged all keys of a lease.
pub(crate) fn is_exchanged(operation: &Operation, reply: &Reply) -> bool {
    let ours = |codes: &[Reply]| codes.iter().all(|code| *code == Reply::Int(1));
    let is_exchange = matches!(operation, Operation::Exchange { .. });
    is_exchange && matches!(reply, Reply::Array(codes) if ours(codes))
}

/// Returns whether the operation sets keys.
pub(crate) fn is_acquire(operation: &Operation) -> bool {
    matches!(operation, Operation::Acquire { .. })
}

/// Returns whether the operation gives keys back.
pub(crate) fn is_release(operation: &Operation) -> bool {
    matches!(operation, Operation::Release { .. })
}
