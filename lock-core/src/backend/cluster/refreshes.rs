//! When the servers are asked anew which has which slots. No IO.

use std::time::Duration;

/// From one time that they are asked to the next, at first.
const SHORTEST: Duration = Duration::from_millis(250);

/// And while what they say does not change.
const LONGEST: Duration = Duration::from_secs(2);

/// How long it is put off after it has changed nothing.
#[derive(Debug, Default)]
pub(super) struct Refreshes {
    not_before: Duration,
    in_vain: u32,
}

impl Refreshes {
    pub(super) fn is_due(&self, now: Duration) -> bool {
        // By another runtime's clock it may be far off.
        now >= self.not_before || self.not_before - now > LONGEST
    }

    /// They were asked, and there is news or not. `random` spreads the pause.
    pub(super) fn done(&mut self, now: Duration, is_news: bool, random: [u8; 16]) {
        self.in_vain = match is_news {
            true => 0,
            false => self.in_vain.saturating_add(1),
        };
        let pause = SHORTEST
            .saturating_mul(1 << self.in_vain.min(16))
            .min(LONGEST);
        let part = f64::from(u16::from_le_bytes([random[0], random[1]])) / f64::from(u16::MAX);
        self.not_before = now.saturating_add(pause / 2 + (pause / 2).mul_f64(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn questions_in_vain_get_rare_and_news_makes_them_frequent() {
        let mut refreshes = Refreshes::default();
        assert!(refreshes.is_due(Duration::ZERO));
        for (is_news, pause) in [
            (true, 250),
            (true, 250),
            (false, 500),
            (false, 1000),
            (false, 2000),
            (false, 2000),
            (true, 250),
        ] {
            for (random, pause) in [(0, pause / 2), (255, pause)] {
                let mut refreshes = Refreshes {
                    in_vain: refreshes.in_vain,
                    ..Refreshes::default()
                };
                refreshes.done(MS, is_news, [random; 16]);
                assert!(!refreshes.is_due(pause * MS), "{pause}");
                assert!(refreshes.is_due((pause + 1) * MS), "{pause}");
            }
            refreshes.done(MS, is_news, [0; 16]);
        }
        for _ in 0..100 {
            refreshes.done(MS, false, [255; 16]);
        }
        assert!(refreshes.is_due(2_001 * MS));
    }
}
