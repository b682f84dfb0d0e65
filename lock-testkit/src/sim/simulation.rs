//! [`Sim`]: a world of clients, servers and tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::runtime::Runtime;

use super::clock::Clock;
use super::coverage::Coverage;
use super::fault::{EPOCH, Fault};
use super::ledger::MAX_SERVERS;
use super::locked;
use super::network::EndpointId;
use super::node::SimNode;
use super::server::{Server, ServerId};
use super::shared::{ClientRuntime, Shared};
use super::tasks::ClientId;
use super::world::{Client, World};

/// A simulated world: servers, client processes, the network between them, and time.
///
/// Everything in it happens on the thread that calls [`run_for`](Self::run_for), in virtual time
/// and by chance from the seed alone: two simulations of one seed, set up alike, do the same.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, Redlock};
/// use lock_testkit::sim::Sim;
///
/// let sim = Sim::new(7);
/// sim.add_servers(3);
/// let client = sim.add_client();
/// let locks = Redlock::builder()
///     .nodes(sim.nodes(client)) // or nodes of your own, around these
///     .runtime(sim.runtime(client))
///     .build()?;
/// sim.spawn(client, async move {
///     let guard = locks.lock("invoice-7").await.expect("nothing is wrong here");
///     guard.release().await.expect("nor here");
/// });
/// sim.run_for(Duration::from_secs(60));
/// assert_eq!(sim.tasks_alive(client), 0);
/// # Ok::<_, lock_core::BuildError>(())
/// ```
pub struct Sim {
    pub(crate) shared: Arc<Shared>,
    /// One for each pair of client and server that was asked for.
    nodes: Mutex<BTreeMap<usize, SimNode>>,
}

impl Sim {
    /// Makes an empty world.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::build(seed, false)
    }

    /// Makes an empty world that keeps a readable [trace](Self::take_trace).
    #[must_use]
    pub fn traced(seed: u64) -> Self {
        Self::build(seed, true)
    }

    pub(crate) fn build(seed: u64, traced: bool) -> Self {
        Self {
            shared: Shared::new(World::new(seed, traced)),
            nodes: Mutex::default(),
        }
    }

    /// Adds servers with correct clocks.
    ///
    /// # Panics
    ///
    /// If there are more than 16 servers then.
    pub fn add_servers(&self, count: usize) -> Vec<ServerId> {
        let mut world = self.shared.world();
        (0..count)
            .map(|_| add_server(&mut world, 0, true))
            .collect()
    }

    pub(crate) fn add_server(&self, rate_ppb: i64, keeps_snapshots: bool) -> ServerId {
        add_server(&mut self.shared.world(), rate_ppb, keeps_snapshots)
    }

    /// Adds a client process with correct clocks.
    pub fn add_client(&self) -> ClientId {
        self.add_client_with(0, 0)
    }

    /// Adds a client process whose monotonic clock runs too fast by this many parts per billion,
    /// and whose wall clock is off by this many nanoseconds.
    pub fn add_client_with(&self, rate_ppb: i64, wall_error_nanos: i64) -> ClientId {
        let mut world = self.shared.world();
        let client = ClientId(world.clients.len());
        // Each process has an origin of its own.
        let origin = Duration::from_secs(1000 * (client.0 as u64 + 1));
        let wall = EPOCH + world.now;
        world.clients.push(Client {
            monotonic: Clock::new(origin, rate_ppb),
            wall: Clock::new(wall, 0),
            wall_set_at: Duration::ZERO,
            is_paused: false,
            paused_until: Duration::ZERO,
            shut_at: None,
            is_dead: false,
            held_back: std::collections::VecDeque::new(),
        });
        world.set_wall(client, wall_error_nanos);
        client
    }

    /// Returns the runtime of a client: its clocks, timers and tasks.
    #[must_use]
    pub fn runtime(&self, client: ClientId) -> Arc<dyn Runtime> {
        Arc::new(ClientRuntime::new(&self.shared, client))
    }

    /// Returns a client's nodes, one for each server. Each call returns the same nodes.
    #[must_use]
    pub fn nodes(&self, client: ClientId) -> Vec<SimNode> {
        let servers = self.shared.world().servers.len();
        let mut nodes = locked(&self.nodes);
        let node = |server| {
            let id = EndpointId::new(client, ServerId(server));
            let node = nodes.entry(id.index());
            node.or_insert_with(|| SimNode::new(&self.shared, id))
                .clone()
        };
        (0..servers).map(node).collect()
    }

    /// Spawns a task of a client.
    pub fn spawn(&self, client: ClientId, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawn(client, Box::pin(task));
    }

    /// Lets this much true time pass.
    pub fn run_for(&self, duration: Duration) {
        let until = self.now().saturating_add(duration);
        self.shared.run_until(until);
    }

    /// Lets time pass up to this true moment.
    pub fn run_until(&self, moment: Duration) {
        self.shared.run_until(moment);
    }

    /// Returns the true time since the simulation began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.world().now
    }

    /// Injects a fault now.
    pub fn inject(&self, fault: Fault) {
        self.shared.world().inject(fault);
    }

    /// Injects a fault after this much true time.
    pub fn inject_after(&self, pause: Duration, fault: Fault) {
        let mut world = self.shared.world();
        world.after(pause, move |world| world.inject(fault));
    }

    /// Returns the keys at a server, each with what is left of its life in true time.
    #[must_use]
    pub fn keys(&self, server: ServerId) -> Vec<(Vec<u8>, Duration)> {
        let mut world = self.shared.world();
        let now = world.now;
        let keys = world.servers[server.0].keys(now);
        keys.into_iter().map(|(key, _, left)| (key, left)).collect()
    }

    /// Returns how many tasks of a client have not ended, not counting those of its connections.
    #[must_use]
    pub fn tasks_alive(&self, client: ClientId) -> usize {
        self.shared.tasks().alive(client)
    }

    /// Returns the hash of all events so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.shared.world().hash.value()
    }

    /// Returns what has happened so far, and how often.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        self.shared.world().ledger.coverage.clone()
    }

    /// Writes a line to the trace, if one is kept.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if self.shared.world().trace.is_on() {
            let line = line();
            self.shared.world().note(|| line);
        }
    }

    /// Takes the trace so far, which is empty unless it is [kept](Self::traced).
    #[must_use]
    pub fn take_trace(&self) -> Vec<String> {
        self.shared.world().trace.take()
    }
}

fn add_server(world: &mut World, rate_ppb: i64, keeps_snapshots: bool) -> ServerId {
    let server = ServerId(world.servers.len());
    assert!(server.0 < MAX_SERVERS, "at most {MAX_SERVERS} servers");
    // Whatever keeps servers' clocks together leaves them some milliseconds apart.
    let shown = EPOCH + Duration::from_millis(40 * server.0 as u64);
    let clock = Clock::new(shown, rate_ppb);
    world.servers.push(Server::new(clock, keeps_snapshots));
    server
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sim(at {:?})", self.now())
    }
}
