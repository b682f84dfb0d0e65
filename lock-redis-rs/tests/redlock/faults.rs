//! Servers that hang, die, forget and come back.

use std::time::Duration;

use lock_core::{AcquireError, DistributedLockExt, ExtendError, LockRequest};

use crate::support::*;

#[apply(async_test!)]
async fn all_servers_dead_is_an_outage_that_names_each_cause_and_ends_with_it() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    for server in &servers {
        server.kill().unwrap();
    }
    let request = LockRequest::new(KEY).max_wait(1_000 * MS);
    let result = locks.lock(request.clone()).await;
    let Err(AcquireError::Unavailable(outage)) = result else {
        panic!("{result:?}");
    };
    let shown = outage.to_string();
    for (server, report) in servers.iter().zip(&outage.nodes) {
        let (line, addr) = (report.to_string(), server.addr().to_string());
        assert!(
            line.contains("refused") || line.contains("cannot connect"),
            "{line}"
        );
        assert!(line.starts_with(&addr) && shown.contains(&addr), "{shown}");
    }
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

#[apply(async_test!)]
async fn a_minority_may_hang_die_or_forget_while_the_lock_is_used() {
    let servers = servers(5);
    let locks = warm_locks(&servers).await;
    let guard = locks
        .lock(LockRequest::new(KEY).ttl(60_000 * MS))
        .await
        .unwrap();
    until("granted everywhere", 5_000 * MS, || {
        guard.votes().granted == 5
    })
    .await;
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
    until("granted everywhere", 5_000 * MS, || {
        guard.votes().granted == 3
    })
    .await;
    for server in &servers {
        ask(server, &["FLUSHALL"]);
    }
    let successor = locks.lock(KEY).await.unwrap();
    until("granted everywhere", 5_000 * MS, || {
        successor.votes().granted == 3
    })
    .await;
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
