//! The random owner value of one attempt.

use std::fmt;

use crate::runtime::Runtime;

/// The random value that names the owner of ONE attempt to acquire: a UUID of version 4 (122 random
/// bits), kept as its text of 36 characters.
///
/// A token cannot be chosen, since two owners with the same one would release each other's lock. It
/// says which holder may extend and release. It does not grow, so it is not a fencing token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; Token::LEN]);

impl Token {
    const LEN: usize = uuid::fmt::Hyphenated::LENGTH;

    /// Makes a new token of the runtime's random bytes.
    #[must_use]
    pub fn generate(runtime: &dyn Runtime) -> Self {
        Self::from_random(runtime.random())
    }

    /// Returns the token of a held lock from its text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = <[u8; Self::LEN]>::try_from(text.as_bytes()).ok()?;
        // In this very spelling: to a server, another one of the same UUID is another value.
        let uuid = uuid::Uuid::try_parse(text).ok()?;
        let is_same = *uuid.hyphenated().encode_lower(&mut [0; Self::LEN]) == *text;
        is_same.then_some(Self(bytes))
    }

    pub(crate) fn from_random(random: [u8; 16]) -> Self {
        let mut text = [0; Self::LEN];
        uuid::Builder::from_random_bytes(random)
            .into_uuid()
            .hyphenated()
            .encode_lower(&mut text);
        Self(text)
    }

    /// The token as bytes: the value of the lock's key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The token as text: `67e55044-10b1-426f-9247-bb680e5fe0c8`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // A hyphenated UUID is ASCII; were it ever not, an empty token would match nothing.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
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
    fn a_text_is_a_token_only_as_tokens_are_written() {
        let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert_eq!(Token::parse(text).unwrap().as_str(), text);
        for other in [
            "",
            "67E55044-10b1-426f-9247-bb680e5fe0c8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e5504410b1426f9247bb680e5fe0c8}--",
        ] {
            assert!(Token::parse(other).is_none(), "{other}");
        }
    }
}
