//! What another version, or another process, has left on the servers is respected: docs/wire.md.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

use std::time::{Duration, UNIX_EPOCH};

use lock_core::tick::{TickClaim, TickJob};
use lock_core::{DistributedLockExt, Lease, LockRequest, Redlock};
use lock_testkit::MemoryNode;

const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

fn locks(nodes: &[MemoryNode]) -> Redlock<MemoryNode> {
    Redlock::builder()
        .nodes(nodes.to_vec())
        .prefix("app:")
        .build()
        .unwrap()
}

fn nodes() -> Vec<MemoryNode> {
    MemoryNode::several_with_runtime(3, &lock_core::runtime::ambient())
}

/// Sets the key as somebody else would.
fn set(nodes: &[MemoryNode], key: &str, value: &str) {
    for node in nodes {
        node.set_foreign(key, value);
        assert!(node.expire(key, Duration::from_secs(60)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_exists_is_a_lock_that_is_held_whatever_its_value() {
    for value in [ID, &format!("{ID} web-1 pid 7"), "another library's", ""] {
        let nodes = nodes();
        set(&nodes, "app:invoice-7", value);
        let locks = locks(&nodes);
        assert!(
            locks.try_lock("invoice-7").await.unwrap().is_none(),
            "{value}"
        );
        assert!(
            locks.try_lock("invoice-8").await.unwrap().is_some(),
            "{value}"
        );
        assert_eq!(nodes[0].get("app:invoice-7").unwrap(), value.as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn keys_and_values_are_as_they_are_written_down() {
    let nodes = nodes();
    let locks = locks(&nodes);
    let several = locks.lock(LockRequest::many(["a", "b"])).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(nodes[0].keys(), [b"app:a", b"app:b"]);
    for key in ["app:a", "app:b"] {
        let value = String::from_utf8(nodes[0].get(key).unwrap()).unwrap();
        assert_eq!(value, several.token());
        let (id, note) = value.split_at(36);
        assert!(
            id.bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')),
            "{id}"
        );
        assert!(
            note.starts_with(' ') && (2..=91).contains(&note.len()),
            "{note}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_process_is_respected() {
    let nodes = nodes();
    let locks = locks(&nodes);
    let job = TickJob::every("report", Duration::from_secs(10))
        .build()
        .unwrap();
    let now = lock_core::runtime::ambient().system_time();
    let tick = job.period().unwrap().tick_at_or_before(now).unwrap();
    let instant = tick.system_time().unwrap();
    let millis = instant.duration_since(UNIX_EPOCH).unwrap().as_millis();
    set(&nodes, &format!("app:report:{millis}"), ID);
    assert!(matches!(
        job.claim(&locks, tick).await.unwrap(),
        TickClaim::AlreadyClaimed
    ));
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_another_process_is_resumed() {
    let value = format!("{ID} web-1 pid 7");
    let key: String = "invoice-7"
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let times = "30000000000:12345000000:0";
    for (text, value) in [
        (
            format!("lease2:{key}:{ID}%20web-1%20pid%207:{times}"),
            &*value,
        ),
        (format!("lease2:{key}:{ID}:{times}"), ID),
        (format!("lease1:{key}:{ID}:{times}:3"), ID),
    ] {
        let nodes = nodes();
        set(&nodes, "app:invoice-7", value);
        let lease: Lease = text.parse().unwrap();
        let guard = locks(&nodes).resume(&lease).await.unwrap();
        assert_eq!(guard.resource(), b"invoice-7");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(nodes.iter().all(|node| node.keys().is_empty()), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_counter_of_another_process_is_counted_on_from() {
    let nodes = nodes();
    let value = format!("1796141184498438 {ID} web-1 pid 7");
    set(&nodes, "{app:invoice-7}:fencing-counter", &value);
    set(&nodes, "app:{7}:fencing-counter", &value);
    for resource in ["invoice-7", "{7}"] {
        let request = LockRequest::new(resource).fencing(true);
        let guard = locks(&nodes).lock(request).await.unwrap();
        let token = guard.fencing_token().unwrap();
        assert_eq!(token.get(), 1_796_141_184_498_439, "{resource}");
    }
    let key = "696e766f6963652d37";
    let text = format!("lease2:{key}:{ID}:30000000000:12345000000:0:1796141184498438");
    let lease: Lease = text.parse().unwrap();
    assert_eq!(lease.fencing_token().unwrap().get(), 1_796_141_184_498_438);
}
