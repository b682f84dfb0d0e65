//! The only source of chance.

use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A seeded generator. Every choice of a simulation comes from one of these.
///
/// It is PCG64-MCG of the crate `rand_pcg`, whose output is part of that crate's contract: tested
/// against the reference vectors, the same on every platform and in every version. How its numbers
/// become choices is written here, so that no other crate's release can change what a seed means.
#[derive(Clone, Debug)]
pub struct Chance(Pcg64Mcg);

impl Chance {
    /// Makes the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns 16 random bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.bits().to_le_bytes());
        bytes[8..].copy_from_slice(&self.bits().to_le_bytes());
        bytes
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // Lemire's multiplication without its rejection: the bias is below 2^-32 for the small
        // ranges that are used, and each choice costs one step of the generator.
        let wide = u128::from(self.bits()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns an index below `len`, or 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Picks one of the items; `None` if there are none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.index(of.len()))
    }

    /// Returns a number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what a double can hold.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns `true` with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Returns a number between the two, both included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        let span = most.saturating_sub(least).max(0).unsigned_abs() + 1;
        least.saturating_add_unsigned(self.below(span))
    }

    /// Returns a duration between the two.
    pub fn duration(&mut self, least: Duration, most: Duration) -> Duration {
        least + share(most.saturating_sub(least), self.unit())
    }

    /// Returns a duration between the two, of which the least is above zero. Each order of
    /// magnitude is as likely as any other.
    pub fn magnitude(&mut self, least: Duration, most: Duration) -> Duration {
        let (low, high) = (nanos(least).max(1), nanos(most).max(1));
        // By powers of two with an even choice within each: no logarithm, whose last digit may
        // differ between platforms.
        let octaves = u64::from((high / low).max(1).ilog2()) + 1;
        let floor = low << self.below(octaves);
        Duration::from_nanos((floor + self.below(floor)).min(high))
    }

    /// Returns a duration with a heavy tail: mostly near `usual`, one in a hundred ten times that,
    /// one in ten thousand a hundred times, never more than `most`.
    pub fn heavy(&mut self, usual: Duration, most: Duration) -> Duration {
        let unit = self.unit();
        let factor = match self.below(10_000) {
            0 => 200.0,
            1..100 => 20.0,
            _ => 2.0,
        };
        usual.mul_f64(unit * factor).min(most)
    }

    /// Makes another generator, seeded by this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }
}

fn share(whole: Duration, unit: f64) -> Duration {
    whole.mul_f64(unit)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_seed_means_never_changes() {
        let mut chance = Chance::new(1);
        let first = [chance.bits(), chance.bits()];
        assert_eq!(
            first,
            [15_803_641_690_485_367_939, 2_537_432_388_316_380_799]
        );
        let choices = [(); 4].map(|()| chance.below(100));
        assert_eq!(choices, [47, 72, 36, 55]);
    }

    #[test]
    fn choices_stay_in_their_ranges() {
        let mut chance = Chance::new(7);
        let ms = Duration::from_millis(1);
        for _ in 0..10_000 {
            assert!(chance.below(3) < 3);
            assert!((-2..=2).contains(&chance.between(-2, 2)));
            assert!((0.0..1.0).contains(&chance.unit()));
            assert!((ms..=100 * ms).contains(&chance.magnitude(ms, 100 * ms)));
            assert!(chance.heavy(ms, 50 * ms) <= 50 * ms);
        }
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.pick::<u8>(&[]), None);
    }
}
