//! A lock that is held through one fault after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::{DistributedLockExt, LockGuard, LockRequest, Redlock};
use lock_testkit::RedisServer;

use super::support::*;
use crate::backend::Node;

const TTL: Duration = Duration::from_secs(3);

/// For so long the lock is held.
const HOLD: Duration = Duration::from_secs(60);

/// Somebody who tries to get the lock all the time, and says how often he tried.
fn rival(locks: Redlock<Node>, is_over: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let is_over = Arc::clone(is_over);
    spawn(async move {
        let mut tries = 0;
        while !is_over.load(Ordering::SeqCst) {
            let taken = locks.try_lock(LockRequest::new(KEY).ttl(TTL)).await;
            // An outage is none of his business.
            assert!(!matches!(taken, Ok(Some(_))), "a second holder");
            tries += 1;
            sleep(5 * MS).await;
        }
        tries
    })
}

/// Looks all the time whether the guard is valid.
fn watch(guard: &Arc<LockGuard>, is_over: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (guard, is_over) = (Arc::clone(guard), Arc::clone(is_over));
    spawn(async move {
        while !is_over.load(Ordering::SeqCst) {
            assert!(guard.is_valid(), "a false loss");
            sleep(MS).await;
        }
    })
}

/// The next fault comes when the last one is healed: every server has the key.
async fn healed(servers: &[RedisServer], guard: &LockGuard, fault: &str) {
    until(&format!("healed after {fault}"), LONG, || {
        let has = |server| get(server, KEY).as_deref() == Some(guard.token());
        servers.iter().all(has)
    })
    .await;
}

#[apply(async_test_on_threads!)]
async fn a_lock_is_held_while_one_server_after_the_other_fails() {
    let servers = servers(5);
    let locks = locks(&servers).await;
    let rival_locks = self::locks(&servers).await;
    let guard = Arc::new(locks.lock(extended(KEY, TTL)).await.unwrap());
    granted_everywhere(&guard).await;
    let lost = spawn(guard.lost());
    let is_over = Arc::new(AtomicBool::new(false));
    let (rival, watch) = (rival(rival_locks, &is_over), watch(&guard, &is_over));

    let started = Instant::now();
    let faults = AtomicU64::new(0);
    while started.elapsed() < HOLD {
        let turn = faults.fetch_add(1, Ordering::SeqCst);
        let server = &servers[(turn / 4 % 5) as usize];
        let fault = match turn % 4 {
            0 => {
                for server in &servers {
                    ask(server, &["CLIENT", "KILL", "TYPE", "normal"]);
                }
                "killed connections"
            }
            1 => {
                server.pause().unwrap();
                sleep(random_up_to(2 * TTL)).await;
                server.resume().unwrap();
                "a pause"
            }
            2 => {
                // Whatever is due meanwhile has to be tried again.
                servers[..3]
                    .iter()
                    .for_each(|server| server.pause().unwrap());
                sleep(TTL / 3).await;
                servers[..3]
                    .iter()
                    .for_each(|server| server.resume().unwrap());
                "a short pause of most"
            }
            _ => {
                server.restart().unwrap();
                "an empty restart"
            }
        };
        healed(&servers, &guard, fault).await;
        // Also at moments at which nothing else happens.
        sleep(random_up_to(SECOND / 2)).await;
        assert!(
            !rival.is_finished() && !watch.is_finished(),
            "after {fault}"
        );
    }
    is_over.store(true, Ordering::SeqCst);
    watch.await.unwrap();
    let tries = rival.await.unwrap();
    let faults = faults.into_inner();
    println!("{faults} faults, {tries} tries");
    assert!(faults >= 8 && tries > 100, "{faults} faults, {tries} tries");
    assert!(guard.is_valid() && !lost.is_finished());
    released(&guard).await.unwrap();
    until("released", LONG, || keys(&servers) == 0).await;
}
