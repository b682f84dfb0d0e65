//! Who is gone is not extended: no key, no task, no command.

use std::time::Duration;

use lock_core::{DistributedLockExt, LockRequest};

use super::support::*;

/// So many locks are there at a time.
const AT_ONCE: usize = 50;

/// Held by tasks of which each ends in another way, at a random moment.
#[apply(async_test_on_threads!)]
async fn guards_dropped_or_aborted_at_random_moments_leave_no_key_no_task_and_no_traffic() {
    const GUARDS: usize = 1000;
    let ttl = 15 * SECOND;
    let servers = servers(5);
    let locks = locks(&servers).await;
    let tasks_before = tasks();
    let mut holders = JoinSet::new();
    for number in 0..GUARDS {
        if number >= AT_ONCE {
            // Aborted ones are an error.
            drop(holders.join_next().await);
        }
        // So often that something is always under way.
        let request = extended(format!("k{number}"), ttl).extend_interval(50 * MS);
        let (locks, hold) = (locks.clone(), random_up_to(100 * MS));
        let is_aborted = number % 2 == 0;
        let holder = holders.spawn(async move {
            let guard = locks.lock(request).await.unwrap();
            sleep(if is_aborted { LONG } else { hold }).await;
            drop(guard);
        });
        if is_aborted {
            spawn(async move {
                // Some while they acquire, most while they hold.
                sleep(hold).await;
                holder.abort();
            });
        }
    }
    while holders.join_next().await.is_some() {}
    until("no key is left", ttl / 10, || keys(&servers) == 0).await;
    until("no task is left", LONG, || tasks() <= tasks_before).await;
    all_quiet(&servers, ttl / 3).await;
    assert_eq!(keys(&servers), 0);
}

/// C23.
#[apply(async_test_on_threads!)]
async fn rounds_that_are_cut_short_while_a_server_hangs_leave_nothing() {
    const ROUNDS: usize = 1000;
    let ttl = 500 * MS;
    let servers = servers(3);
    let locks = locks(&servers).await;
    let tasks_before = tasks();
    let mut rounds = JoinSet::new();
    for round in 0..ROUNDS {
        if round >= AT_ONCE {
            rounds.join_next().await.unwrap().unwrap();
        }
        // A third of the time.
        match round % 150 {
            0 => servers[2].pause().unwrap(),
            50 => servers[2].resume().unwrap(),
            _ => {}
        }
        let locks = locks.clone();
        rounds.spawn(async move {
            let request = extended(format!("k{round}"), ttl).extend_interval(20 * MS);
            let acquire = timeout(random_up_to(20 * MS), locks.lock(request));
            if let Ok(Ok(guard)) = acquire.await {
                sleep(random_up_to(30 * MS)).await;
                if round % 2 == 0 {
                    // It tells whether there was a quorum, which is not the point here.
                    guard.release().await.ok();
                }
            }
        });
    }
    while rounds.join_next().await.is_some() {}
    servers[2].resume().unwrap();
    sleep(ttl).await;
    until("no key is left", LONG, || keys(&servers) == 0).await;
    until("no task is left", LONG, || tasks() <= tasks_before).await;
    all_quiet(&servers, Duration::from_secs(2)).await;
    assert_eq!(keys(&servers), 0);
}

/// C60.
#[apply(async_test_on_threads!)]
async fn guards_that_are_dropped_all_at_once_leave_no_key() {
    const GUARDS: usize = 12_000;
    let servers = servers(1);
    let locks = locks(&servers).await;
    for is_paused in [false, true] {
        let mut acquiring = JoinSet::new();
        let mut guards = Vec::new();
        for number in 0..GUARDS {
            if number >= AT_ONCE {
                guards.push(acquiring.join_next().await.unwrap().unwrap());
            }
            let locks = locks.clone();
            let request = LockRequest::new(format!("k{number}")).ttl(600 * SECOND);
            acquiring.spawn(async move { locks.lock(request).await.unwrap() });
        }
        while let Some(guard) = acquiring.join_next().await {
            guards.push(guard.unwrap());
        }
        if is_paused {
            servers[0].pause().unwrap();
        }
        drop(guards);
        if is_paused {
            sleep(500 * MS).await;
            servers[0].resume().unwrap();
        }
        until("no key is left", LONG, || keys(&servers) == 0).await;
    }
}
