//! The restart guard: nodes that may have forgotten locks grant none for a while.

use std::time::Duration;

use lock_core::check::Finding;
use lock_core::{
    AcquireError, BootstrapError, BuildError, DistributedLockExt, ExtendError, InvalidInput,
    LockRequest, Redlock, RedlockBuilder, RestartGuard,
};
use lock_testkit::{Fault, MemoryNode};

use crate::support::*;

const MAX_TTL: Duration = Duration::from_secs(10);

/// As long as a node is in quarantine: the drift, and a skew of 100 ms twice.
const QUARANTINE: Duration = Duration::from_millis(10_301);

fn guarded(nodes: &[MemoryNode]) -> RedlockBuilder<MemoryNode> {
    let guard = RestartGuard::new(MAX_TTL).clock_skew(100 * MS);
    builder(nodes).ttl(MAX_TTL).restart_guard(guard)
}

/// A lock whose nodes are all known to have forgotten nothing.
async fn bootstrapped(nodes: &[MemoryNode]) -> Redlock<MemoryNode> {
    let locks = guarded(nodes).build().unwrap();
    assert_eq!(locks.bootstrap().await.unwrap(), nodes.len());
    warm(&locks).await;
    locks
}

fn restart_empty(node: &MemoryNode) {
    node.forget();
}

#[tokio::test(start_paused = true)]
async fn nodes_are_in_quarantine_at_first_unless_somebody_says_that_there_was_no_lock() {
    let nodes = nodes(3);
    let locks = guarded(&nodes).build().unwrap();
    let Err(AcquireError::Unavailable(outage)) = locks.try_lock(KEY).await else {
        panic!("no node can know that it has forgotten nothing");
    };
    let shown = outage.to_string();
    assert!(shown.contains("QUARANTINE 10301 ms left"), "{shown}");
    assert!(holding(&nodes, KEY).is_empty());
    // It is too late for that: these nodes have a guard.
    assert_eq!(locks.bootstrap().await.unwrap(), 0);
    assert!(locks.try_lock(KEY).await.is_err());
    tokio::time::sleep(QUARANTINE).await;
    locks.lock(KEY).await.unwrap().release().await.unwrap();

    bootstrapped(&self::nodes(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_a_lock_has_no_vote_before_the_lock_has_ended() {
    for forgetful in 1..=3 {
        let nodes = nodes(3);
        let locks = bootstrapped(&nodes).await;
        nodes[2].set_fault(Fault::Refuse);
        let guard = locks.lock(KEY).await.unwrap();
        nodes[2].heal();
        let held_from = tokio::time::Instant::now();
        // All that a bare majority knows of the lock, and more.
        nodes[..forgetful].iter().for_each(restart_empty);
        let other = guarded(&nodes).build().unwrap();
        let request = LockRequest::new(KEY).max_wait(MAX_TTL * 3);
        let second = other.lock(request).await.unwrap();
        assert!(held_from.elapsed() >= MAX_TTL, "{:?}", held_from.elapsed());
        assert!(!guard.is_valid());
        assert!(second.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_guard_a_node_that_forgot_lets_two_in() {
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    nodes[2].set_fault(Fault::Refuse);
    let guard = locks.lock(KEY).await.unwrap();
    nodes[2].heal();
    restart_empty(&nodes[0]);
    let second = locks.lock(KEY).await.unwrap();
    assert!(guard.is_valid() && second.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_node_in_quarantine_costs_nothing_while_a_quorum_is_left_and_serves_extensions() {
    let nodes = nodes(3);
    let locks = bootstrapped(&nodes).await;
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    restart_empty(&nodes[0]);
    let other = locks.lock("other").await.unwrap();
    assert!(holding(&nodes, "other") == [1, 2]);
    guard.extend(MAX_TTL).await.unwrap();
    settle().await;
    // It gets no copy either, before its time is over.
    assert_eq!(holding(&nodes, KEY), [1, 2]);
    other.release().await.unwrap();
    guard.release().await.unwrap();
    tokio::time::sleep(QUARANTINE).await;
    let guard = locks.lock(KEY).await.unwrap();
    settle().await;
    assert_eq!(guard.votes().granted, 3);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_extended_is_copied_to_a_node_whose_quarantine_is_over() {
    let nodes = nodes(3);
    let locks = bootstrapped(&nodes).await;
    restart_empty(&nodes[0]);
    let request = LockRequest::new(KEY).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    assert_eq!(holding(&nodes, KEY), [1, 2]);
    tokio::time::sleep(2 * QUARANTINE).await;
    assert_eq!(holding(&nodes, KEY), [0, 1, 2]);
    assert_eq!(guard.votes().granted, 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_remembers_the_longest_quarantine_that_it_was_asked_for() {
    let nodes = nodes(1);
    let locks = bootstrapped(&nodes).await;
    let longer = RestartGuard::new(MAX_TTL * 6);
    let longer = builder(&nodes).restart_guard(longer).build().unwrap();
    longer.lock(KEY).await.unwrap().release().await.unwrap();
    // With its keys, as a replica that takes over: the guard is there, and names another run.
    let guard = nodes[0].get(":restart-guard").unwrap();
    restart_empty(&nodes[0]);
    nodes[0].set_foreign(":restart-guard", guard);
    let Err(AcquireError::Unavailable(outage)) = locks.try_lock(KEY).await else {
        panic!("it is another run");
    };
    assert!(
        outage.to_string().contains("QUARANTINE 70601 ms"),
        "{outage}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_that_was_too_short_for_another_process_is_prolonged() {
    let nodes = nodes(1);
    let short = bootstrapped(&nodes).await;
    let guard = RestartGuard::new(MAX_TTL * 6).clock_skew(100 * MS);
    let long = builder(&nodes).restart_guard(guard).build().unwrap();
    for is_over in [false, true] {
        restart_empty(&nodes[0]);
        // The one that asks first knows of no longer lock.
        assert!(short.try_lock(KEY).await.is_err());
        let waited = if is_over { 2 * MAX_TTL } else { MAX_TTL };
        tokio::time::sleep(waited).await;
        let left = 60_801 - waited.as_millis();
        for locks in [&long, &short] {
            let Err(AcquireError::Unavailable(outage)) = locks.try_lock(KEY).await else {
                panic!("a lock of a minute may have been forgotten");
            };
            let words = format!("QUARANTINE {left} ms");
            assert!(outage.to_string().contains(&words), "{words}: {outage}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_no_guard_is_an_error_and_nothing_is_set() {
    for value in ["", "x", "1 2", "a b c", "a 1 2 3"] {
        let nodes = nodes(1);
        let locks = guarded(&nodes).build().unwrap();
        nodes[0].set_foreign(":restart-guard", value);
        let Err(AcquireError::Unavailable(outage)) = locks.try_lock(KEY).await else {
            panic!("{value}");
        };
        assert!(outage.to_string().contains("WRONGTYPE"), "{outage}");
        assert_eq!(nodes[0].keys(), [b":restart-guard"]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_lock_is_longer_than_its_nodes_wait_for_it() {
    let nodes = nodes(3);
    let locks = bootstrapped(&nodes).await;
    let calls = nodes[0].calls().total();
    let longer = MAX_TTL + MS;
    let expected = InvalidInput::TtlAboveGuard {
        ttl: longer,
        max: MAX_TTL,
    };
    let request = LockRequest::new(KEY).ttl(longer);
    match locks.lock(request.clone()).await {
        Err(AcquireError::Invalid(invalid)) => assert_eq!(invalid, expected),
        other => panic!("{other:?}"),
    }
    assert_eq!(nodes[0].calls().total(), calls);
    let guard = locks.lock(KEY).await.unwrap();
    match guard.extend(longer).await {
        Err(ExtendError::Invalid(invalid)) => assert_eq!(invalid, expected),
        other => panic!("{other:?}"),
    }
    assert!(guard.is_valid());
    // The claim of a tick is kept for its whole ttl, and is not covered.
    let claim = LockRequest::new("tick").ttl(longer).hold_at_least(longer);
    locks.lock(claim).await.unwrap().release().await.unwrap();

    let with = |guard| builder(&nodes).restart_guard(guard).build();
    let result = with(RestartGuard::new(Duration::from_secs(1)));
    assert!(matches!(
        result,
        Err(BuildError::Invalid(InvalidInput::TtlAboveGuard { .. }))
    ));
    let result = with(RestartGuard::new(Duration::ZERO));
    assert!(matches!(result, Err(BuildError::Invalid(_))), "{result:?}");
    let result = guarded(&nodes).one_key_per_command(true).build();
    assert!(matches!(result, Err(BuildError::GuardApart)), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn the_guards_key_is_no_lock() {
    let nodes = nodes(3);
    let locks = bootstrapped(&nodes).await;
    let result = locks.lock(":restart-guard").await;
    assert!(matches!(
        result,
        Err(AcquireError::Invalid(InvalidInput::ReservedSuffix { .. }))
    ));
    let _guard = locks.lock(KEY).await.unwrap();
    let listed = locks.list("", 10).await;
    let names: Vec<_> = listed.locks.iter().map(|lock| &lock.resource[..]).collect();
    assert_eq!(names, [KEY.as_bytes()]);
}

#[tokio::test(start_paused = true)]
async fn a_check_tells_of_nodes_in_quarantine_and_of_processes_without_the_guard() {
    let nodes = nodes(3);
    let guarded = bootstrapped(&nodes).await;
    let report = guarded.check().await;
    assert_eq!(report.working(), 3, "{report}");
    restart_empty(&nodes[1]);
    let report = guarded.check().await;
    assert!(report.is_available() && report.working() == 2, "{report}");
    let found = report.nodes()[1].findings[0].clone();
    let Finding::Quarantined { .. } = found else {
        panic!("{report}");
    };
    assert!(found.to_string().contains("10301 ms"), "{found}");

    let plain = locks(&nodes);
    let report = plain.check().await;
    for node in report.nodes() {
        let is_unguarded = |finding: &Finding| matches!(finding, Finding::Unguarded);
        assert!(node.findings.iter().any(is_unguarded), "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_reaches_every_node_or_says_which_not() {
    let nodes = nodes(3);
    let locks = guarded(&nodes).build().unwrap();
    nodes[2].set_fault(Fault::Refuse);
    let Err(BootstrapError::Unavailable { nodes: reports }) = locks.bootstrap().await else {
        panic!("one node has no guard");
    };
    assert!(reports.to_string().contains("refused"), "{reports}");
    nodes[2].heal();
    // None has one yet, since it was not known of all.
    assert_eq!(locks.bootstrap().await.unwrap(), 3);
    // Once there is one, another node without one has forgotten.
    restart_empty(&nodes[0]);
    assert_eq!(locks.bootstrap().await.unwrap(), 0);
    let report = locks.check().await;
    assert!(matches!(
        report.nodes()[0].findings[0],
        Finding::Quarantined { .. }
    ));
    locks.lock(KEY).await.unwrap().release().await.unwrap();
    let plain = self::locks(&nodes).bootstrap().await;
    assert!(matches!(plain, Err(BootstrapError::NoGuard)), "{plain:?}");
}
