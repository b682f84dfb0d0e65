//! Servers, our lock and somebody else's.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{
    DistributedLockExt, LockGuard, LockRequest, RedisNode, Redlock, RedlockBuilder, Reply,
};
use lock_fred::FredNode;
use lock_redis_rs::RedisRsNode;
use lock_testkit::RedisServer;
use tokio::time::sleep;

use crate::broken_node::{BrokenNode, OurBug};
use crate::count::MS;
use crate::peer::{Ask, Peer, Told};

/// Never the reason why something ends.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A ttl that shall end while we wait, long enough for what has to happen before on a slow machine.
pub(crate) const SHORT: Duration = Duration::from_secs(3);

const SECOND: Duration = Duration::from_secs(1);

/// A lock over either client.
pub(crate) type Ours = Redlock<Arc<dyn RedisNode>>;

/// The client on our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    RedisRs,
    Fred,
    /// One that does not what it is told.
    Broken(OurBug),
}

impl Client {
    fn node(self, server: &RedisServer) -> Arc<dyn RedisNode> {
        match self {
            Self::RedisRs => Arc::new(RedisRsNode::new(server.url()).unwrap()),
            Self::Fred => Arc::new(FredNode::new(server.url()).unwrap()),
            Self::Broken(bug) => Arc::new(BrokenNode::new(Self::RedisRs.node(server), bug)),
        }
    }
}

pub(crate) struct Scene {
    pub(crate) servers: Arc<[RedisServer]>,
    pub(crate) ours: Ours,
    pub(crate) theirs: Box<dyn Peer>,
    client: Client,
    patience: Duration,
}

impl Scene {
    /// We are connected to all servers. `patience` is how long what has to happen may take.
    pub(crate) async fn new(
        servers: Arc<[RedisServer]>,
        client: Client,
        theirs: Box<dyn Peer>,
        patience: Duration,
    ) -> Self {
        let scene = Self {
            ours: builder(&servers, client).build().unwrap(),
            theirs,
            client,
            servers,
            patience,
        };
        let guard = scene.we_hold("our-warm-up").await;
        guard.release().await.unwrap();
        scene
    }

    /// They are connected to all servers.
    pub(crate) async fn they_warm_up(&mut self) {
        self.they_hold("their-warm-up", LONG).await;
        self.theirs.ask(Ask::Release).await;
    }

    /// For a lock of ours with other settings.
    pub(crate) fn builder(&self) -> RedlockBuilder<Arc<dyn RedisNode>> {
        builder(&self.servers, self.client)
    }

    pub(crate) fn quorum(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// We hold a lock on all servers, as soon as it is free there.
    pub(crate) async fn we_hold(&self, request: impl Into<LockRequest>) -> LockGuard {
        let request = request.into();
        let started = Instant::now();
        while started.elapsed() < self.patience {
            for key in request.resources() {
                self.until_free(key).await;
            }
            let guard = self.we_wait_for(&request).await;
            let is_everywhere = || guard.votes().granted == self.servers.len();
            if is_within(SECOND, is_everywhere).await {
                return guard;
            }
            // Where we were not connected yet, or a server was slow, the next attempt gets through.
            guard.release().await.ok();
        }
        panic!(
            "not within {:?}: we hold the lock everywhere",
            self.patience
        );
    }

    /// We wait for a lock, and get it on a quorum of servers.
    pub(crate) async fn we_wait_for(&self, request: impl Into<LockRequest>) -> LockGuard {
        let request = request.into().max_wait(self.patience);
        let ttl = request.options().ttl.unwrap_or(LONG);
        self.ours.lock(request.ttl(ttl)).await.unwrap()
    }

    /// Whether we get the lock at once. It is free again afterwards.
    pub(crate) async fn we_get(&self, request: impl Into<LockRequest>) -> bool {
        let request = request.into().ttl(LONG);
        let Some(guard) = self.ours.try_lock(request).await.unwrap() else {
            return false;
        };
        guard.release().await.unwrap();
        true
    }

    /// They hold a lock on all servers, as soon as it is free there.
    pub(crate) async fn they_hold(&mut self, key: &str, ttl: Duration) {
        self.until_free(key.as_bytes()).await;
        assert!(self.they_get(&[key], ttl).await, "they do not get {key:?}");
        self.until("they hold the lock everywhere", || {
            self.values(key).0.iter().all(Option::is_some)
        })
        .await;
    }

    /// What a quorum has released or let expire may stand at the other servers for a moment.
    async fn until_free(&self, key: &[u8]) {
        let is_free = |server: &RedisServer| {
            let exists = server.command(&[b"EXISTS", key]).unwrap();
            exists == Reply::Int(0)
        };
        self.until("the lock is free everywhere", || {
            self.servers.iter().all(is_free)
        })
        .await;
    }

    /// Whether they get the lock at once.
    pub(crate) async fn they_get(&mut self, keys: &[&str], ttl: Duration) -> bool {
        self.yes(Ask::Try { ttl, keys }).await
    }

    pub(crate) async fn they_wait_for(&mut self, key: &str, ttl: Duration) {
        let keys = &[key];
        assert!(self.yes(Ask::Acquire { ttl, keys }).await);
    }

    /// Whether they say that they have extended their lock.
    pub(crate) async fn they_extend(&mut self, ttl: Duration) -> bool {
        self.yes(Ask::Extend { ttl }).await
    }

    async fn yes(&mut self, ask: Ask<'_>) -> bool {
        match self.theirs.ask(ask).await {
            Told::Yes => true,
            Told::No => false,
            other => panic!("{other:?} to {ask:?}"),
        }
    }

    /// What is under a key, server by server.
    pub(crate) fn values(&self, key: &str) -> Values {
        let value = |server| match ask(server, &["GET", key]) {
            Reply::Bytes(value) => Some(value),
            _ => None,
        };
        Values(self.servers.iter().map(value).collect())
    }

    pub(crate) async fn until(&self, what: &str, condition: impl FnMut() -> bool) {
        let limit = self.patience;
        let is_so = is_within(limit, condition).await;
        assert!(is_so, "not within {limit:?}: {what}");
    }
}

/// Its nodes may be slow: that a machine is busy is no finding.
fn builder(servers: &[RedisServer], client: Client) -> RedlockBuilder<Arc<dyn RedisNode>> {
    let nodes = servers.iter().map(|server| client.node(server));
    Redlock::builder().nodes(nodes).node_timeout(2 * SECOND)
}

/// Polls a condition.
async fn is_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > limit {
            return false;
        }
        sleep(5 * MS).await;
    }
    true
}

/// The value of a key at each server.
pub(crate) struct Values(pub(crate) Vec<Option<Vec<u8>>>);

impl Values {
    /// Whether `quorum` servers have this value, and none has another one.
    pub(crate) fn are(&self, token: &[u8], quorum: usize) -> bool {
        let (same, others): (Vec<_>, Vec<_>) =
            self.0.iter().flatten().partition(|value| *value == token);
        same.len() >= quorum && others.is_empty()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |value: &Option<Vec<u8>>| value.as_ref().map(|value| value.escape_ascii().to_string());
        f.debug_list().entries(self.0.iter().map(text)).finish()
    }
}

pub(crate) fn ask(server: &RedisServer, words: &[&str]) -> Reply {
    server.command(words).unwrap()
}
