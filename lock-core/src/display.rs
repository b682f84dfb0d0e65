//! How durations and names read in messages.

use std::fmt;
use std::time::Duration;

/// A duration in milliseconds, the unit of the protocol: `100 ms`, `2.5 ms`.
pub(crate) struct Ms(pub(crate) Duration);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.subsec_nanos() % 1_000_000;
        write!(f, "{}", self.0.as_millis())?;
        if nanos != 0 {
            let digits = format!("{nanos:06}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(" ms")
    }
}

/// The name of a resource, which is bytes, as text. `Debug` puts it in quotes.
pub(crate) struct Name<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A long name would fill a log.
        let shown = &self.0[..self.0.len().min(128)];
        write!(f, "{}", String::from_utf8_lossy(shown).escape_debug())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_exact_milliseconds() {
        let show = |nanos| Ms(Duration::from_nanos(nanos)).to_string();
        assert_eq!(show(100_000_000), "100 ms");
        assert_eq!(show(2_500_000), "2.5 ms");
        assert_eq!(show(1), "0.000001 ms");
        assert_eq!(show(0), "0 ms");
    }
}
