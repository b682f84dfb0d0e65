//! What the nodes say when they are asked how they are.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use lock_core::check::{Finding, Severity};
use lock_core::node::{Operation, Subscription};
use lock_core::{Command, DistributedLockExt, NodeError, RedisNode, Redlock, Reply};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;
use crate::twins::locks_on_two;

fn are_empty(nodes: &[MemoryNode]) -> bool {
    nodes.iter().all(|node| node.keys().is_empty())
}

#[tokio::test(start_paused = true)]
async fn a_check_says_that_a_quorum_answers_and_leaves_nothing_behind() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let report = locks.check().await;
    assert!(report.is_available(), "{report}");
    assert_eq!((report.working(), report.quorum()), (3, 2));
    assert!(are_empty(&nodes));
    // These forget, as they are memory.
    assert_eq!(report.severity(), Some(Severity::Warning));

    nodes[0].set_fault(Fault::Refuse);
    let report = locks.check().await;
    assert!(report.is_available() && report.working() == 2, "{report}");
    let down = &report.nodes()[0];
    assert!(down.lock.is_err() && down.server.is_err());
    assert!(matches!(down.findings[..], [Finding::Fails { .. }]));

    nodes[1].set_fault(Fault::Error("LOADING dataset".to_owned()));
    let report = locks.check().await;
    assert!(!report.is_available() && report.working() == 1, "{report}");
    assert!(report.to_string().contains("NO LOCK CAN BE ACQUIRED"));
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_check_knows_since_when_a_node_fails() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    locks.lock(KEY).await.unwrap().release().await.unwrap();
    assert_eq!(locks.check().await.nodes()[1].down_since, None);
    let now = || lock_core::runtime::ambient().system_time();
    let before: SystemTime = now();
    nodes[1].set_fault(Fault::Refuse);
    locks.lock(KEY).await.unwrap().release().await.unwrap();
    tokio::time::sleep(3_600_000 * MS).await;
    let since = locks.check().await.nodes()[1].down_since.unwrap();
    // Clocks of a test differ by nanoseconds.
    assert!(since + MS >= before && since <= before + 1_800_000 * MS);

    nodes[1].heal();
    for _ in 0..20 {
        locks.lock(KEY).await.unwrap().release().await.unwrap();
        tokio::time::sleep(100 * MS).await;
    }
    assert_eq!(locks.check().await.nodes()[1].down_since, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_listed_twice_counts_once_in_a_check() {
    let (nodes, locks) = locks_on_two();
    let report = locks.check().await;
    assert_eq!(report.working(), 2, "{report}");
    let Finding::SameServer { other } = &report.nodes()[2].findings[0] else {
        panic!("{report}");
    };
    assert_eq!(&**other, "one");
    settle().await;
    assert!(are_empty(&nodes));
    // As when the locks have found it out themselves.
    for _ in 0..3 {
        locks.lock(KEY).await.unwrap().release().await.unwrap();
        settle().await;
    }
    let report = locks.check().await;
    let found = &report.nodes()[2].findings[0];
    assert!(matches!(found, Finding::SameServer { .. }), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_check_waits_no_longer_for_a_node_than_a_lock_would() {
    let nodes = nodes(3);
    let locks = locks(&nodes);
    locks.lock(KEY).await.unwrap().release().await.unwrap();
    nodes[2].set_fault(Fault::Hang);
    let started = tokio::time::Instant::now();
    let report = locks.check().await;
    assert!(report.is_available(), "{report}");
    assert!(
        !report.nodes()[2]
            .lock
            .as_ref()
            .unwrap_err()
            .to_string()
            .is_empty()
    );
    // The node timeout, and that of the releases.
    assert!(started.elapsed() <= 1_200 * MS, "{:?}", started.elapsed());
    nodes[2].heal();
    tokio::time::sleep(6_000 * MS).await;
    assert!(are_empty(&nodes));
}

#[tokio::test(start_paused = true)]
async fn a_check_dropped_at_any_await_leaves_nothing_behind() {
    for polls in 0..12 {
        let nodes = nodes(3);
        for node in &nodes {
            node.set_fault(Fault::Delay(10 * MS));
        }
        let done = drop_after(polls, locks(&nodes).check()).await;
        assert!(done.is_none() || polls > 1);
        tokio::time::sleep(100 * MS).await;
        assert!(are_empty(&nodes), "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_description_that_makes_no_sense_is_an_error_of_that_node_alone() {
    let text = |text: &str| Reply::Bytes(text.into());
    for told in [
        Reply::Nil,
        Reply::Int(1),
        Reply::Array(vec![]),
        Reply::Array(vec![text("1700000000"), text("5")]),
        Reply::Array(vec![text("soon"), text("5"), text("role:master")]),
        Reply::Array(vec![text("1700000000"), text("-5"), text("role:master")]),
        Reply::Array(vec![text("1700000000"), text("5"), Reply::Int(1)]),
        Reply::Array(vec![text("1700000000"), text("5"), Reply::Nil]),
    ] {
        let node = MemoryNode::new("one");
        let locks = Redlock::new([Telling(node, told.clone())]).unwrap();
        let report = locks.check().await;
        assert!(report.is_available(), "{told:?}");
        let error = report.nodes()[0].server.as_ref().unwrap_err().to_string();
        assert!(error.contains("describe"), "{told:?}: {error}");
    }
}

/// A server that tells this of itself.
#[derive(Debug)]
struct Telling(MemoryNode, Reply);

#[async_trait]
impl RedisNode for Telling {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        match command.operation() {
            Operation::Describe => Ok(self.1.clone()),
            _ => self.0.execute(command, within).await,
        }
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.0.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.0.label()
    }
}
