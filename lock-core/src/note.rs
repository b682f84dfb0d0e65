//! Who holds a lock, in words for people.

/// What stands behind the random part of a lock's value: 1 to 90 bytes of text without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note(String);

impl Note {
    /// The most bytes. A whole value is then no longer than what inspections show of one.
    pub(crate) const MAX: usize = 90;

    pub(crate) fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let fits = (1..=Self::MAX).contains(&text.len());
        (fits && !text.contains(char::is_control)).then_some(Self(text))
    }

    /// The host and the process: `web-7f4c pid 4711`.
    pub(crate) fn of_this_process() -> Option<Self> {
        let pid = format!("pid {}", std::process::id());
        let mut host = host().unwrap_or_default();
        host.retain(|char| !char.is_control());
        while host.len() + 1 + pid.len() > Self::MAX {
            host.pop();
        }
        Self::new(format!("{host} {pid}").trim_start())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// In a container, this is most often its name.
fn host() -> Option<String> {
    cfg_if::cfg_if! {
        if #[cfg(any(target_os = "linux", target_vendor = "apple"))] {
            let name = rustix::system::uname();
            Some(name.nodename().to_string_lossy().into_owned())
        } else {
            std::env::var("COMPUTERNAME").or_else(|_| std::env::var("HOSTNAME")).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_a_text_of_bounded_length_on_one_line() {
        assert!(Note::new("n".repeat(Note::MAX)).is_some());
        for text in ["", "two\nlines", "a\u{7f}b", &"n".repeat(Note::MAX + 1)] {
            assert_eq!(Note::new(text), None, "{text}");
        }
    }

    #[test]
    fn a_process_is_told_by_its_host_and_its_number() {
        let note = Note::of_this_process().unwrap();
        let pid = format!("pid {}", std::process::id());
        assert!(note.as_str().ends_with(&pid), "{note:?}");
        assert!(note.as_str().len() <= Note::MAX);
    }
}
