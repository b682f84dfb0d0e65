//! The number of an acquisition, by which a store tells a late writer from the present one.

use std::fmt;

/// A number that grows with every acquisition of a resource, so that what the lock protects can refuse a
/// holder whose time is over: it accepts a write only if its token is at least as large as the largest one
/// that it has seen.
///
/// A lock cannot stop a holder that slept through the end of its validity and then writes. The store can, if
/// it compares and sets in one atomic step:
///
/// ```sql
/// UPDATE invoices SET paid = true, fence = :token WHERE id = :id AND fence <= :token
/// ```
///
/// ```
/// use lock_core::{DistributedLockExt, FencingToken, LockRequest, Redlock};
/// # use lock_testkit::MemoryNode;
///
/// # futures::executor::block_on(async {
/// let locks = Redlock::new(MemoryNode::several(5))?;
/// let request = || LockRequest::new("invoice-7").fencing(true);
///
/// let first = locks.lock(request()).await?;
/// let old = first.fencing_token().ok_or("fencing was asked for")?;
/// first.release().await?;
/// let second = locks.lock(request()).await?;
/// assert!(second.fencing_token() > Some(old));
/// assert_eq!(old, FencingToken::from(old.get()));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Tokens of different resources are not comparable, and there may be gaps between the tokens of one.
/// With the feature `serde` it is written as a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The largest token of a Redlock: 2^53 - 1, up to which a script counts exactly. Tokens begin at the
    /// microseconds since 1970, so that it is reached in the year 2255.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The largest floor of a request, 2^52: above it there is room for more tokens than will ever be needed.
    pub const MAX_FLOOR: Self = Self(1 << 52);

    /// The token of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for FencingToken {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({self})")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_ordered_and_shown_as_their_numbers() {
        let [small, large] = [9, 10].map(FencingToken::new);
        assert!(small < large);
        assert_eq!(large.to_string(), "10");
        assert_eq!(format!("{large:?}"), "FencingToken(10)");
        assert_eq!(u64::from(large), large.get());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_writes_it_as_a_number() {
        let token = FencingToken::new(1_790_000_000_000_001);
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, "1790000000000001");
        assert_eq!(serde_json::from_str::<FencingToken>(&json).unwrap(), token);
    }
}
