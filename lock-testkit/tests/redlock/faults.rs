//! Servers that hang, die, forget and come back.

use std::time::{Duration, Instant};

use lock_core::{AcquireError, DistributedLockExt, ExtendError, LockRequest, WithLockError};

use lock_testkit::RedisServer;

use super::support::*;

/// C02, C03.
#[apply(async_test!)]
async fn all_servers_dead_is_an_outage_that_names_each_cause_and_ends_with_it() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    for server in &servers {
        server.kill().unwrap();
    }
    let request = LockRequest::new(KEY).max_wait(1_000 * MS);
    let tried = locks.try_lock(KEY).await;
    assert!(
        matches!(tried, Err(AcquireError::Unavailable(_))),
        "{tried:?}"
    );
    let run = locks.with_lock(request.clone(), async |_| panic!("it ran without the lock"));
    let run: Result<(), _> = run.await;
    assert!(
        matches!(
            run,
            Err(WithLockError::Acquire(AcquireError::Unavailable(_)))
        ),
        "{run:?}"
    );
    let result = locks.lock(request.clone()).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    let shown = outage.to_string();
    let mut refused = 0;
    for (server, report) in servers.iter().zip(&outage.nodes) {
        let (line, addr) = (report.to_string(), server.addr().to_string());
        assert!(line.starts_with(&addr) && shown.contains(&addr), "{shown}");
        if line.contains("refused") || line.contains("cannot connect") {
            refused += 1;
        } else {
            // Two of three decide.
            assert!(line.ends_with("not waited for"), "{line}");
        }
    }
    assert!(refused >= 2, "{shown}");
    for server in &servers {
        server.restart().unwrap();
    }
    let guard = locks
        .lock(LockRequest::new(KEY).max_wait(10_000 * MS))
        .await
        .unwrap();
    guard.release().await.unwrap();
}

#[apply(async_test!)]
async fn three_of_five_stopped_is_an_outage_that_names_them_and_leaves_nothing() {
    let servers = servers(5);
    let locks = warm_locks(&servers).await;
    for server in &servers[..3] {
        server.pause().unwrap();
    }
    let result = locks.try_lock(LockRequest::new(KEY).ttl(60_000 * MS)).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    let addrs = servers[..3].iter().map(|server| server.addr().to_string());
    let stopped = addrs.collect::<Vec<_>>().join(", ");
    let shown = outage.to_string();
    assert!(
        shown.contains(&format!("{stopped}: no answer in 1000 ms")),
        "{shown}"
    );
    until("the granted keys are gone", 6_000 * MS, || {
        keys(&servers[3..]) == 0
    })
    .await;
    for server in &servers[..3] {
        server.resume().unwrap();
    }
    until("no key is left anywhere", 6_000 * MS, || {
        keys(&servers) == 0
    })
    .await;
}

/// C10.
#[apply(async_test!)]
async fn a_hung_node_is_waited_for_by_nobody_wherever_it_is_listed() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    for hung in &servers {
        hung.pause().unwrap();
        let started = Instant::now();
        for number in 0..40 {
            let request = LockRequest::new(format!("k{number}")).ttl(60_000 * MS);
            let guard = locks.lock(request).await.unwrap();
            assert!(guard.remaining() > 50_000 * MS, "{guard:?}");
            guard.extend(60_000 * MS).await.unwrap();
            guard.release().await.unwrap();
        }
        // Each of these 120 calls would take one.
        assert!(started.elapsed() < 10 * NODE_TIMEOUT);
        hung.resume().unwrap();
        until("no key is left", LONG, || keys(&servers) == 0).await;
    }
}

#[apply(async_test!)]
async fn a_minority_may_hang_die_or_forget_while_the_lock_is_used() {
    let servers = servers(5);
    let locks = warm_locks(&servers).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    granted_everywhere(&guard).await;
    servers[0].pause().unwrap();
    servers[1].kill().unwrap();
    guard.extend(60_000 * MS).await.unwrap();
    assert!(locks.try_lock(KEY).await.unwrap().is_none());
    servers[0].resume().unwrap();
    servers[1].restart().unwrap();
    // The server that lost its data gets the key back with an extension that wins.
    let healed = async {
        while get(&servers[1], KEY).is_none() {
            guard.extend(60_000 * MS).await.unwrap();
            sleep(20 * MS).await;
        }
    };
    timeout(Duration::from_secs(20), healed).await.unwrap();
    guard.release().await.unwrap();
    until("released everywhere", 6_000 * MS, || keys(&servers) == 0).await;
}

#[apply(async_test!)]
async fn a_majority_that_forgot_is_a_loss_and_the_successor_is_safe() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    granted_everywhere(&guard).await;
    for server in &servers {
        ask(server, &["FLUSHALL"]);
    }
    let successor = locks.lock(KEY).await.unwrap();
    granted_everywhere(&successor).await;
    assert!(matches!(
        guard.extend(60_000 * MS).await,
        Err(ExtendError::Lost)
    ));
    assert!(guard.release().await.is_err());
    for server in &servers {
        assert_eq!(
            get(server, KEY).as_deref(),
            Some(successor.token().as_bytes())
        );
        assert!(pttl(server, KEY) <= 30_000);
    }
    successor.release().await.unwrap();
}

/// C09.
#[apply(async_test!)]
async fn a_node_that_never_was_there_does_not_keep_a_service_from_starting() {
    let servers = servers(3);
    servers[2].kill().unwrap();
    let locks = locks(&servers);
    for _ in 0..20 {
        let guard = locks.lock(KEY).await.unwrap();
        guard.release().await.unwrap();
    }
    servers[2].restart().unwrap();
    let joins = async {
        loop {
            let guard = locks.lock(KEY).await.unwrap();
            sleep(20 * MS).await;
            let granted = guard.votes().granted;
            guard.release().await.unwrap();
            if granted == 3 {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), joins).await.unwrap();
}

/// C46.
#[apply(async_test!)]
async fn a_server_that_loads_its_data_is_an_outage_until_it_is_done_and_no_matter_to_a_majority() {
    let loading = RedisServer::builder().arg("--enable-debug-command", "yes");
    let mut servers = vec![loading.start().unwrap()];
    servers.extend(self::servers(2));
    let (all, alone) = (warm_locks(&servers).await, warm_locks(&servers[..1]).await);
    for words in [
        "DEBUG POPULATE 1000 data 500",
        "CONFIG SET loading-process-events-interval-bytes 1024",
        "CONFIG SET key-load-delay 1500",
    ] {
        ask(&servers[0], &words.split(' ').collect::<Vec<_>>());
    }
    let mut reload = servers[0].connect().unwrap();
    reload.send(&["DEBUG", "RELOAD"]).unwrap();
    let is_loading = || {
        let told = servers[0].command(&["GET", KEY]);
        told.is_err_and(|error| error.to_string().contains("LOADING"))
    };
    until("the server loads", LONG, is_loading).await;
    let Err(AcquireError::Unavailable(outage)) = alone.try_lock("alone").await else {
        panic!("no outage");
    };
    assert!(outage.to_string().contains("LOADING"), "{outage}");
    let guard = all.lock(KEY).await.unwrap();
    guard.release().await.unwrap();
    assert!(is_loading(), "a majority did not wait for it");
    let request = LockRequest::new("alone").max_wait(LONG);
    let guard = alone.lock(request).await.unwrap();
    guard.release().await.unwrap();
}

#[apply(async_test!)]
async fn what_a_failed_attempt_was_granted_is_gone_when_its_error_is_returned() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    for server in &servers[..2] {
        server.kill().unwrap();
    }
    let mut left = 0;
    for _ in 0..40 {
        let result = locks.try_lock(LockRequest::new(KEY).ttl(60_000 * MS)).await;
        // The process may end next.
        left += keys(&servers[2..]);
        assert!(
            matches!(result, Err(AcquireError::Unavailable(_))),
            "{result:?}"
        );
        until("gone at last", LONG, || keys(&servers[2..]) == 0).await;
    }
    assert!(runs(&servers[2], "set") >= 40, "it was asked each time");
    // A grant that comes late, as on a busy machine, is not waited for.
    assert!(left < 10, "{left} of 40");
}
