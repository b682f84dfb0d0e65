//! What servers say when they are asked how they are.

use lock_core::check::{CheckReport, Finding, Role};
use lock_core::{DistributedLockExt, Redlock};
use lock_testkit::{FaultProxy, RedisServer};

use super::support::*;
use crate::backend::node;

/// The findings about one node, in words.
fn findings(report: &CheckReport, node: usize) -> Vec<String> {
    let findings = report.nodes()[node].findings.iter();
    findings.map(ToString::to_string).collect()
}

#[apply(async_test!)]
async fn a_check_tells_what_each_server_is() {
    let servers = servers(3);
    let locks = locks(&servers);
    let set = |server: &RedisServer, name, value| ask(server, &["CONFIG", "SET", name, value]);
    for server in &servers {
        set(server, "appendonly", "yes");
    }
    let report = locks.check().await;
    assert!(report.is_available() && report.working() == 3, "{report}");
    assert_eq!(report.severity(), None, "{report}");
    assert_eq!(keys(&servers), 0, "the lock is given back");
    let mut runs = Vec::new();
    for node in report.nodes() {
        let server = node.server.as_ref().unwrap();
        let version = server.version.as_deref().unwrap();
        assert!(version.starts_with("redis ") || version.starts_with("valkey "));
        assert_eq!(server.role, Some(Role::Primary));
        assert_eq!(server.has_append_only_file, Some(true));
        assert_eq!(server.eviction_policy.as_deref(), Some("noeviction"));
        // One machine, one clock.
        assert!(server.clock_offset.distance() < LONG, "{report}");
        runs.extend(server.run_id.clone());
    }
    runs.dedup();
    assert_eq!(runs.len(), 3, "each run has a name of its own");

    set(&servers[0], "maxmemory", "100mb");
    set(&servers[0], "maxmemory-policy", "allkeys-lru");
    set(&servers[1], "appendonly", "no");
    let report = locks.check().await;
    assert!(report.is_available(), "{report}");
    assert!(findings(&report, 0)[0].contains("allkeys-lru"), "{report}");
    assert!(findings(&report, 1)[0].starts_with("forgets"), "{report}");
    assert_eq!(findings(&report, 2), [] as [&str; 0]);
}

#[apply(async_test!)]
async fn a_check_finds_what_keeps_a_server_from_granting_locks() {
    let servers = servers(3);
    let locks = warm_locks(&servers).await;
    ask(&servers[0], &["REPLICAOF", "127.0.0.1", "1"]);
    ask(
        &servers[1],
        &["ACL", "SETUSER", "default", "-eval", "-evalsha"],
    );
    servers[2].kill().unwrap();
    let report = locks.check().await;
    assert!(!report.is_available() && report.working() == 0, "{report}");
    let [replica, scripts, down] = report.nodes() else {
        panic!("{report}");
    };
    assert!(matches!(replica.findings[0], Finding::Replica), "{report}");
    assert!(
        matches!(scripts.findings[0], Finding::ScriptsRefused { .. }),
        "{report}"
    );
    assert!(
        matches!(down.findings[0], Finding::Fails { .. }),
        "{report}"
    );
}

#[apply(async_test!)]
async fn a_check_needs_no_rights_but_those_of_locks_and_the_time() {
    let servers = servers(1);
    let rules = "ACL SETUSER app on >pw ~lock:* +set +get +pttl +pexpire +del +eval +evalsha";
    ask(&servers[0], &rules.split(' ').collect::<Vec<_>>());
    let url = servers[0].url().replace("redis://", "redis://app:pw@");
    let builder = Redlock::builder().nodes([node(url)]).prefix("lock:");
    let locks = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
    let report = locks.check().await;
    // Without the time there is nothing that a server could tell.
    assert!(report.is_available(), "{report}");
    assert!(
        findings(&report, 0)[0].starts_with("does not tell"),
        "{report}"
    );
    ask(&servers[0], &["ACL", "SETUSER", "app", "+time"]);
    let report = locks.check().await;
    assert!(report.is_available(), "{report}");
    let server = report.nodes()[0].server.as_ref().unwrap();
    assert!(
        server.info_refused.is_some() && server.version.is_none(),
        "{report}"
    );
    assert!(
        findings(&report, 0)[0].starts_with("does not tell"),
        "{report}"
    );
    ask(&servers[0], &["ACL", "SETUSER", "app", "+info"]);
    let report = locks.check().await;
    let server = report.nodes()[0].server.as_ref().unwrap();
    assert!(
        server.info_refused.is_none() && server.version.is_some(),
        "{report}"
    );
    assert_eq!(keys(&servers), 0);
}

#[apply(async_test!)]
async fn a_check_names_the_server_that_is_listed_twice() {
    let servers = servers(2);
    let another_name = FaultProxy::start(servers[0].addr()).unwrap();
    let urls = [
        servers[0].url(),
        servers[1].url(),
        format!("redis://{}", another_name.addr()),
    ];
    let builder = Redlock::builder().nodes(urls.map(node));
    let locks = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
    let report = locks.check().await;
    assert_eq!(report.working(), 2, "{report}");
    // Which of them was asked first is not certain.
    let names = [servers[0].addr(), another_name.addr()].map(|addr| addr.to_string());
    let twins = report.nodes().iter().filter_map(|node| {
        let twin = node.findings.iter().find_map(|finding| match finding {
            Finding::SameServer { other } => Some(other.to_string()),
            _ => None,
        });
        Some([node.label.to_string(), twin?])
    });
    let mut twins: Vec<_> = twins.collect();
    assert_eq!(twins.len(), 1, "{report}");
    twins[0].sort();
    let mut names = names;
    names.sort();
    assert_eq!(twins[0], names);
    assert_eq!(keys(&servers), 0);
    assert!(locks.lock(KEY).await.is_ok());
}
