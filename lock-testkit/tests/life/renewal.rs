//! Locks that are extended automatically.

use std::time::{Duration, Instant};

use lock_core::{
    AcquireError, BuildError, DistributedLockExt, InvalidInput, LockGuard, LockRequest, Loss,
    Redlock,
};
use lock_testkit::RedisServer;

use super::support::*;
use crate::backend::Node;

/// C20.
#[apply(async_test_on_threads!)]
async fn a_lock_that_is_lost_with_its_server_is_over_and_can_be_taken_anew() {
    let servers = servers(1);
    let locks = locks(&servers).await;
    let tasks_before = tasks();
    let guard = locks.lock(extended(KEY, 2 * SECOND)).await.unwrap();
    let lost = [guard.lost(), guard.lost()].map(spawn);
    sleep(3 * SECOND).await;
    assert!(guard.is_valid() && !lost.iter().any(|lost| lost.is_finished()));
    servers[0].kill().unwrap();
    for lost in lost {
        assert_eq!(timeout(LONG, lost).await.unwrap().unwrap(), Loss::Expired);
    }
    assert!(!guard.is_valid());
    sleep(2 * SECOND).await;
    servers[0].restart().unwrap();
    // Nobody goes on about the old one.
    until("no task is left", LONG, || tasks() <= tasks_before).await;
    all_quiet(&servers, 2 * SECOND).await;
    let returned = Instant::now();
    let again = locks.lock(extended(KEY, 2 * SECOND)).await.unwrap();
    assert!(returned.elapsed() < LONG / 3, "{:?}", returned.elapsed());
    assert!(again.is_valid() && !guard.is_valid());
    guard.release().await.unwrap_err();
    assert_eq!(get(&servers[0], KEY).as_deref(), Some(again.token()));
    released(&again).await.unwrap();
}

/// C22.
#[apply(async_test!)]
async fn an_interval_too_close_to_the_ttl_is_refused() {
    let servers = servers(1);
    let locks = locks(&servers).await;
    let before = requests(&servers);
    for interval in [3, 4, 100].map(Duration::from_secs) {
        let request = extended(KEY, 3 * SECOND).extend_interval(interval);
        assert!(matches!(
            locks.lock(request).await,
            Err(AcquireError::Invalid(InvalidInput::ExtendInterval { .. }))
        ));
        let built = builder(urls(&servers))
            .ttl(3 * SECOND)
            .extend_interval(interval);
        assert!(matches!(
            built.auto_extend(true).build(),
            Err(BuildError::Invalid(InvalidInput::ExtendInterval { .. }))
        ));
    }
    assert_eq!(requests(&servers), before);
}

/// C22.
#[apply(async_test_on_threads!)]
async fn many_locks_are_kept_while_a_server_is_slow_again_and_again() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let mut acquiring = JoinSet::new();
    let mut guards = Vec::new();
    for number in 0..1000 {
        if acquiring.len() >= 32 {
            guards.push(acquiring.join_next().await.unwrap().unwrap());
        }
        let locks = locks.clone();
        acquiring.spawn(async move {
            let request = extended(format!("k{number}"), 3 * SECOND);
            locks.lock(request).await.unwrap()
        });
    }
    guards.extend(acquiring.join_all().await);
    for second in 0..12 {
        let slow = &servers[second % 3];
        ask(slow, &["CLIENT", "PAUSE", "200", "WRITE"]);
        sleep(SECOND).await;
        let valid = guards.iter().filter(|guard| guard.is_valid()).count();
        assert_eq!(valid, 1000);
    }
    drop(guards);
    until("released", LONG, || keys(&servers) == 0).await;
}

/// How servers go away.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// They do not answer anybody.
    Hang,
    /// They change no key, but say which there are.
    Freeze,
    Die,
}

/// What is the ttl of locks that are about to be lost.
const SHORT: Duration = Duration::from_secs(1);

impl Outage {
    fn strike(self, servers: &[RedisServer]) {
        for server in servers {
            match self {
                Self::Hang => server.pause().unwrap(),
                Self::Die => server.kill().unwrap(),
                Self::Freeze => {
                    ask(server, &["CLIENT", "PAUSE", "60000", "WRITE"]);
                }
            }
        }
    }

    fn heal(self, servers: &[RedisServer]) {
        for server in servers {
            match self {
                Self::Hang => server.resume().unwrap(),
                Self::Die => server.restart().unwrap(),
                Self::Freeze => {
                    ask(server, &["CLIENT", "UNPAUSE"]);
                }
            }
        }
    }
}

/// No key that was set or extended before is there any more one ttl after a quorum was lost.
async fn lose_once(locks: &Redlock<Node>, servers: &[RedisServer], outage: Outage) {
    let guard = locks.lock(extended(KEY, SHORT)).await.unwrap();
    sleep(random_up_to(SHORT)).await;
    let quorum = &servers[..3];
    outage.strike(quorum);
    let end = Instant::now() + SHORT;
    while Instant::now() < end {
        if matches!(outage, Outage::Freeze) {
            let can_be_taken = quorum.iter().all(|server| pttl(server, KEY) == -2);
            assert!(!can_be_taken || !guard.is_valid(), "{outage:?}");
        }
        sleep(2 * MS).await;
    }
    assert!(!guard.is_valid(), "{outage:?}");
    assert_eq!(timeout(LONG, guard.lost()).await.unwrap(), Loss::Expired);
    outage.heal(quorum);
    taken_by_a_rival(servers, &guard).await;
}

/// Somebody else can take the lock, and then the guard is still not valid.
async fn taken_by_a_rival(servers: &[RedisServer], guard: &LockGuard) {
    let rival = builder(urls(servers)).build().unwrap();
    let request = LockRequest::new(KEY).ttl(60 * SECOND).max_wait(LONG);
    let taken = rival.lock(request).await.unwrap();
    assert!(!guard.is_valid());
    released(&taken).await.unwrap();
}

#[apply(async_test_on_threads!)]
async fn a_lock_that_cannot_be_extended_is_invalid_by_the_time_its_keys_can_expire() {
    let mut sets = JoinSet::new();
    for set in 0..5 {
        sets.spawn(async move {
            let servers = servers(5);
            let locks = locks(&servers).await;
            for round in 0..10 {
                let outage = [Outage::Hang, Outage::Freeze, Outage::Die][(set + round) % 3];
                lose_once(&locks, &servers, outage).await;
            }
        });
    }
    assert_eq!(sets.join_all().await.len(), 5);
}
