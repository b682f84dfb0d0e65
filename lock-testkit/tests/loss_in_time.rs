//! When renewal becomes impossible, the holder hears of it before the keys can expire.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use lock_core::{DistributedLockExt, LockRequest, Redlock};
use lock_testkit::sim::{Chance, ClientId, Fault, FaultKind, ServerId, Sim};

const FAULT_TIMES: usize = 10_000;
/// Each with a fault time of its own.
const CLIENTS: usize = 25;
const SERVERS: usize = 5;
const QUORUM: usize = 3;
const TTL: Duration = Duration::from_secs(1);
/// As far as the clock of a client and those of servers may be apart, in parts per billion.
const DRIFT: i64 = 9_800_000;

/// What became of all locks.
#[derive(Default)]
struct Told {
    /// With all keys there, still.
    with_all_keys: AtomicUsize,
    /// With a quorum of them: the fault had hit an extension that was under way.
    with_a_quorum: AtomicUsize,
}

/// Holds a lock that is extended automatically, until it is lost.
async fn hold(
    sim: Weak<Sim>,
    locks: Redlock<lock_testkit::sim::SimNode>,
    key: String,
    told: Arc<Told>,
) {
    let request = LockRequest::new(&key).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    guard.lost().await;
    assert!(!guard.is_valid());
    let sim = sim.upgrade().unwrap();
    let servers = (0..SERVERS).map(|server| sim.keys(ServerId::nth(server)));
    let has_key = |keys: &Vec<(Vec<u8>, Duration)>| keys.iter().any(|(it, _)| it == key.as_bytes());
    match servers.filter(has_key).count() {
        SERVERS => told.with_all_keys.fetch_add(1, Ordering::Relaxed),
        QUORUM.. => told.with_a_quorum.fetch_add(1, Ordering::Relaxed),
        left => panic!("{key} was lost when {left} nodes had the key"),
    };
}

/// From a random moment on a client does not reach a random majority of nodes, or does not hear
/// from them.
fn inject(sim: &Sim, client: ClientId, chance: &mut Chance) -> Duration {
    let kinds = [
        FaultKind::Partition,
        FaultKind::PartitionRequests,
        FaultKind::PartitionReplies,
    ];
    let at = chance.duration(Duration::from_millis(10), TTL / 2);
    let mut servers = (0..SERVERS).collect::<Vec<_>>();
    for _ in 0..chance.index(QUORUM) {
        servers.swap_remove(chance.index(servers.len()));
    }
    for server in servers {
        let fault = Fault {
            kind: *chance.pick(&kinds).unwrap(),
            server: ServerId::nth(server),
            client,
            lasting: TTL * 10,
        };
        sim.inject_after(at, fault);
    }
    at
}

fn world(seed: u64, told: &Arc<Told>) {
    let sim = Arc::new(Sim::new(seed));
    let mut chance = Chance::new(seed);
    sim.add_servers(SERVERS);
    for number in 0..CLIENTS {
        let client = sim.add_client_with(chance.between(-DRIFT, DRIFT), 0);
        let locks = Redlock::builder()
            .nodes(sim.nodes(client))
            .runtime(sim.runtime(client))
            .ttl(TTL)
            .build()
            .unwrap();
        let held = hold(
            Arc::downgrade(&sim),
            locks,
            format!("k{number}"),
            Arc::clone(told),
        );
        sim.spawn(client, held);
        inject(&sim, client, &mut chance);
    }
    sim.run_for(TTL * 2);
}

#[test]
fn a_loss_is_told_before_the_keys_can_expire_at_10_000_random_fault_times() {
    let told = Arc::<Told>::default();
    let worlds = (FAULT_TIMES / CLIENTS) as u64;
    thread::scope(|scope| {
        for seeds in [0..worlds / 2, worlds / 2..worlds] {
            let told = &told;
            scope.spawn(move || seeds.for_each(|seed| world(seed, told)));
        }
    });
    let with_all_keys = told.with_all_keys.load(Ordering::Relaxed);
    let with_a_quorum = told.with_a_quorum.load(Ordering::Relaxed);
    assert_eq!(with_all_keys + with_a_quorum, FAULT_TIMES, "all were told");
    // An extension takes a millisecond, and there is one in 330.
    assert!(with_a_quorum < FAULT_TIMES / 100, "{with_a_quorum}");
}
