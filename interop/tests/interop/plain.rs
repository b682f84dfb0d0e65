//! A lock of a few lines, as any library could have it that excludes ours: SET NX PX, and scripts
//! that compare before they touch. It needs nothing installed, and can be broken on purpose.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::Reply;
use lock_testkit::{Connection, RedisServer};
use tokio::time::sleep;

use crate::count::{MS, count};
use crate::peer::{Ask, Peer, Told};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// What can be wrong with a library that is to exclude ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// It puts something before each name.
    Prefix,
    /// It does not look whether the lock is free.
    TakesAnyway,
    /// It says that it has the lock, and has not set it.
    SetsNothing,
    /// It deletes whatever is there.
    ReleasesAny,
    /// It says that it has released, and has not.
    ReleasesNothing,
    /// It prolongs whatever is there, or sets the key again.
    ExtendsAny,
    /// It says that it has extended, and has not.
    ExtendsNothing,
    /// It joins the names of several resources.
    Joins,
    /// It takes one node's word for all.
    OneIsEnough,
    /// It needs all nodes.
    AllAreNeeded,
    /// Its names are bytes of another encoding.
    Encoding,
    /// Its locks always have a ttl, also those that are to live for ever.
    AlwaysExpires,
}

pub(crate) struct Plain {
    servers: Arc<[RedisServer]>,
    connections: Vec<Connection>,
    bug: Option<Bug>,
    keys: Vec<Vec<u8>>,
    token: String,
}

impl Plain {
    pub(crate) fn new(servers: &Arc<[RedisServer]>) -> Self {
        let connections = servers.iter().map(|server| server.connect().unwrap());
        Self {
            servers: Arc::clone(servers),
            connections: connections.collect(),
            bug: None,
            keys: Vec::new(),
            token: String::new(),
        }
    }

    pub(crate) fn broken(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }

    fn acquire(&mut self, ttl: Duration, keys: &[&str]) -> bool {
        let before = (self.keys.clone(), self.token.clone());
        self.keys = self.named(keys);
        self.token = format!("{:016x}", RandomState::new().hash_one(0));
        let (token, bug) = (self.token.clone(), self.bug);
        let ends = !ttl.is_zero() || bug == Some(Bug::AlwaysExpires);
        let ttl = ttl.max(MS).as_millis().to_string();
        let is_set = bug == Some(Bug::SetsNothing)
            || self.on_a_quorum(|key| {
                let mut set = words(&[b"SET", key, token.as_bytes()]);
                if ends {
                    set.extend(words(&[b"PX", ttl.as_bytes()]));
                }
                if bug != Some(Bug::TakesAnyway) {
                    set.extend(words(&[b"NX"]));
                }
                set
            });
        if !is_set {
            self.release();
            (self.keys, self.token) = before;
        }
        is_set
    }

    fn extend(&mut self, ttl: Duration) -> bool {
        let (token, ttl) = (self.token.clone(), ttl.as_millis().to_string());
        match self.bug {
            Some(Bug::ExtendsNothing) => true,
            Some(Bug::ExtendsAny) => self
                .on_a_quorum(|key| words(&[b"SET", key, token.as_bytes(), b"PX", ttl.as_bytes()])),
            _ => self.on_a_quorum(|key| script(EXTEND, key, &[&token, &ttl])),
        }
    }

    fn release(&mut self) -> bool {
        let token = self.token.clone();
        match self.bug {
            Some(Bug::ReleasesNothing) => true,
            Some(Bug::ReleasesAny) => self.on_a_quorum(|key| words(&[b"DEL", key])),
            _ => self.on_a_quorum(|key| script(RELEASE, key, &[&token])),
        }
    }

    /// Sends a command for each key to each server; whether a quorum did it all.
    fn on_a_quorum(&mut self, mut command: impl FnMut(&[u8]) -> Vec<Vec<u8>>) -> bool {
        let quorum = match self.bug {
            Some(Bug::OneIsEnough) => 1,
            Some(Bug::AllAreNeeded) => self.connections.len(),
            _ => self.connections.len() / 2 + 1,
        };
        let mut agreed = 0;
        for connection in &mut self.connections {
            let mut done = 0;
            for key in &self.keys {
                // A server that is gone does nothing.
                let reply = connection.command(&command(key));
                done += usize::from(
                    reply.is_ok_and(|reply| reply == Reply::ok() || reply == Reply::Int(1)),
                );
            }
            agreed += usize::from(done == self.keys.len());
        }
        agreed >= quorum
    }

    fn named(&self, keys: &[&str]) -> Vec<Vec<u8>> {
        match self.bug {
            Some(Bug::Prefix) => keys
                .iter()
                .map(|key| format!("lock:{key}").into())
                .collect(),
            Some(Bug::Joins) => vec![keys.concat().into()],
            Some(Bug::Encoding) => {
                let utf_16 = |key: &&str| key.encode_utf16().flat_map(u16::to_be_bytes).collect();
                keys.iter().map(utf_16).collect()
            }
            _ => keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        }
    }
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

fn script(script: &str, key: &[u8], args: &[&str]) -> Vec<Vec<u8>> {
    let mut command = words(&[b"EVAL", script.as_bytes(), b"1", key]);
    command.extend(args.iter().map(|arg| arg.as_bytes().to_vec()));
    command
}

#[async_trait]
impl Peer for Plain {
    async fn ask(&mut self, ask: Ask<'_>) -> Told {
        match ask {
            Ask::Try { ttl, keys } => Told::yes_if(self.acquire(ttl, keys)),
            Ask::Acquire { ttl, keys } => {
                while !self.acquire(ttl, keys) {
                    sleep(5 * MS).await;
                }
                Told::Yes
            }
            Ask::Extend { ttl } => Told::yes_if(self.extend(ttl)),
            Ask::Release => Told::yes_if(self.release()),
            Ask::Count { ttl, rounds, key } => {
                let connection = self.servers[0].connect().unwrap();
                count(self, connection, key, ttl, rounds).await
            }
        }
    }
}
