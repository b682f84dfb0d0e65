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

    /// Checks what clients take in different ways, or refuse in words that do not help, and returns the URL
    /// without the blanks and line breaks around it, which a secret that was read from a file may have.
    ///
    /// `schemes` are those of this backend. What else is in the URL is left to its client to read.
    ///
    /// # Errors
    ///
    /// The text has no scheme or another one, has a blank or a control character in it, or no host, or a
    /// bad port. The source says which, and how to write it.
    pub fn check<'u>(url: &'u str, schemes: &[&str]) -> Result<&'u str, Self> {
        let url = url.trim();
        match fault(url, schemes) {
            Some(fault) => Err(Self::new(url, fault)),
            None => Ok(url),
        }
    }
}

/// What is wrong with a URL. It shows no part that may be a secret.
fn fault(url: &str, schemes: &[&str]) -> Option<String> {
    if url.is_empty() {
        return Some("it is empty: write redis://host:port".to_owned());
    }
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some(
            "it has a blank, a line break or another control character in it: in a password, write it \
             percent-encoded, a blank as %20"
                .to_owned(),
        );
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Some("it has no scheme: write redis://host:port".to_owned());
    };
    if !schemes.contains(&&*scheme.to_ascii_lowercase()) {
        let known = schemes.join(", ");
        if !is_scheme(scheme) {
            return Some(format!("its scheme is none of {known}"));
        }
        return Some(format!(
            "the scheme {} is none of {known}",
            Name(scheme.as_bytes())
        ));
    }
    // The path of a unix socket is not a host.
    let is_path = scheme.to_ascii_lowercase().contains("unix");
    if is_path { None } else { authority_fault(rest) }
}

/// Returns whether it looks like one. Something else may be a part of a password.
fn is_scheme(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.len() <= 20 && text.chars().all(fits)
}

/// What is wrong with the part that names the host.
fn authority_fault(rest: &str) -> Option<String> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (is_login, host_and_port) = match authority.rsplit_once('@') {
        Some((_, host)) => (true, host),
        None => (false, authority),
    };
    let (host, port) = match host_and_port.rsplit_once(':') {
        // The last colon of an address of IPv6 without a port is in its brackets.
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (host_and_port, ""),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || host.is_empty() {
        if !is_login && tail.contains('@') {
            let fault =
                "a '/', '?' or '#' of a user or password must be percent-encoded: %2F, %3F, %23";
            return Some(fault.to_owned());
        }
        let fault = if host.is_empty() {
            "it has no host"
        } else {
            "its port is not a number"
        };
        return Some(format!(
            "{fault}: write redis://host:port, or redis://user:password@host:port"
        ));
    }
    let is_port = port.is_empty() || port.parse::<u16>().is_ok_and(|port| port != 0);
    // So many digits without a login may be a password.
    let shown = match is_login || port.len() <= 6 {
        true => Name(port.as_bytes()).to_string(),
        false => "***".to_owned(),
    };
    (!is_port).then(|| format!("the port {shown} is not one of 1 to 65535"))
}

/// Hides user and password, wherever a malformed URL may have them: all before the last `@`, a
/// port that is no number (`redis://user:password`), and what is after `?` or `#`.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        Some((_, rest)) => ("***", rest),
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
        // No port, or none of any host: most likely a password without its `@`. So is what stands between two
        // colons, unless it is an address of IPv6.
        Some((host, port))
            if host.is_empty()
                || !port.bytes().all(|b| b.is_ascii_digit())
                || host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) =>
        {
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
            "redis://user:secret:6379",
            "redis://user:secret:/0",
            "redis://user:se/secret",
            "unix:///s?db=x&pass=p@secret",
            "unix:///s?pass=secret@host",
            "user:secret@host",
            "user:secret",
            "user:secret://x@host",
            "unix:///run/redis?pass=secret",
            "redis://host:6379/x?password=secret",
            "redis://host:6379/x#secret",
        ] {
            let shown = without_secrets(url);
            assert!(!shown.contains("secret"), "{url} shows as {shown}");
            let fault = fault(url, &SCHEMES).unwrap_or_default();
            assert!(!fault.contains("secret"), "{url}: {fault}");
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
            ("redis://[::1]:6379/x", "redis://[::1]:6379/x"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    const SCHEMES: [&str; 3] = ["redis", "rediss", "unix"];

    fn checked(url: &str) -> Result<&str, String> {
        InvalidUrl::check(url, &SCHEMES).map_err(|error| {
            let fault = error.source().map(ToString::to_string);
            fault.unwrap_or_default()
        })
    }

    #[test]
    fn a_url_is_taken_without_the_blanks_around_it() {
        for url in [
            "redis://host",
            "rediss://user:p%20w@host:65535/1?protocol=resp3",
            "REDIS://[::1]:1/",
            "redis://[::1]",
            "redis://:p:w@host",
            "unix:///run/redis.sock?pass=x",
        ] {
            assert_eq!(checked(&format!(" {url}\r\n")), Ok(url));
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_and_how_to_write_it() {
        for (url, fault) in [
            ("", "it is empty: write redis://host:port"),
            (" \n", "it is empty: write redis://host:port"),
            ("host:6379", "it has no scheme: write redis://host:port"),
            ("redis:/host", "it has no scheme: write redis://host:port"),
            (
                "redsi://host",
                "the scheme redsi is none of redis, rediss, unix",
            ),
            (
                "http://host",
                "the scheme http is none of redis, rediss, unix",
            ),
            (
                "redis://host:171010",
                "the port 171010 is not one of 1 to 65535",
            ),
            (
                "redis://u:p@host:0/1",
                "the port 0 is not one of 1 to 65535",
            ),
            (
                "redis://user:12345678",
                "the port *** is not one of 1 to 65535",
            ),
            ("u:p://x@host", "its scheme is none of redis, rediss, unix"),
            ("redis://", "it has no host"),
            ("redis://:6379", "it has no host"),
            ("redis://u:p@/1", "it has no host"),
            ("redis://host:port", "its port is not a number"),
            ("redis://u:p@host:63 79", "it has a blank"),
            ("redis://u:pass\n@host", "it has a blank, a line break"),
            ("redi\nss://host", "it has a blank, a line break"),
            (
                "redis://u:p/w@host",
                "a '/', '?' or '#' of a user or password must be",
            ),
            (
                "redis://:p#w@host",
                "a '/', '?' or '#' of a user or password must be",
            ),
        ] {
            let found = checked(url).unwrap_err();
            assert!(found.starts_with(fault), "{url}: {found}");
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

#[cfg(test)]
mod foreign {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "s3cr3t";

    /// Pieces of a URL in any order, in one of which there may be a secret behind a colon.
    fn pieces() -> impl Strategy<Value = String> {
        let pieces = [
            "redis", "unix", "http", "://", ":", "@", "/", "?", "#", "[::1]", "host", "6379", "0",
            " ", "\n", "pass=", "&", "%", "\u{e9}",
        ];
        let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..10);
        pieces.prop_map(|pieces| pieces.concat())
    }

    fn shown(url: &str) -> String {
        match InvalidUrl::check(url, &["redis", "rediss", "unix"]) {
            Ok(url) => InvalidUrl::new(url, "no reason").to_string(),
            Err(error) => format!("{error}: {}", error.source),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_an_error_of_one_line(text in prop_oneof![any::<String>(), pieces()]) {
            let shown = shown(&text);
            prop_assert!(!shown.chars().any(char::is_control), "{shown:?}");
            prop_assert!(shown.len() < 2_000);
        }

        /// Wherever a password may stand, and whatever else is wrong with the URL.
        #[test]
        fn no_password_is_shown(before in pieces(), after in pieces(), host in pieces()) {
            for url in [
                format!("redis://user:{SECRET}{after}@{host}"),
                format!("redis://:{before}{SECRET}@{host}"),
                format!("redis://{host}?{before}{SECRET}{after}"),
                format!("redis://{host}#{before}{SECRET}{after}"),
                format!("redis://host:{SECRET}{after}"),
                format!("user:{before}{SECRET}@{host}"),
            ] {
                let shown = shown(&url);
                prop_assert!(!shown.contains(SECRET), "{url:?} shows as {shown}");
            }
        }
    }
}
