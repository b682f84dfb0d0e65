//! The servers: four that stand alone, and a master with its replica and three sentinels for the fifth.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_core::Reply;
use lock_testkit::{RedisServer, RedisServerBuilder, ServerError};

use crate::BoxError;

/// How many nodes there are.
pub(crate) const NODES: usize = 5;

/// How many are a majority, the least that must agree.
pub(crate) const MAJORITY: usize = NODES / 2 + 1;

/// The number of the node that sentinels lead to; those before it stand alone.
pub(crate) const GROUP: usize = NODES - 1;

const MASTER: &str = "soaked";

/// The key of the restart guard.
pub(crate) const RESTART_GUARD: &str = ":restart-guard";

/// A failover takes seconds, and the end of the old master's reign ten more.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(50);

/// All servers.
pub(crate) struct Nodes {
    pub(crate) alone: Vec<RedisServer>,
    pub(crate) group: Group,
    is_guarded: bool,
}

/// A master, its replica, and the sentinels that watch them.
pub(crate) struct Group {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
}

impl Nodes {
    pub(crate) fn start(is_guarded: bool) -> Result<Self, BoxError> {
        // A server that is killed and comes back with its data has forgotten nothing that it answered.
        let durable = persistent();
        let alone = durable.start_many(GROUP)?;
        Ok(Self {
            alone,
            group: Group::start()?,
            is_guarded,
        })
    }

    /// As a child is told of them.
    pub(crate) fn as_words(&self) -> Vec<String> {
        let sentinels: Vec<_> = self.group.sentinels.iter().map(RedisServer::url).collect();
        let group = format!("{MASTER}={}", sentinels.join(","));
        let alone = self.alone.iter().map(RedisServer::url);
        alone.chain([group]).collect()
    }

    /// The keys of all nodes, each with the number of its node.
    pub(crate) fn keys(&self) -> Result<Vec<(usize, String)>, BoxError> {
        let mut keys = Vec::new();
        for (node, server) in self.alone.iter().enumerate() {
            keys.extend(keys_of(server)?.into_iter().map(|key| (node, key)));
        }
        let master = self.group.master()?;
        keys.extend(keys_of(master)?.into_iter().map(|key| (GROUP, key)));
        Ok(keys)
    }

    /// Whether a node is in no quarantine. One that does not answer may be: it has another fault now.
    pub(crate) fn grants(&self, node: usize) -> bool {
        !self.is_guarded || self.guard_grants(node).unwrap_or(false)
    }

    /// Whether the restart guard lets a node grant locks. A node that nobody has asked for a lock since it forgot has no
    /// guard yet.
    fn guard_grants(&self, node: usize) -> Result<bool, BoxError> {
        let server = match self.alone.get(node) {
            Some(server) => server,
            None => self.group.master()?,
        };
        let info = text(&server.command(&["INFO", "server"])?);
        let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        let guard = text(&server.command(&["GET", RESTART_GUARD])?);
        let mut parts = guard.split(' ');
        let (known, end) = (parts.next(), parts.next());
        let Some(Ok(end)) = end.map(str::parse::<u128>) else {
            return Ok(false);
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        Ok(known == run && end < now)
    }
}

fn persistent() -> RedisServerBuilder {
    RedisServer::builder()
        .arg("--appendonly", "yes")
        .arg("--appendfsync", "always")
}

fn keys_of(server: &RedisServer) -> Result<Vec<String>, BoxError> {
    match server.command(&["KEYS", "*"])? {
        Reply::Array(keys) => Ok(keys.iter().map(text).collect()),
        other => Err(format!("KEYS was answered with {other:?}").into()),
    }
}

pub(crate) fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}

impl Group {
    fn start() -> Result<Self, BoxError> {
        let server = || {
            RedisServer::builder()
                .arg("--repl-diskless-sync-delay", "0")
                .start()
        };
        let servers = [server()?, server()?];
        let port = servers[0].port().to_string();
        servers[1].command(&["REPLICAOF", "127.0.0.1", &port])?;
        let sentinels = RedisServer::builder()
            .sentinel(MASTER, &servers[0], 2)
            .start_many(3)?;
        let group = Self { servers, sentinels };
        group.settle()?;
        Ok(group)
    }

    /// Waits until one is the master, the other its replica, and all sentinels know both.
    pub(crate) fn settle(&self) -> Result<(), BoxError> {
        let start = Instant::now();
        while !self.is_settled() {
            if start.elapsed() > SETTLED_WITHIN {
                return Err(format!(
                    "no master and replica after {SETTLED_WITHIN:?}: {:?}",
                    self.servers.each_ref().map(role)
                )
                .into());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        let Ok(master) = self.master() else {
            return false;
        };
        let others = self.servers.iter().filter(|it| it.port() != master.port());
        let mut roles = others.map(role);
        let follows = roles.all(|role| role.is_ok_and(|it| it == ["slave", "connected"]));
        let port = master.port().to_string();
        follows
            && self.sentinels.iter().all(|sentinel| {
                let field = |name| field(sentinel, name).unwrap_or_default();
                field("port") == port
                    && field("num-slaves") == "1"
                    && field("num-other-sentinels") == "2"
                    && field("flags") == "master"
            })
    }

    /// The one that is a master now, if exactly one is.
    pub(crate) fn master(&self) -> Result<&RedisServer, BoxError> {
        let is_master = |server: &&RedisServer| role(server).is_ok_and(|it| it[0] == "master");
        let mut masters = self.servers.iter().filter(is_master);
        match (masters.next(), masters.next()) {
            (Some(master), None) => Ok(master),
            _ => Err("not one master".into()),
        }
    }

    /// Asks for a failover. Sentinels refuse where they know no replica that is good enough.
    pub(crate) fn fail_over(&self) -> Result<(), ServerError> {
        self.sentinels[0].command(&["SENTINEL", "FAILOVER", MASTER])?;
        Ok(())
    }
}

/// What a server says of its role: its name, and for a replica the state of its link.
fn role(server: &RedisServer) -> Result<[String; 2], BoxError> {
    match server.command(&["ROLE"])? {
        Reply::Array(parts) => {
            let part = |index: usize| parts.get(index).map(text).unwrap_or_default();
            Ok([part(0), part(3)])
        }
        other => Err(format!("ROLE was answered with {other:?}").into()),
    }
}

/// What a sentinel knows of the master, by name.
fn field(sentinel: &RedisServer, name: &str) -> Result<String, BoxError> {
    let Reply::Array(items) = sentinel.command(&["SENTINEL", "MASTER", MASTER])? else {
        return Err("a sentinel without a master".into());
    };
    let pair = items.chunks(2).find(|pair| text(&pair[0]) == name);
    let value = pair.and_then(|pair| pair.get(1)).map(text);
    value.ok_or_else(|| format!("a sentinel does not say {name}").into())
}
