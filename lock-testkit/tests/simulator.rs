//! The simulator itself: it repeats itself, and what it runs holds.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, Redlock};
use lock_testkit::sim::{
    Campaign, ClientId, Fault, FaultKind, Plan, Scenario, ServerId, Sim, run_seed, shrink,
};

/// Tells a test that it runs in a process of its own, for another test.
const CHILD: &str = "LOCK_TESTKIT_SIMULATOR_CHILD";

const SEEDS: std::ops::Range<u64> = 100..112;

fn hashes() -> String {
    let hashes = SEEDS.map(|seed| format!("{:016x}", run_seed(seed).hash));
    hashes.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_seed_does_the_same_again() {
    let first = hashes();
    assert_eq!(first, hashes());
    if std::env::var_os(CHILD).is_some() {
        println!("hashes: {first}");
    }
}

#[test]
fn a_seed_does_the_same_in_another_process() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_seed_does_the_same_again", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(output.contains(&hashes()), "{output}");
}

#[test]
fn a_trace_changes_nothing() {
    let scenario = Scenario::new().traced();
    for seed in SEEDS {
        let traced = scenario.run(Plan::new(seed));
        assert!(!traced.trace.is_empty());
        assert_eq!(traced.hash, run_seed(seed).hash);
    }
}

#[test]
fn different_seeds_do_different_things() {
    assert_ne!(run_seed(1).hash, run_seed(2).hash);
}

#[test]
fn a_hundred_seeds_hold() {
    let scenario = Scenario::new();
    let tally = Campaign::new(&scenario)
        .threads(2)
        .run(0..120, Plan::new, |_| ());
    assert_eq!(tally.runs, 120);
    let failures = tally.failures.iter();
    let failures = failures.map(|outcome| (outcome.plan.seed, &outcome.violations));
    assert_eq!(failures.collect::<Vec<_>>(), []);
}

/// A lock that asks one node only, of however many.
fn hasty(sim: &Sim, client: ClientId, plan: &Plan) -> Arc<dyn DistributedLock> {
    // Each client another one, so that they never meet.
    let node = sim.nodes(client).swap_remove(client.index() % plan.servers);
    let built = Redlock::builder()
        .nodes([node])
        .runtime(sim.runtime(client))
        .ttl(plan.ttl);
    Arc::new(built.build().unwrap())
}

#[test]
fn a_lock_that_excludes_nobody_is_found_out_and_its_failure_made_simple() {
    let scenario = Scenario::new().lock(hasty);
    let tally = Campaign::new(&scenario)
        .stop_after(1)
        .run(0..100, Plan::new, |_| ());
    let failure = tally.failures.into_iter().next().unwrap();
    let before = failure.plan.faults.len();
    let simple = shrink(&scenario, failure);
    assert!(!simple.violations.is_empty());
    assert!(simple.plan.faults.len() <= before);
}

#[test]
fn a_holder_that_sleeps_through_its_lock_knows_it_at_once() {
    let sim = Sim::new(1);
    sim.add_servers(3);
    let client = sim.add_client();
    let locks = Redlock::builder()
        .nodes(sim.nodes(client))
        .runtime(sim.runtime(client))
        .ttl(Duration::from_secs(10))
        .build()
        .unwrap();
    let runtime = sim.runtime(client);
    sim.spawn(client, async move {
        let guard = locks.lock("a").await.unwrap();
        runtime.sleep(Duration::from_secs(1)).await;
        assert!(!guard.is_valid());
    });
    let fault = Fault {
        kind: FaultKind::PauseClient,
        server: ServerId::nth(0),
        client,
        lasting: Duration::from_secs(60),
    };
    sim.inject_after(Duration::from_millis(100), fault);
    sim.run_for(Duration::from_secs(50));
    assert_eq!(sim.tasks_alive(client), 1);
    sim.run_for(Duration::from_secs(50));
    assert_eq!(sim.tasks_alive(client), 0);
}
