//! Random scenarios: several clients over nodes that fail at random, calls dropped at random
//! moments. Whatever happens, the promises hold. A failure names its seed; `STRESS_SEED=7` repeats
//! it, and `STRESS_SEEDS=30000` runs so many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lock_core::runtime::{BoxFuture, Runtime, ambient};
use lock_core::{AcquireError, DistributedLock, LockGuard, LockRequest, Redlock, RetryPolicy};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

const SEEDS: u64 = 100;
const CLIENTS: u64 = 4;
const TTLS: [u64; 3] = [40, 300, 60_000];

/// A small generator, the same on all platforms.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_micros(self.below(millis * 1_000))
    }
}

/// The runtime of the test, with tokens and pauses that a seed repeats.
#[derive(Debug)]
struct Seeded {
    runtime: Arc<dyn Runtime>,
    chance: Mutex<Chance>,
}

impl Runtime for Seeded {
    fn now(&self) -> Duration {
        self.runtime.now()
    }

    fn system_time(&self) -> SystemTime {
        self.runtime.system_time()
    }

    fn random(&self) -> [u8; 16] {
        let mut chance = self.chance.lock().unwrap();
        let (low, high) = (chance.next(), chance.next());
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.runtime.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(task);
    }
}

/// Who believes to hold the lock, and until when.
#[derive(Debug, Default)]
struct Holders(Mutex<BTreeMap<u64, Instant>>);

impl Holders {
    fn note(&self, client: u64, guard: &LockGuard, seed: u64) {
        let mut holders = self.0.lock().unwrap();
        let now = Instant::now();
        holders.retain(|holder, until| *holder == client || *until > now);
        if guard.is_valid() {
            holders.insert(client, now + guard.remaining());
        }
        assert!(holders.len() <= 1, "seed {seed}: {holders:?} at {now:?}");
    }

    fn forget(&self, client: u64) {
        self.0.lock().unwrap().remove(&client);
    }
}

struct Client {
    seed: u64,
    number: u64,
    chance: Chance,
    locks: Redlock<MemoryNode>,
    holders: Arc<Holders>,
}

impl Client {
    async fn run(mut self) {
        for _ in 0..self.chance.below(12) {
            let request = self.request();
            let patience = match self.chance.one_in(3) {
                true => self.chance.up_to(200),
                // No call takes longer than its wait and the first attempt's time to connect.
                false => Duration::from_millis(3_000),
            };
            let started = Instant::now();
            let acquired = match self.chance.one_in(3) {
                true => timeout(patience, self.locks.try_acquire(&request)).await,
                false => timeout(patience, self.acquire(&request)).await,
            };
            let Ok(acquired) = acquired else {
                let seed = self.seed;
                assert!(started.elapsed() < 3_000 * MS, "seed {seed}: {request:?}");
                continue;
            };
            if let Ok(Some(guard)) = acquired {
                self.hold(guard).await;
            }
            sleep(self.chance.up_to(20)).await;
        }
    }

    fn request(&mut self) -> LockRequest {
        let ttl = TTLS[self.chance.below(3) as usize];
        let delay = [0, 0, 2, 30][self.chance.below(4) as usize];
        let retry = RetryPolicy::new().delay(delay * MS + MS / 100);
        LockRequest::new(KEY)
            .ttl(Duration::from_millis(ttl))
            .max_wait(self.chance.up_to(1_000))
            .retry(retry)
            .fail_if_held(self.chance.one_in(4))
            .fail_if_unavailable(self.chance.one_in(4))
    }

    async fn acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        self.locks.acquire(request).await.map(Some)
    }

    async fn hold(&mut self, guard: LockGuard) {
        self.holders.note(self.number, &guard, self.seed);
        for _ in 0..self.chance.below(4) {
            sleep(self.chance.up_to(30)).await;
            if self.chance.one_in(2) {
                continue;
            }
            let ttl = Duration::from_millis(TTLS[self.chance.below(3) as usize]);
            let patience = self.chance.up_to(150);
            // Whether it is extended, lost or dropped half-way, the guard knows.
            let both = async { tokio::join!(guard.extend(ttl), guard.extend(ttl * 2)) };
            drop(timeout(patience, both).await);
            self.holders.note(self.number, &guard, self.seed);
        }
        self.holders.forget(self.number);
        match self.chance.below(3) {
            0 => drop(guard),
            1 => drop(guard.release().await),
            _ => drop(timeout(self.chance.up_to(50), guard.release()).await),
        }
    }
}

/// Breaks and mends nodes. The first one also loses its memory, if the quorum survives that.
async fn break_things(nodes: Vec<MemoryNode>, may_forget: bool, mut chance: Chance) {
    let faults = [
        Fault::Hang,
        Fault::Refuse,
        Fault::LoseReply,
        Fault::error("LOADING Redis is loading the dataset in memory"),
        Fault::Delay(MS),
        Fault::Delay(25 * MS),
        Fault::Delay(120 * MS),
    ];
    for _ in 0..30 {
        sleep(chance.up_to(60)).await;
        let number = chance.below(nodes.len() as u64) as usize;
        let node = &nodes[number];
        match chance.below(3) {
            0 if may_forget && number == 0 => node.forget(),
            0 => node.heal(),
            _ => node.set_fault(faults[chance.below(faults.len() as u64) as usize].clone()),
        }
    }
}

async fn scenario(seed: u64) {
    let mut chance = Chance(seed);
    let nodes = nodes([1, 2, 3, 4, 5][chance.below(5) as usize]);
    let holders = Arc::new(Holders::default());
    let mut tasks = tokio::task::JoinSet::new();
    // So many that may forget are survived: 2 * quorum - nodes - 1.
    let quorum = (nodes.len() / 2 + 1 + chance.below(2) as usize).min(nodes.len());
    let may_forget = 2 * quorum > nodes.len() + 1;
    // Some clients share what is known of the nodes, others know for themselves.
    let runtime: Arc<dyn Runtime> = Arc::new(Seeded {
        runtime: ambient(),
        chance: Mutex::new(Chance(chance.next())),
    });
    let locks = || {
        let builder = builder(&nodes).quorum(quorum);
        builder.runtime(Arc::clone(&runtime)).build().unwrap()
    };
    let shared = locks();
    for number in 0..CLIENTS {
        let locks = match chance.one_in(2) {
            true => shared.clone(),
            false => locks(),
        };
        let client = Client {
            seed,
            number,
            chance: Chance(chance.next()),
            locks,
            holders: Arc::clone(&holders),
        };
        tasks.spawn(client.run());
    }
    let faults = tokio::spawn(break_things(
        nodes.clone(),
        may_forget,
        Chance(chance.next()),
    ));
    while let Some(client) = tasks.join_next().await {
        client.unwrap();
    }
    faults.await.unwrap();
    nodes.iter().for_each(MemoryNode::heal);
    // The longest pause of those who send owed releases again, and what is delayed.
    sleep(1_300 * MS).await;
    for node in &nodes {
        let left = (node.keys().len(), node.waiting());
        assert_eq!(left, (0, 0), "seed {seed}: {node:?}");
    }
    let guard = shared.acquire(&LockRequest::new(KEY)).await;
    assert!(guard.is_ok(), "seed {seed}: {guard:?}");
}

#[test]
fn whatever_fails_the_lock_is_exclusive_and_leaves_nothing_behind() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().unwrap())
    };
    let seed = number("STRESS_SEED");
    let count = number("STRESS_SEEDS").unwrap_or(if seed.is_some() { 1 } else { SEEDS });
    let from = seed.unwrap_or(0);
    for seed in from..from + count {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(scenario(seed));
    }
}
