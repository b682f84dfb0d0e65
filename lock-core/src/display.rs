//! How durations, names and the words of others read in messages.

use std::fmt::{self, Write};
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

/// To a tenth of a millisecond, since the nanoseconds of a wait mean nothing to a reader.
pub(crate) fn tenths(duration: Duration) -> Duration {
    Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX) / 100 * 100)
}

/// The most bytes of a name that are shown, and the most names.
const NAME: usize = 128;
const NAMES: usize = 8;

/// The name of a resource, which is bytes, as text. `Debug` puts it in quotes.
pub(crate) struct Name<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A long name would fill a log.
        let shown = &self.0[..self.0.len().min(NAME)];
        write!(f, "{}", String::from_utf8_lossy(shown).escape_debug())?;
        f.write_str(if self.0.len() > NAME { "..." } else { "" })
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The first names of several resources, and how many there are besides.
pub(crate) struct Names<I>(pub(crate) I);

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> fmt::Debug for Names<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.0.clone();
        let mut list = f.debug_list();
        list.entries(names.by_ref().take(NAMES).map(Name));
        match names.count() {
            0 => list.finish(),
            _ => list.finish_non_exhaustive(),
        }
    }
}

/// The value of a key that may be somebody else's: no more than its length.
pub(crate) struct Hidden<'a>(pub(crate) &'a Option<Vec<u8>>);

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "Some({} bytes)", value.len()),
            None => f.write_str("None"),
        }
    }
}

/// The most characters of somebody else's text that are kept or shown.
pub(crate) const LINE: usize = 512;

/// Somebody else's text as part of a line: cut to [`LINE`] characters, with a space for each that is
/// not shown or would move what is.
pub(crate) struct Line<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cut = Cut { to: f, left: LINE };
        match write!(cut, "{}", self.0) {
            Err(fmt::Error) if cut.left == 0 => f.write_str("..."),
            written => written,
        }
    }
}

struct Cut<'a, 'f> {
    to: &'a mut fmt::Formatter<'f>,
    left: usize,
}

impl Write for Cut<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.to.write_char(match char {
                // Those of Unicode change the direction or the line, or have no width.
                '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => ' ',
                '\u{feff}' => ' ',
                char if char.is_control() => ' ',
                char => char,
            })?;
        }
        Ok(())
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

    #[test]
    fn the_words_of_others_are_one_line_of_bounded_length() {
        let line = |text: &str| Line(text).to_string();
        assert_eq!(line("as it is: \u{e9}"), "as it is: \u{e9}");
        assert_eq!(line("a\r\nb\x1b[2J\u{202e}c\u{9b}"), "a  b [2J c ");
        assert_eq!(line(&"x".repeat(LINE)), "x".repeat(LINE));
        let cut = format!("{}...", "x".repeat(LINE));
        assert_eq!(line(&"x".repeat(LINE + 1)), cut);
    }

    #[test]
    fn long_and_many_names_are_shown_in_part() {
        let long = [b'n'; 600_000];
        assert!(Name(&long).to_string().len() < 2 * NAME);
        let shown = |names: &[&[u8]]| format!("{:?}", Names(names.iter().copied()));
        assert_eq!(shown(&[b"a", b"\n"]), r#"["a", "\n"]"#);
        let many = shown(&[&long[..]; 100]);
        assert!(
            many.len() < 2 * NAME * NAMES && many.ends_with(", ..]"),
            "{many}"
        );
    }
}
