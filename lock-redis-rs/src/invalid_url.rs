//! A URL that is none.

use std::error::Error;

/// The address of a node is no URL of a Redis server, or needs a feature that is off: the source
/// says which, see [`RedisRsNode::new`].
///
/// It shows as much of the URL as surely is no secret.
///
/// [`RedisRsNode::new`]: crate::RedisRsNode::new
#[derive(Debug, thiserror::Error)]
#[error("cannot use the URL {shown} for a node")]
pub struct InvalidUrl {
    shown: String,
    source: Box<dyn Error + Send + Sync>,
}

impl InvalidUrl {
    pub(crate) fn new(url: &str, source: Box<dyn Error + Send + Sync>) -> Self {
        Self {
            shown: without_secrets(url),
            source,
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
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let (rest, tail) = match rest.find(['?', '#']) {
        Some(at) => (&rest[..at], "***"),
        None => (rest, ""),
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = match host.rsplit_once(':') {
        Some((host, port)) if !port.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{}:***", host.split(':').next().unwrap_or_default())
        }
        _ => host.to_owned(),
    };
    let separator = if url.contains("://") { "://" } else { "" };
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
            ("", ""),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
