//! Bad input is a typed error that names value and limit, before anything is sent.

use std::time::Duration;

use lock_core::{AcquireError, BuildError, DistributedLockExt, InvalidInput, LockRequest, Redlock};
use lock_testkit::MemoryNode;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_before_anything_is_sent() {
    let nodes = nodes(3);
    let locks = builder(&nodes).prefix("app:").build().unwrap();
    let ttl = |ttl| LockRequest::new(KEY).ttl(ttl);
    let table = [
        (ttl(Duration::ZERO), "ttl 0 ms is below the minimum of 1 ms"),
        (
            ttl(Duration::from_nanos(1)),
            "ttl 0.000001 ms is below the minimum of 1 ms",
        ),
        (
            ttl(Duration::from_micros(999)),
            "ttl 0.999 ms is below the minimum of 1 ms",
        ),
        (
            ttl(2 * MS),
            "ttl 2 ms leaves no validity: clock drift takes 2.02 ms of it and the node timeout 0.2 ms",
        ),
        (
            ttl(Duration::MAX),
            "ttl 18446744073709551615999.999999 ms is above the maximum of 365 days",
        ),
        (
            LockRequest::new(""),
            "resource is empty, at least 1 byte is needed",
        ),
        (
            LockRequest::new(vec![b'k'; 1 << 20]),
            "resource with its prefix has 1048580 bytes, above the maximum of 65536 bytes",
        ),
        (
            LockRequest::new(vec![b'k'; (64 << 10) - 3]),
            "resource with its prefix has 65537 bytes, above the maximum of 65536 bytes",
        ),
    ];
    for (request, expected) in table {
        for result in [
            locks.lock(request.clone()).await.map(Some),
            locks.try_lock(request).await,
        ] {
            let Err(AcquireError::Invalid(error)) = result else {
                panic!("{result:?}");
            };
            assert_eq!(error.to_string(), expected);
        }
    }
    assert_eq!(nodes[0].calls().total(), 0);
    let longest = LockRequest::new(vec![b'k'; (64 << 10) - 4]);
    assert!(locks.lock(longest).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn names_are_bytes_and_different_bytes_are_different_locks() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let names: [&[u8]; 5] = [
        b"\xff\xfe\x00\x0d\x0a",
        b"\xff",
        b"\xfe",
        "🔒".as_bytes(),
        b"\0",
    ];
    let mut guards = Vec::new();
    for name in names {
        let guard = locks.lock(name).await.unwrap();
        assert_eq!(guard.resource(), name);
        guards.push(guard);
    }
    settle().await;
    assert_eq!(nodes[0].keys().len(), names.len());
    for name in names {
        assert!(locks.try_lock(name).await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_stands_before_the_name_and_keeps_locks_apart() {
    let nodes = nodes(3);
    let app = builder(&nodes).prefix("app:").build().unwrap();
    let guard = app.lock(KEY).await.unwrap();
    settle().await;
    assert_eq!(guard.resource(), KEY.as_bytes());
    assert_eq!(nodes[0].keys(), [b"app:k"]);
    assert!(locks(&nodes).try_lock(KEY).await.unwrap().is_some());
    guard.extend(60_000 * MS).await.unwrap();
    guard.release().await.unwrap();
    settle().await;
    assert!(nodes[0].keys().is_empty());
}

fn build_error(nodes: &[MemoryNode]) -> BuildError {
    builder(nodes).build().unwrap_err()
}

#[test]
fn bad_settings_are_refused_when_the_lock_is_built() {
    assert_eq!(build_error(&[]), BuildError::NoNodes);
    assert_eq!(
        Redlock::<MemoryNode>::new([]).unwrap_err().to_string(),
        "no nodes given, at least 1 is needed"
    );
    let twice = ["a:1", "b:2", "a:1"].map(MemoryNode::new);
    assert_eq!(
        build_error(&twice).to_string(),
        "node a:1 is listed twice, each node must be an independent server"
    );
    let many = MemoryNode::several(65);
    assert_eq!(
        build_error(&many).to_string(),
        "65 nodes given, above the maximum of 64"
    );

    let five = MemoryNode::several(5);
    for quorum in [0, 2, 6] {
        let error = builder(&five).quorum(quorum).build().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("quorum {quorum} is outside 3..=5 for 5 nodes")
        );
    }
    assert!(builder(&five[..4]).quorum(2).build().is_err());
    for factor in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert!(builder(&five).drift_factor(factor).build().is_err());
    }
    let prefix = |len| builder(&five).prefix(vec![b'p'; len]).build();
    assert!(prefix(64 * 1024 - 1).is_ok());
    let (len, max) = (64 * 1024 + 1, 64 * 1024);
    assert_eq!(
        prefix(64 * 1024).unwrap_err(),
        BuildError::Invalid(InvalidInput::ResourceTooLong { len, max })
    );
    let ttl = |ttl| builder(&five).ttl(ttl).build().unwrap_err();
    assert_eq!(
        ttl(Duration::ZERO),
        BuildError::Invalid(InvalidInput::TtlTooShort {
            ttl: Duration::ZERO
        })
    );
    let no_time = builder(&five)
        .node_timeout(Duration::ZERO)
        .build()
        .unwrap_err();
    assert_eq!(
        no_time.to_string(),
        "node_timeout is 0 ms, it must be longer"
    );
    assert!(builder(&five).node_timeout(Duration::MAX).build().is_err());
    assert!(
        builder(&five)
            .connect_timeout(Duration::MAX)
            .build()
            .is_ok()
    );
}
