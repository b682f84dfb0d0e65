//! What cannot be used is refused before any IO, and shows no secret.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

use std::error::Error;

use lock_core::RedisNode;
use lock_fred::FredNode;

#[test]
fn a_malformed_url_is_an_error_of_its_own_that_names_it_without_its_secret() {
    for url in [
        "redis://user:s3cr3t@host:6379/nodb",
        "http://user:s3cr3t@host:6379",
        // Without TLS, or with two kinds of it that rustls cannot choose between.
        #[cfg(all(
            any(feature = "enable-rustls", not(feature = "enable-rustls-ring")),
            any(feature = "enable-rustls-ring", not(feature = "enable-rustls")),
            not(feature = "enable-native-tls")
        ))]
        "rediss://user:s3cr3t@host:6379",
        "redis://user:s3cr3t@host:port",
        "redis://user:s3cr3t@host/?protocol=9",
        "redis-cluster://user:s3cr3t@host:7000",
        "redis-sentinel://user:s3cr3t@host:26379?sentinelServiceName=primary",
    ] {
        let error = FredNode::new(url).unwrap_err();
        let source = error.source().unwrap();
        let shown = format!("{error} {error:?} {source} {source:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
        assert!(shown.contains("@host"), "{shown}");
    }
}

#[test]
fn a_url_is_taken_without_the_blanks_around_it_and_refused_with_blanks_in_it() {
    let node = FredNode::new(" redis://u:p@host:7000\r\n").unwrap();
    assert_eq!(node.label(), "host:7000");
    // A parser of URLs leaves line breaks out, and would read the second one as TLS.
    for url in [
        "redis://u:s3c\nr3t@host",
        "redi\nss://u:p@host",
        "redis://u:p w@host",
    ] {
        let error = FredNode::new(url).unwrap_err();
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
        let error = FredNode::new(url).unwrap_err();
        let fault = error.source().unwrap().to_string();
        assert!(fault.starts_with(expected), "{url}: {fault}");
    }
}

#[test]
fn the_label_is_the_server_whatever_the_database_or_the_user() {
    let label = |url: &str| FredNode::new(url).unwrap().label().to_owned();
    assert_eq!(label("redis://Host:7000/0"), "host:7000");
    assert_eq!(label("redis://u:p@host:7000/1?protocol=3"), "host:7000");
    assert_eq!(label("redis://host"), "host:6379");
    assert_eq!(label("redis://[::1]:7000"), "[::1]:7000");
    assert_eq!(label("valkey://host:7000"), "host:7000");
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
            FredNode::new(&rest).ok();
            for url in [
                format!("redis://user:{password}@{rest}"),
                format!("redis://host/{rest}?pass={password}{rest}"),
            ] {
                if let Err(error) = FredNode::new(&url) {
                    let source = error.source().map(ToString::to_string);
                    let shown = format!("{error} {error:?} {source:?}");
                    prop_assert!(!shown.contains(&password), "{url:?}: {shown}");
                }
            }
        }
    }
}
