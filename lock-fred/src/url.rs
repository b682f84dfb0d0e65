//! The URL of a server: what it stands for, and what is wrong with it.

use std::error::Error;

use fred::types::RespVersion;
use fred::types::config::Config;

use crate::settings::Settings;

/// The address of a node is not the URL of a Redis server, or needs a feature that is off: the source
/// says which, see [`FredNode::new`].
///
/// It shows only what cannot be a secret of the URL.
///
/// [`FredNode::new`]: crate::FredNode::new
#[derive(Debug, thiserror::Error)]
#[error("cannot use the URL {shown} for a node")]
pub struct InvalidUrl {
    shown: String,
    source: Box<dyn Error + Send + Sync>,
}

/// The settings that a URL stands for.
pub(crate) fn parse(url: &str) -> Result<Settings, InvalidUrl> {
    settings(url).map_err(|source| InvalidUrl {
        shown: without_secrets(url),
        source,
    })
}

fn settings(url: &str) -> Result<Settings, Box<dyn Error + Send + Sync>> {
    let scheme = url.split(':').next().unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let base = scheme.split(['-', '+']).next().unwrap_or_default();
    if matches!(base, "rediss" | "valkeys") {
        check_cryptography()?;
    }
    let mut config = Config::from_url(url)?;
    match base {
        "redis" | "valkey" => {}
        // Without a TLS feature fred would connect in plain text, password and all.
        "rediss" | "valkeys" if config.uses_tls() => {}
        "rediss" | "valkeys" => {
            let features = "enable-rustls, enable-rustls-ring or enable-native-tls";
            return Err(format!("TLS needs one of the features {features}").into());
        }
        _ => {
            return Err(
                "the scheme is none of redis, rediss, valkey, valkeys and redis+unix".into(),
            );
        }
    }
    if let Some(version) = protocol(url)? {
        config.version = version;
    }
    Ok(Settings::of_config(config)?)
}

/// With two kinds of cryptography to choose from, rustls would panic.
fn check_cryptography() -> Result<(), &'static str> {
    #[cfg(all(
        feature = "enable-rustls",
        feature = "enable-rustls-ring",
        not(feature = "enable-native-tls")
    ))]
    if fred::rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(
            "enable-rustls and enable-rustls-ring are both on: choose one, or install a default \
             CryptoProvider of rustls first",
        );
    }
    Ok(())
}

/// The `protocol` of the query, which fred does not know.
fn protocol(url: &str) -> Result<Option<RespVersion>, &'static str> {
    let url = url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("protocol="));
    match value {
        None => Ok(None),
        Some("2" | "resp2") => Ok(Some(RespVersion::RESP2)),
        Some("3" | "resp3") => Ok(Some(RespVersion::RESP3)),
        Some(_) => Err("the protocol is neither resp2 nor resp3"),
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
}
