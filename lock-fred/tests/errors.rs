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
fn the_label_is_the_server_whatever_the_database_or_the_user() {
    let label = |url: &str| FredNode::new(url).unwrap().label().to_owned();
    assert_eq!(label("redis://Host:7000/0"), "host:7000");
    assert_eq!(label("redis://u:p@host:7000/1?protocol=3"), "host:7000");
    assert_eq!(label("redis://host"), "host:6379");
    assert_eq!(label("redis://[::1]:7000"), "[::1]:7000");
    assert_eq!(label("valkey://host:7000"), "host:7000");
}
