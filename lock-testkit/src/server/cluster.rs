//! Servers that are one cluster.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lock_core::Reply;

use super::connection::Connection;
use super::{RedisServer, RedisServerBuilder, ServerError};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// How long it may take until all servers agree: a machine that is busy with other tests may need a while.
const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(20);

/// How many keys are moved at a time.
const BATCH: &str = "1000";

/// A real Redis Cluster for one test: masters that share the slots evenly, and replicas if they are asked for.
///
/// A server that does not answer for two seconds counts as failed (`cluster-node-timeout`), and a slot that nobody
/// has is no matter of the others (`cluster-require-full-coverage no`). Slots can be moved, at once or step by
/// step, while clients use them. All methods block.
///
/// A server that was killed comes back to its cluster by
/// [`restart_with_data`](RedisServer::restart_with_data) alone: its place there is part of its data.
///
/// ```no_run
/// use lock_testkit::RedisCluster;
///
/// let cluster = RedisCluster::start(3)?;
/// let slot = cluster.slot("greeting")?;
/// cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3)?;
/// cluster.server_of("greeting")?.command(&["SET", "greeting", "hello"])?;
/// # Ok::<_, lock_testkit::ServerError>(())
/// ```
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    /// Which server has each slot, as far as it was moved here.
    owners: Mutex<Vec<usize>>,
}

impl RedisCluster {
    /// Starts so many masters, and waits until they take commands.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::start`]; [`ServerError::NotReady`] if they do not come to know each other.
    pub fn start(masters: usize) -> Result<Self, ServerError> {
        Self::start_with(&RedisServer::builder(), masters)
    }

    /// Starts so many masters with settings of your own.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(builder: &RedisServerBuilder, masters: usize) -> Result<Self, ServerError> {
        let servers = Self::builder(builder).start_many(masters)?;
        Self::of(servers)
    }

    /// The settings of servers that can become a cluster, which come before those that the builder has.
    pub(crate) fn builder(theirs: &RedisServerBuilder) -> RedisServerBuilder {
        theirs
            .clone()
            .arg("--cluster-enabled", "yes")
            .arg("--cluster-node-timeout", "2000")
            .arg("--cluster-require-full-coverage", "no")
            .arg("--repl-diskless-sync-delay", "0")
    }

    /// Makes a cluster of servers that can be one and have no slots yet.
    pub(crate) fn of(servers: Vec<RedisServer>) -> Result<Self, ServerError> {
        let masters = servers.len().max(1);
        let owner = |slot| usize::from(slot) * masters / usize::from(SLOTS);
        let owners: Vec<_> = (0..SLOTS).map(owner).collect();
        for (number, server) in servers.iter().enumerate() {
            // Redis before 7.0 takes no range.
            let slots = (0..SLOTS).filter(|slot| owners[usize::from(*slot)] == number);
            let slots = slots.map(|slot| slot.to_string());
            let words = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter();
            server.command(&words.chain(slots).collect::<Vec<_>>())?;
            let epoch = (number + 1).to_string();
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        let cluster = Self {
            servers,
            owners: Mutex::new(owners),
        };
        for server in &cluster.servers[1..] {
            cluster.meet(server)?;
        }
        cluster.wait_until_agreed(masters)?;
        Ok(cluster)
    }

    fn meet(&self, server: &RedisServer) -> Result<(), ServerError> {
        let (ip, port) = (server.addr().ip().to_string(), server.port().to_string());
        self.servers[0].command(&["CLUSTER", "MEET", &ip, &port])?;
        Ok(())
    }

    /// Adds a replica of this master, and waits until it has its data. Returns its number.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn add_replica(&mut self, master: usize) -> Result<usize, ServerError> {
        let replica = Self::builder(&RedisServer::builder()).start()?;
        self.meet(&replica)?;
        let id = id(&self.servers[master])?;
        let knows = |line: &str| line.starts_with(&id) && !line.contains("handshake");
        self.wait(&replica, "CLUSTER NODES", || {
            let nodes = text(&replica, &["CLUSTER", "NODES"])?;
            Ok(nodes.lines().any(knows))
        })?;
        replica.command(&["CLUSTER", "REPLICATE", &id])?;
        self.wait(&replica, "INFO", || {
            Ok(text(&replica, &["INFO", "replication"])?.contains("master_link_status:up"))
        })?;
        self.servers.push(replica);
        self.wait_until_agreed(self.servers.len())?;
        Ok(self.servers.len() - 1)
    }

    /// All servers: the masters in the order of their slots, and then the replicas.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The URLs of all servers.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// The slot of a key.
    ///
    /// # Errors
    ///
    /// Those of a [command](RedisServer::command).
    pub fn slot(&self, key: impl AsRef<[u8]>) -> Result<u16, ServerError> {
        let words = [b"CLUSTER", b"KEYSLOT" as &[u8], key.as_ref()];
        let up = self.servers.iter().find(|server| server.pid().is_some());
        match up.unwrap_or(&self.servers[0]).command(&words)? {
            Reply::Int(slot) if (0..i64::from(SLOTS)).contains(&slot) => Ok(slot as u16),
            other => Err(unexpected("CLUSTER KEYSLOT", &other)),
        }
    }

    /// The number of the server that has a slot, unless it has lost it by a failover.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// The server that has a key, unless it has lost it by a failover.
    ///
    /// # Errors
    ///
    /// As [`slot`](Self::slot).
    pub fn server_of(&self, key: impl AsRef<[u8]>) -> Result<&RedisServer, ServerError> {
        Ok(&self.servers[self.owner(self.slot(key)?)])
    }

    /// Begins to move a slot to another server: from now on its server refers to that one by `ASK` for keys that it
    /// does not have.
    ///
    /// # Errors
    ///
    /// Those of a [command](RedisServer::command).
    pub fn begin_move(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        let from = self.owner(slot);
        let [mut source, mut target] = [self.servers[from].connect()?, self.servers[to].connect()?];
        let ids = [id(&self.servers[from])?, id(&self.servers[to])?];
        mark(&mut source, &mut target, slot, &ids)
    }

    /// Moves the keys of a slot that is being moved, as far as there are any now.
    ///
    /// # Errors
    ///
    /// Those of a [command](RedisServer::command).
    pub fn move_keys(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        let mut source = self.servers[self.owner(slot)].connect()?;
        migrate(&mut source, slot, &self.servers[to])
    }

    /// Ends a move, with the keys that are left: the other server has the slot from now on.
    ///
    /// # Errors
    ///
    /// Those of a [command](RedisServer::command).
    pub fn end_move(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        let source = &self.servers[self.owner(slot)];
        let [mut source, mut target] = [source.connect()?, self.servers[to].connect()?];
        // A server that hears of its loss deletes the keys that it still has.
        migrate(&mut source, slot, &self.servers[to])?;
        assign(&mut source, &mut target, slot, &id(&self.servers[to])?)?;
        self.note(slot, to);
        Ok(())
    }

    /// Moves a slot with all its keys.
    ///
    /// # Errors
    ///
    /// Those of a [command](RedisServer::command).
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        self.move_slots(slot..=slot, to)
    }

    /// Moves slots with all their keys, one after the other, and waits until all servers know: of these, those that
    /// the server of the first one has.
    ///
    /// # Errors
    ///
    /// Those of a [command](RedisServer::command).
    pub fn move_slots(&self, slots: RangeInclusive<u16>, to: usize) -> Result<(), ServerError> {
        let from = self.owner(*slots.start());
        let [mut source, mut target] = [self.servers[from].connect()?, self.servers[to].connect()?];
        let ids = [id(&self.servers[from])?, id(&self.servers[to])?];
        for slot in slots.filter(|slot| self.owner(*slot) == from) {
            mark(&mut source, &mut target, slot, &ids)?;
            migrate(&mut source, slot, &self.servers[to])?;
            assign(&mut source, &mut target, slot, &ids[1])?;
            self.note(slot, to);
        }
        self.wait_until_agreed(self.servers.len())
    }

    /// From the first slot of a server to its last one. Some in between may have been moved away.
    #[must_use]
    pub fn slots_of(&self, server: usize) -> RangeInclusive<u16> {
        let mut own = (0..SLOTS).filter(|slot| self.owner(*slot) == server);
        let first = own.next().unwrap_or_default();
        first..=own.next_back().unwrap_or(first)
    }

    fn note(&self, slot: u16, to: usize) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners[usize::from(slot)] = to;
    }

    /// Waits until all servers that run say the same of the cluster, and are that many.
    fn wait_until_agreed(&self, known: usize) -> Result<(), ServerError> {
        let up = || self.servers.iter().filter(|server| server.pid().is_some());
        self.wait(&self.servers[0], "CLUSTER INFO", || {
            let mut maps = BTreeSet::new();
            for server in up() {
                let info = text(server, &["CLUSTER", "INFO"])?;
                let is_ok = info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{known}\r"));
                if !is_ok {
                    return Ok(false);
                }
                maps.insert(map(server)?);
            }
            Ok(maps.len() == 1)
        })
    }

    fn wait(
        &self,
        server: &RedisServer,
        command: &'static str,
        mut is_so: impl FnMut() -> Result<bool, ServerError>,
    ) -> Result<(), ServerError> {
        let start = Instant::now();
        while !is_so()? {
            let waited = start.elapsed();
            if waited > PATIENCE {
                let nodes = text(server, &["CLUSTER", "NODES"])?;
                return Err(ServerError::NotReady {
                    waited,
                    log: server.log(),
                    source: Box::new(ServerError::UnexpectedReply {
                        command,
                        reply: nodes,
                    }),
                });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Who has which slots by what this server says, in an order that all have in common.
fn map(server: &RedisServer) -> Result<Vec<String>, ServerError> {
    let Reply::Array(ranges) = server.command(&["CLUSTER", "SLOTS"])? else {
        return Ok(Vec::new());
    };
    let mut shown = Vec::new();
    for range in ranges {
        if let Reply::Array(parts) = range
            && let [first, last, Reply::Array(master), ..] = &parts[..]
        {
            shown.push(format!("{first:?} {last:?} {:?}", master.get(2)));
        }
    }
    shown.sort_unstable();
    Ok(shown)
}

fn id(server: &RedisServer) -> Result<String, ServerError> {
    text(server, &["CLUSTER", "MYID"])
}

fn text(server: &RedisServer, words: &[&str]) -> Result<String, ServerError> {
    match server.command(words)? {
        Reply::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        other => Err(unexpected("CLUSTER", &other)),
    }
}

fn mark(
    source: &mut Connection,
    target: &mut Connection,
    slot: u16,
    [source_id, target_id]: &[String; 2],
) -> Result<(), ServerError> {
    let slot = slot.to_string();
    target.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", source_id])?;
    source.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", target_id])?;
    Ok(())
}

fn migrate(source: &mut Connection, slot: u16, to: &RedisServer) -> Result<(), ServerError> {
    let (ip, port) = (to.addr().ip().to_string(), to.port().to_string());
    let slot = slot.to_string();
    loop {
        let keys = match source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, BATCH])? {
            Reply::Array(keys) => keys,
            other => return Err(unexpected("CLUSTER GETKEYSINSLOT", &other)),
        };
        if keys.is_empty() {
            return Ok(());
        }
        let mut words: Vec<Vec<u8>> = ["MIGRATE", &ip, &port, "", "0", "10000"]
            .map(Vec::from)
            .into();
        if let Some(password) = &to.launch.password {
            words.extend(["AUTH", password].map(Vec::from));
        }
        words.push(b"KEYS".to_vec());
        words.extend(keys.into_iter().filter_map(|key| match key {
            Reply::Bytes(key) => Some(key),
            _ => None,
        }));
        source.command(&words)?;
    }
}

/// The target first: it is the one that must not be without the slot.
fn assign(
    source: &mut Connection,
    target: &mut Connection,
    slot: u16,
    target_id: &str,
) -> Result<(), ServerError> {
    let slot = slot.to_string();
    let words = ["CLUSTER", "SETSLOT", &slot, "NODE", target_id];
    target.command(&words)?;
    match source.command(&words) {
        // It has heard of it, and was the master of no other slot.
        Err(ServerError::Reply { line }) if line.contains("only with masters") => Ok(()),
        told => told.map(drop),
    }
}

fn unexpected(command: &'static str, reply: &Reply) -> ServerError {
    ServerError::UnexpectedReply {
        command,
        reply: format!("{reply:?}"),
    }
}
