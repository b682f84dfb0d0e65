//! How long a lock's key lives.

use std::fmt;
use std::time::Duration;

use crate::error::InvalidInput;

/// The lifetime of a lock's key: whole milliseconds, at least one, at most [`Ttl::MAX`].
///
/// Redis counts lifetimes in whole milliseconds. A fraction is cut off, so that a holder never relies
/// on a key for longer than it lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// The shortest ttl: 1 ms.
    pub const MIN: Self = Self(1);
    /// The longest ttl: 365 days. A longer one is nearly always a mistake in the unit, and a far
    /// longer one overflows in servers.
    pub const MAX: Self = Self(365 * 24 * 60 * 60 * 1000);

    /// 5 s.
    pub(crate) const FIVE_SECONDS: Self = Self(5000);

    /// Makes a ttl of a duration between [`Ttl::MIN`] and [`Ttl::MAX`]; fractions of a millisecond are
    /// cut off.
    ///
    /// # Errors
    ///
    /// [`InvalidInput::TtlTooShort`] or [`InvalidInput::TtlTooLong`].
    pub fn new(ttl: Duration) -> Result<Self, InvalidInput> {
        if ttl < Self::MIN.as_duration() {
            return Err(InvalidInput::TtlTooShort { ttl });
        }
        match u64::try_from(ttl.as_millis()) {
            Ok(millis) if ttl <= Self::MAX.as_duration() => Ok(Self(millis)),
            _ => Err(InvalidInput::TtlTooLong { ttl }),
        }
    }

    /// The ttl in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The ttl as a duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ttl({self})")
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_whole_milliseconds_between_one_and_a_year() {
        let millis = |ttl| Ttl::new(ttl).ok().map(Ttl::as_millis);
        assert_eq!(millis(Duration::ZERO), None);
        assert_eq!(millis(Duration::from_nanos(1)), None);
        assert_eq!(millis(Duration::from_micros(999)), None);
        assert_eq!(millis(Duration::from_micros(1000)), Some(1));
        assert_eq!(millis(Duration::from_micros(2500)), Some(2));
        assert_eq!(millis(Ttl::MAX.as_duration()), Some(31_536_000_000));
        assert_eq!(
            millis(Ttl::MAX.as_duration() + Duration::from_nanos(1)),
            None
        );
        assert_eq!(millis(Duration::MAX), None);
    }
}
