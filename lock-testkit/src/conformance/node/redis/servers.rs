//! One server, or all of a cluster.

use std::thread;
use std::time::{Duration, Instant};

use lock_core::Reply;

use super::admin::{ask, run};
use crate::conformance::{CheckResult, Failure};
use crate::{FaultProxy, RedisCluster, RedisServer, RedisServerBuilder};

/// How long the servers of a cluster may take to find each other after a restart.
const PATIENCE: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) enum Servers {
    One(Box<[RedisServer; 1]>),
    Cluster(RedisCluster),
}

impl Servers {
    /// Starts a cluster of so many masters, whose clients are led to a proxy before each.
    pub(super) fn cluster(
        builder: &RedisServerBuilder,
        masters: usize,
    ) -> CheckResult<(Self, Vec<FaultProxy>)> {
        // Servers that are stopped for a check are not to take each other for failed.
        let builder = RedisCluster::builder(builder).arg("--cluster-node-timeout", "60000");
        let servers = builder.start_many(masters)?;
        let proxies = servers
            .iter()
            .map(|server| FaultProxy::start(server.addr()));
        let proxies = proxies.collect::<Result<Vec<_>, _>>()?;
        announce(&servers, &proxies)?;
        Ok((Self::Cluster(RedisCluster::of(servers)?), proxies))
    }

    pub(super) fn all(&self) -> &[RedisServer] {
        match self {
            Self::One(server) => &**server,
            Self::Cluster(cluster) => cluster.servers(),
        }
    }

    /// The one that has this key.
    pub(super) fn of(&self, key: &[u8]) -> CheckResult<&RedisServer> {
        match self {
            Self::One(server) => Ok(&server[0]),
            Self::Cluster(cluster) => Ok(&cluster.servers()[cluster.owner(slot(cluster, key)?)]),
        }
    }

    /// Restarts them without their keys. A server of a cluster keeps its place there.
    pub(super) fn restart_empty(&self) -> CheckResult {
        for server in self.all() {
            match self {
                Self::One(_) => server.restart()?,
                Self::Cluster(_) => {
                    run(server, "FLUSHALL")?;
                    server.restart_with_data()?;
                }
            }
        }
        Ok(())
    }

    /// Clients of a cluster are led to the proxies, also after a restart.
    pub(super) fn are_behind(&self, proxies: &[FaultProxy]) -> CheckResult {
        if let Self::One(_) = self {
            return Ok(());
        }
        announce(self.all(), proxies)?;
        let start = Instant::now();
        for server in self.all() {
            while !is_up(server)? {
                if start.elapsed() > PATIENCE {
                    let error = std::io::Error::other("it did not come to it");
                    return Err(Failure::setup("wait for a cluster", &error));
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

fn slot(cluster: &RedisCluster, key: &[u8]) -> CheckResult<u16> {
    let words: [&[u8]; 3] = [b"CLUSTER", b"KEYSLOT", key];
    match ask(&cluster.servers()[0], &words)? {
        Reply::Int(slot) => Ok(u16::try_from(slot).unwrap_or_default()),
        other => Err(super::admin::unexpected(&other)),
    }
}

fn announce(servers: &[RedisServer], proxies: &[FaultProxy]) -> CheckResult {
    for (server, proxy) in servers.iter().zip(proxies) {
        let port = proxy.addr().port();
        run(server, &format!("CONFIG SET cluster-announce-port {port}"))?;
    }
    Ok(())
}

fn is_up(server: &RedisServer) -> CheckResult<bool> {
    match ask(server, &["CLUSTER", "INFO"])? {
        Reply::Bytes(info) => Ok(String::from_utf8_lossy(&info).contains("cluster_state:ok")),
        other => Err(super::admin::unexpected(&other)),
    }
}
