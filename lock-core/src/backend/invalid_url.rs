//! A URL that is none.

use std::error::Error;

use crate::display::Name;

/// The address of a node is not the URL of a Redis server, or needs a feature that is off: the source
/// says which.
///
/// It shows as much of the URL as surely is not secret (rule N11).
#[derive(Debug, thiserror::Error)]
#[error("cannot use the URL {shown} for a node")]
pub struct InvalidUrl {
    shown: String,
    source: Box<dyn Error + Send + Sync>,
}

impl InvalidUrl {
    /// The error for a URL, which is kept without user, password and query. The source must not show
    /// them either.
    pub fn new(url: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            shown: Name(without_secrets(url).as_bytes()).to_string(),
            source: source.into(),
        }
    }
}

/// Hides user and password, wherever a malformed URL may have them: all before the last `@`, a
/// port that is no number (`redis://user:password`), and what is after `?` or `#`.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("", url),
    };
    let separator = if url.contains("://") { "://" } else { "" };
    let (user, rest) = match rest.rsplit_once('@') {
        // It may stand in a password of the query.
        Some((user, _)) if user.contains(['?', '#']) => return format!("{scheme}{separator}***"),
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let (rest, tail) = match rest.find(['?', '#']) {
        Some(at) => (&rest[..at], "***"),
        None => (rest, ""),
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, path) = match host.rsplit_once(':') {
        // No port, or none of any host: most likely a password without its `@`.
        Some((host, port)) if host.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) => {
            let host = host.split(':').next().unwrap_or_default();
            (format!("{host}:***"), "")
        }
        _ => (host.to_owned(), path),
    };
    format!("{scheme}{separator}{user}{host}{path}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_url_shows_no_secret_wherever_it_is() {
        for url in [
            "redis://user:secret@host:6379/x",
            "redis://:sec:secret@host:6379/x",
            "redis://:se@secret@host:port",
            "redis://:se/secret@host:port",
            "redis://:se?secret@host:port",
            "redis://:secret",
            "redis://user:secret",
            "redis://user:name:secret",
            "redis://user:se/secret",
            "unix:///s?db=x&pass=p@secret",
            "unix:///s?pass=secret@host",
            "user:secret@host",
            "user:secret",
            "unix:///run/redis?pass=secret",
            "redis://host:6379/x?password=secret",
            "redis://host:6379/x#secret",
        ] {
            let shown = without_secrets(url);
            assert!(!shown.contains("secret"), "{url} shows as {shown}");
        }
    }

    #[test]
    fn a_malformed_url_shows_what_helps_to_find_it() {
        for (url, shown) in [
            ("redis://u:p@host:6379/x", "redis://***@host:6379/x"),
            ("http://host:6379", "http://host:6379"),
            ("127.0.0.1:6379", "127.0.0.1:6379"),
            ("redis://host:port", "redis://host:***"),
            ("redis://:12345", "redis://:***"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn a_malformed_url_is_shown_as_one_line_of_bounded_length() {
        let shown = |url: &str| InvalidUrl::new(url, "none").to_string();
        let of = |url: &str| format!("cannot use the URL {url} for a node");
        assert_eq!(
            shown("redis://host\r\n\x1b[2J"),
            of(r"redis://host\r\n\u{1b}[2J")
        );
        assert!(shown(&"h".repeat(600_000)).len() < 300);
    }
}
