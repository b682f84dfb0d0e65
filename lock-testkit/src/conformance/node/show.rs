//! How replies and entries look in a failure.

use std::fmt;

use lock_core::Reply;

use super::harness::Entry;

/// A reply as a person would write it: `"OK"`, `-1`, `["foreign", -1]`.
pub(crate) fn reply_shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Bytes(bytes) => format!("\"{}\"", bytes[..bytes.len().min(200)].escape_ascii()),
        Reply::Array(parts) => {
            let parts: Vec<String> = parts.iter().take(20).map(reply_shown).collect();
            format!("[{}]", parts.join(", "))
        }
        other => format!("{other:?}"),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("nothing"),
            Self::OtherType => f.write_str("something of another type"),
            Self::Value { value, ttl } => {
                write!(f, "\"{}\" ", value[..value.len().min(60)].escape_ascii())?;
                match ttl {
                    Some(ttl) => write!(f, "for {} ms", ttl.as_millis()),
                    None => f.write_str("for ever"),
                }
            }
        }
    }
}

/// Keys in one line, each by its beginning.
pub(super) fn all_shown(keys: &[Vec<u8>]) -> String {
    if keys.is_empty() {
        return "none".to_owned();
    }
    let shown = |key: &Vec<u8>| {
        let start = key[..key.len().min(40)].escape_ascii();
        format!("\"{start}\" ({} bytes)", key.len())
    };
    keys.iter().map(shown).collect::<Vec<_>>().join(", ")
}
