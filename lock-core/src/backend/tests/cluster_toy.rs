//! Servers of a cluster in memory, and a node of all of them.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use super::toy::Wire;
use super::*;
use crate::backend::{Client, ClusterClient, ClusterNode, Connection, LedClient, Opened};
use crate::sync::locked;

/// The slots of "a", "b" and "c" are 15495, 3300 and 7365.
pub(super) const LOW: RangeInclusive<i64> = 0..=8191;
pub(super) const HIGH: RangeInclusive<i64> = 8192..=16_383;

/// The servers, by their ports.
#[derive(Clone, Default)]
pub(super) struct Servers(Arc<Mutex<BTreeMap<u16, One>>>);

#[derive(Clone)]
struct One {
    server: Server,
    /// What it says to `CLUSTER SLOTS`.
    slots: Result<Reply, NodeError>,
    /// And to `CLUSTER MYID`.
    id: Result<Reply, NodeError>,
    /// How often it was asked where slots are.
    asked: usize,
}

impl Default for One {
    fn default() -> Self {
        Self {
            server: Server::default(),
            slots: Ok(Reply::Array(Vec::new())),
            id: Ok(Reply::Bytes(b"id".to_vec())),
            asked: 0,
        }
    }
}

impl Servers {
    pub(super) fn at(&self, port: u16) -> Server {
        self.with(port, |one| one.server.clone())
    }

    fn with<T>(&self, port: u16, look: impl FnOnce(&mut One) -> T) -> T {
        look(locked(&self.0).entry(port).or_default())
    }

    /// From now on these say this where slots are.
    pub(super) fn say(&self, ports: &[u16], ranges: &[(RangeInclusive<i64>, u16)]) {
        let range = |(range, port): &(RangeInclusive<i64>, u16)| {
            let host = Reply::Bytes(b"h".to_vec());
            let master = Reply::Array(vec![host, Reply::Int(i64::from(*port))]);
            let (first, last) = (Reply::Int(*range.start()), Reply::Int(*range.end()));
            Reply::Array(vec![first, last, master])
        };
        let reply = Reply::Array(ranges.iter().map(range).collect());
        for port in ports {
            self.with(*port, |one| one.slots = Ok(reply.clone()));
        }
    }

    /// From now on this one says that it is not of a cluster.
    pub(super) fn leave_cluster(&self, port: u16) {
        let error = NodeError::server("ERR This instance has cluster support disabled");
        self.with(port, |one| {
            one.slots = Err(error.clone());
            one.id = Err(error);
        });
    }

    /// How often all of them were asked where slots are.
    pub(super) fn asked(&self) -> usize {
        locked(&self.0).values().map(|one| one.asked).sum()
    }
}

/// A client for one of them.
#[derive(Clone)]
pub(super) struct Part {
    servers: Servers,
    port: u16,
    label: String,
}

pub(super) struct PartWire {
    part: Part,
    wire: Wire,
}

impl Client for Part {
    type Connection = PartWire;

    fn label(&self) -> &str {
        &self.label
    }

    async fn connect(&self, within: Duration) -> Result<Opened<PartWire>, NodeError> {
        let opened = self.servers.at(self.port).client().connect(within).await?;
        let (part, wire) = (self.clone(), opened.connection);
        Ok(Opened {
            connection: PartWire { part, wire },
            driver: opened.driver,
        })
    }
}

impl Connection for PartWire {
    fn send(
        &self,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        self.wire.send(command)
    }
}

impl LedClient for Part {
    fn at(&self, host: &str, port: u16) -> Self {
        assert_eq!(host, "h");
        self.servers.client(port)
    }

    fn ask(
        connection: &PartWire,
        words: &[&str],
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let PartWire { part, .. } = connection;
        ready(part.servers.with(part.port, |one| match words {
            ["CLUSTER", "SLOTS"] => {
                one.asked += 1;
                one.slots.clone()
            }
            ["CLUSTER", "MYID"] => one.id.clone(),
            other => panic!("{other:?}"),
        }))
    }
}

impl ClusterClient for Part {
    fn send_asking(
        connection: &PartWire,
        command: &Command,
    ) -> impl Future<Output = Result<Reply, NodeError>> + Send + 'static {
        let server = connection.part.servers.at(connection.part.port);
        let (number, sent) = (connection.wire.number, connection.wire.send(command));
        async move {
            server.note(number, "ASKING");
            sent.await
        }
    }
}

impl Servers {
    fn client(&self, port: u16) -> Part {
        Part {
            servers: self.clone(),
            port,
            label: format!("h:{port}"),
        }
    }
}

/// A node of a cluster, its servers and its time.
pub(super) struct ClusterBed {
    pub(super) world: Arc<World>,
    pub(super) servers: Servers,
    pub(super) node: ClusterNode<Part>,
}

impl ClusterBed {
    /// With the low slots at one, the high ones at two, and both of them listed.
    pub(super) fn new() -> Self {
        let (world, servers) = (World::new(), Servers::default());
        servers.say(&[1, 2, 3], &[(LOW, 1), (HIGH, 2)]);
        let node = ClusterNode::new([servers.client(1), servers.client(2)]).unwrap();
        let node = node.runtime(Arc::clone(&world) as _);
        Self {
            world,
            servers,
            node,
        }
    }

    /// The same, with connections over which calls were answered.
    pub(super) fn connected() -> Self {
        let bed = Self::new();
        let calls = ["a", "b"].map(|key| bed.call(&inspect(key), WITHIN));
        bed.settle();
        bed.answer_all();
        for call in calls {
            call.answer().unwrap();
        }
        for port in [1, 2] {
            bed.servers.at(port).forget_log();
        }
        // So that they may be asked again.
        bed.world.advance(4 * WITHIN);
        bed
    }

    /// Until all that can be known is known.
    pub(super) fn settle(&self) {
        self.world.run();
        self.world.advance(WITHIN / 2);
    }

    pub(super) fn answer_all(&self) {
        for port in [1, 2, 3] {
            self.servers.at(port).answer_all();
        }
    }

    pub(super) fn call(&self, command: &Command, within: Duration) -> Call<'_> {
        begun(&self.node, command, within)
    }

    /// Has a server answer its oldest command on a connection with an error.
    pub(super) fn refuse(&self, port: u16, connection: usize, line: &str) {
        let error = NodeError::server(line);
        assert!(
            self.servers.at(port).answer(connection, Err(error)),
            "{line}"
        );
    }

    pub(super) fn client(&self, port: u16) -> Part {
        self.servers.client(port)
    }

    pub(super) fn log(&self, port: u16) -> Vec<String> {
        self.servers.at(port).log()
    }
}
