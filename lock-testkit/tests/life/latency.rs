//! Servers that are farther away than a lock was built for.

use lock_core::{AcquireError, DistributedLockExt, LockRequest};
use lock_testkit::{FaultProxy, ProxyFault};

use super::support::*;

/// C79: the default timeout, 100 ms, is below the latency.
#[apply(async_test_on_threads!)]
async fn a_latency_above_the_node_timeout_is_told_and_makes_no_pile_of_commands() {
    let servers = servers(3);
    let proxies = servers
        .iter()
        .map(|server| FaultProxy::start(server.addr()));
    let proxies = proxies.collect::<Result<Vec<_>, _>>().unwrap();
    for proxy in &proxies {
        proxy.set_fault(ProxyFault::Delay(130 * MS));
    }
    let urls = proxies
        .iter()
        .map(|proxy| format!("redis://{}", proxy.addr()));
    let locks = builder(urls.collect()).build().unwrap();
    let (mut attempts, mut errors) = (0, Vec::new());
    for _ in 0..4 {
        match locks.lock(LockRequest::new(KEY).max_wait(SECOND)).await {
            // While they connect, nodes have more time.
            Ok(guard) => {
                attempts += 1;
                guard.release().await.unwrap();
            }
            Err(AcquireError::Unavailable(outage)) => {
                attempts += outage.attempts;
                errors.push(outage);
            }
            Err(error) => panic!("{error}"),
        }
    }
    let outage = errors.last().unwrap();
    let shown = outage.to_string();
    assert!(
        shown.ends_with("`node_timeout` is too short for them"),
        "{shown}"
    );
    let late = outage.nodes.iter().filter_map(|node| node.late).max();
    assert!(late.unwrap() >= 130 * MS, "{shown}");

    until("nothing is left", LONG, || keys(&servers) == 0).await;
    // An acquire and its release for each, by digest and with the source, and some that were sent again.
    let sent = requests(&servers);
    assert!(
        sent <= u64::from(attempts) * 3 * 4 + 20,
        "{sent} for {attempts} attempts"
    );
    all_quiet(&servers, SECOND).await;
    // They answer while they are late, and are not connected to again and again.
    let most = proxies.iter().map(FaultProxy::accepted).max();
    assert!(most.unwrap() <= 3, "{most:?} connections");
}
