//! A running hash of all that happens.

/// FNV-1a over 64-bit words. Two runs that did the same have equal hashes, and others hardly ever
/// do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventHash(u64);

impl EventHash {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    pub(crate) fn new() -> Self {
        Self(Self::BASIS)
    }

    pub(crate) fn add(&mut self, word: u64) {
        // FNV takes bytes; of words it takes the high half again, so that every bit moves.
        self.0 = (self.0 ^ word).wrapping_mul(Self::PRIME);
        self.0 ^= self.0 >> 32;
    }

    /// Returns the hash so far.
    #[must_use]
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
