//! Bugs of keys.

use std::sync::Arc;

use lock_core::node::{ExtendEntry, Keys, Operation};

use crate::mutants::Bug;

/// The operation with the keys that the bug makes of its own.
pub(crate) fn altered(bug: Bug, operation: &Operation) -> Operation {
    let altered = |key: &Arc<[u8]>| Arc::from(altered_key(bug, key));
    let mut operation = operation.clone();
    match &mut operation {
        Operation::Acquire { keys, .. }
        | Operation::Exchange { keys, .. }
        | Operation::Release { keys, .. } => {
            *keys = match &*keys {
                Keys::One(key) => Keys::One(altered(key)),
                Keys::Several(keys) => Keys::Several(keys.iter().map(altered).collect()),
            };
        }
        Operation::Extend { entries } => {
            let entry = |entry: &ExtendEntry| ExtendEntry {
                key: altered(&entry.key),
                ..entry.clone()
            };
            *entries = entries.iter().map(entry).collect();
        }
        Operation::Inspect { key } | Operation::Remove { key } => *key = altered(key),
        _ => {}
    }
    operation
}

fn altered_key(bug: Bug, key: &[u8]) -> Vec<u8> {
    let text = || String::from_utf8_lossy(key);
    match bug {
        Bug::KeysAreLossyText => text().into_owned().into_bytes(),
        Bug::KeysAreLatin1 => key
            .iter()
            .map(|byte| char::from(*byte))
            .collect::<String>()
            .into(),
        Bug::KeysAreNormalized => match std::str::from_utf8(key) {
            Ok(key) => key.replace("e\u{301}", "\u{e9}").into(),
            Err(_) => key.to_vec(),
        },
        Bug::KeysEndAtNul => key.split(|byte| *byte == 0).next().unwrap().to_vec(),
        Bug::KeysHaveNoCase => key.to_ascii_lowercase(),
        Bug::KeysAreTrimmed => key.trim_ascii().to_vec(),
        Bug::KeysAreCut => key[..key.len().min(32 * 1024)].to_vec(),
        Bug::KeysAreUnquoted => key.strip_prefix(b"\"").unwrap_or(key).to_vec(),
        Bug::KeysAreHashTags => match (key.first(), key.iter().position(|byte| *byte == b'}')) {
            (Some(b'{'), Some(end)) if end > 1 => key[1..end].to_vec(),
            _ => key.to_vec(),
        },
        Bug::KeysAreNumbers => match std::str::from_utf8(key).map(str::parse::<f64>) {
            Ok(Ok(number)) => number.to_string().into(),
            _ => key.to_vec(),
        },
        Bug::KeysGetAPrefix => [b"lock:", key].concat(),
        _ => key.to_vec(),
    }
}
