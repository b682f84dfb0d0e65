//! The owner value of one attempt.

use std::fmt;

use crate::note::Note;
use crate::runtime::Runtime;

/// The value of a lock's key: what names the owner of ONE attempt to acquire, and perhaps a note behind it
/// that tells people who that is.
///
/// Identity is the first 36 characters, a UUID of version 4 (122 random bits). They cannot be chosen, since two
/// owners with the same ones would release each other's lock. They say which holder may extend and release,
/// and do not grow, so they are not a fencing token. The [note](Self::note) follows after a blank. Nodes compare
/// whole values.
///
/// It is kept in place, without an allocation of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// Zero behind the end.
    bytes: [u8; Token::MAX],
    len: u8,
}

impl Token {
    const ID: usize = uuid::fmt::Hyphenated::LENGTH;
    const MAX: usize = Self::ID + 1 + Note::MAX;

    /// Makes a new token of the runtime's random bytes, without a note.
    #[must_use]
    pub fn generate(runtime: &dyn Runtime) -> Self {
        Self::from_random(runtime.random())
    }

    /// The same token with a note behind it: 1 to 90 bytes of text without control characters, otherwise
    /// `None`. For tests: the tokens of a lock have the note of
    /// [`RedlockBuilder::owner`](crate::RedlockBuilder::owner).
    #[must_use]
    pub fn with_note(self, note: &str) -> Option<Self> {
        Some(self.noted(&Note::new(note)?))
    }

    pub(crate) fn noted(self, note: &Note) -> Self {
        let mut token = Self::EMPTY;
        token.push(self.id().as_bytes());
        token.push(b" ");
        token.push(note.as_str().as_bytes());
        token
    }

    /// Returns the token of a held lock from its text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_at_checked(Self::ID)?;
        if !rest.is_empty() {
            Note::new(rest.strip_prefix(' ')?)?;
        }
        // In this very spelling: to a server, another one of the same UUID is another value.
        let uuid = uuid::Uuid::try_parse(id).ok()?;
        let is_same = *uuid.hyphenated().encode_lower(&mut [0; Self::ID]) == *id;
        let mut token = Self::EMPTY;
        token.push(text.as_bytes());
        is_same.then_some(token)
    }

    pub(crate) fn from_random(random: [u8; 16]) -> Self {
        let uuid = uuid::Builder::from_random_bytes(random).into_uuid();
        let mut token = Self::EMPTY;
        token.push(
            uuid.hyphenated()
                .encode_lower(&mut [0; Self::ID])
                .as_bytes(),
        );
        token
    }

    const EMPTY: Self = Self {
        bytes: [0; Self::MAX],
        len: 0,
    };

    /// Adds what has room.
    fn push(&mut self, more: &[u8]) {
        let free = &mut self.bytes[usize::from(self.len)..];
        for (byte, more) in free.iter_mut().zip(more) {
            *byte = *more;
            self.len += 1;
        }
    }

    /// The value of the lock's key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The value of the lock's key as text: `67e55044-10b1-426f-9247-bb680e5fe0c8 web-1 pid 4711`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It was made of text; were it ever not, an empty token would match nothing.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The part that names the owner: `67e55044-10b1-426f-9247-bb680e5fe0c8`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.as_str().get(..Self::ID).unwrap_or_default()
    }

    /// The note, in which the owner tells people who it is.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.as_str().get(Self::ID + 1..)
    }
}

/// The note in the value of a key, if it is one of ours.
pub(crate) fn note_of(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    Token::parse(text)?;
    text.get(Token::ID + 1..)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_version_4_uuid_of_the_random_bytes() {
        assert_eq!(
            Token::from_random([0xff; 16]).as_str(),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        assert_eq!(
            Token::from_random([0; 16]).as_bytes(),
            b"00000000-0000-4000-8000-000000000000"
        );
    }

    #[test]
    fn a_note_stands_behind_what_names_the_owner() {
        let token = Token::from_random([0; 16]);
        assert_eq!(token.with_note("two\nlines"), None);
        let token = token.with_note("web-1 pid 7").unwrap();
        assert_eq!(
            token.as_str(),
            "00000000-0000-4000-8000-000000000000 web-1 pid 7"
        );
        assert_eq!(token.id(), Token::from_random([0; 16]).as_str());
        assert_eq!(token.note(), Some("web-1 pid 7"));
        assert_eq!(Token::from_random([0; 16]).note(), None);
    }

    #[test]
    fn a_text_is_a_token_only_as_tokens_are_written() {
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let longest = "n".repeat(Note::MAX);
        for text in [
            id.to_owned(),
            format!("{id} web 1"),
            format!("{id} {longest}"),
        ] {
            assert_eq!(Token::parse(&text).unwrap().as_str(), text);
        }
        for other in [
            "",
            "67E55044-10b1-426f-9247-bb680e5fe0c8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e5504410b1426f9247bb680e5fe0c8}--",
            &format!("{id} "),
            &format!("{id}-web"),
            &format!("{id} two\nlines"),
            &format!("{id} {longest}n"),
            &id.replace("-10b1-", "-10b\u{e9}"),
        ] {
            assert!(Token::parse(other).is_none(), "{other}");
        }
    }
}

#[cfg(test)]
mod foreign {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Anybody can set a key, and its note goes into logs.
        #[test]
        fn a_note_of_any_value_is_one_line(
            value in prop::collection::vec(any::<u8>(), 0..200),
            text in any::<String>(),
        ) {
            let mut with_id = Token::from_random([7; 16]).id().as_bytes().to_vec();
            with_id.push(b' ');
            with_id.extend(text.as_bytes());
            for value in [value, with_id] {
                if let Some(note) = note_of(&value) {
                    prop_assert!(!note.is_empty() && note.len() <= value.len());
                    prop_assert!(!note.contains(char::is_control), "{note:?}");
                }
            }
        }
    }
}
