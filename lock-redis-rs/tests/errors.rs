//! What cannot be used is refused before any IO, and shows no secret.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

use std::error::Error;

use lock_core::RedisNode;
use lock_redis_rs::RedisRsNode;

#[test]
fn a_malformed_url_is_an_error_of_its_own_that_names_it_without_its_secret() {
    for url in [
        "redis://user:s3cr3t@host:6379/nodb",
        "http://user:s3cr3t@host:6379",
        "rediss://user:s3cr3t@host:6379/nodb",
        "rediss://user:s3cr3t@host:6379#insecure",
        "redis://user:s3cr3t@host:port",
        "redis://user:s3cr3t@host/?protocol=9",
    ] {
        let error = RedisRsNode::new(url).unwrap_err();
        let source = error.source().unwrap();
        let shown = format!("{error} {error:?} {source} {source:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
        assert!(shown.contains("@host"), "{shown}");
    }
}

#[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
#[test]
fn a_url_for_tls_without_a_feature_for_it_names_the_features() {
    for url in ["rediss://host:6379", "valkeys://host", "REDISS://host"] {
        let error = RedisRsNode::new(url).unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert_eq!(
            cause,
            "TLS needs one of the features `rustls`, `rustls-ring` and `native-tls` of \
             lock-redis-rs"
        );
    }
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
#[test]
fn tls_without_a_check_of_the_certificate_is_refused() {
    let error = RedisRsNode::new("rediss://host:6379#insecure").unwrap_err();
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("RedisRsNode::tls"), "{cause}");
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
#[test]
fn what_is_no_certificate_is_refused_and_not_shown() {
    use lock_redis_rs::Tls;

    let key = b"-----BEGIN PRIVATE KEY-----\ns3cr3t\n-----END PRIVATE KEY-----\n";
    for error in [
        Tls::new().root_certificates(b"").unwrap_err(),
        Tls::new().root_certificates(key).unwrap_err(),
        Tls::new().client_certificate(b"", key).unwrap_err(),
        Tls::new().client_certificate(key, b"s3cr3t").unwrap_err(),
    ] {
        let cause = error.source().unwrap();
        let shown = format!("{error} {error:?} {cause}");
        assert!(shown.starts_with("cannot use the "), "{shown}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}

#[test]
fn a_url_is_taken_without_the_blanks_around_it_and_refused_with_blanks_in_it() {
    let node = RedisRsNode::new(" redis://u:p@host:7000\r\n").unwrap();
    assert_eq!(node.label(), "host:7000");
    // A parser of URLs leaves line breaks out, and would read the second one as TLS.
    for url in [
        "redis://u:s3c\nr3t@host",
        "redi\nss://u:p@host",
        "redis://u:p w@host",
    ] {
        let error = RedisRsNode::new(url).unwrap_err();
        let fault = error.source().unwrap().to_string();
        assert!(fault.starts_with("it has a blank, a line break"), "{fault}");
    }
}

#[test]
fn what_is_wrong_with_a_url_is_said_in_words_that_help() {
    for (url, expected) in [
        ("host:6379", "it has no scheme: write redis://host:port"),
        ("redsi://host", "the scheme redsi is none of redis, rediss,"),
        (
            "redis://host:171010",
            "the port 171010 is not one of 1 to 65535",
        ),
        ("redis://:6379", "it has no host"),
        (
            "redis://u:p/w@host",
            "a '/', '?' or '#' of a user or password must be",
        ),
    ] {
        let error = RedisRsNode::new(url).unwrap_err();
        let fault = error.source().unwrap().to_string();
        assert!(fault.starts_with(expected), "{url}: {fault}");
    }
}

#[test]
fn the_label_is_the_server_whatever_the_database_or_the_user() {
    let label = |url: &str| RedisRsNode::new(url).unwrap().label().to_owned();
    assert_eq!(label("redis://Host:7000/0"), "host:7000");
    assert_eq!(label("redis://u:p@host:7000/1?protocol=3"), "host:7000");
    assert_eq!(label("redis://host"), "host:6379");
    assert_eq!(label("redis://[::1]:7000"), "[::1]:7000");
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    assert_eq!(label("rediss://u:p@Host:7000/1"), "host:7000");
    assert_eq!(label("unix:///run/redis.sock?pass=p"), "/run/redis.sock");
}

/// What reads foreign bytes: no text makes it panic.
mod foreign {
    use proptest::prelude::*;

    use super::*;

    fn url() -> impl Strategy<Value = String> {
        let pieces = [
            "redis",
            "rediss",
            "redis+unix",
            "unix",
            "redis-sentinel",
            "://",
            "://",
            ":",
            "@",
            "/",
            "?",
            "#",
            "[::1]",
            "host",
            "6379",
            "0",
            " ",
            "pass=",
            "db=",
            "protocol=resp3",
            "node=",
            "&",
            "%",
            "%00",
            "%ff",
            "\u{e9}",
        ];
        let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12);
        prop_oneof![any::<String>(), pieces.prop_map(|pieces| pieces.concat())]
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_an_error_that_shows_no_password(rest in url(), password in "[0-9a-f]{12}") {
            RedisRsNode::new(&rest).ok();
            for url in [
                format!("redis://user:{password}@{rest}"),
                format!("redis://host/{rest}?pass={password}{rest}"),
            ] {
                if let Err(error) = RedisRsNode::new(&url) {
                    let source = error.source().map(ToString::to_string);
                    let shown = format!("{error} {error:?} {source:?}");
                    prop_assert!(!shown.contains(&password), "{url:?}: {shown}");
                }
            }
        }
    }
}
