//! The crate `rslock`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_testkit::RedisServer;
use rslock::{Lock, LockError, LockManager};

use crate::count::count;
use crate::peer::{Ask, Peer, Told};

#[derive(Debug)]
pub(crate) struct Rslock {
    locks: LockManager,
    servers: Arc<[RedisServer]>,
    held: Option<Lock>,
}

impl Rslock {
    pub(crate) fn new(servers: &Arc<[RedisServer]>) -> Self {
        let urls = servers.iter().map(RedisServer::url).collect::<Vec<_>>();
        let mut locks = LockManager::new(urls);
        // One try. Its pauses must not be zero.
        locks.set_retry(0, Duration::from_millis(10));
        Self {
            locks,
            servers: Arc::clone(servers),
            held: None,
        }
    }

    fn granted(&mut self, result: Result<Lock, LockError>) -> Told {
        match result {
            Ok(lock) => {
                self.held = Some(lock);
                Told::Yes
            }
            // So it calls a refusal, too.
            Err(LockError::Unavailable) => Told::No,
            Err(error) => panic!("rslock: {error}"),
        }
    }

    async fn acquire(&mut self, keys: &[&str], ttl: Duration) -> Lock {
        let mut locks = self.locks.clone();
        locks.set_retry(u32::MAX, Duration::from_millis(10));
        let locked = locks.lock(only(keys), ttl).await;
        locked.unwrap_or_else(|error| panic!("rslock: {error}"))
    }
}

/// It would join the names of several.
fn only<'a>(keys: &[&'a str]) -> &'a str {
    assert_eq!(keys.len(), 1, "rslock locks one key at a time");
    keys[0]
}

#[async_trait]
impl Peer for Rslock {
    async fn ask(&mut self, ask: Ask<'_>) -> Told {
        match ask {
            Ask::Try { ttl, keys } => {
                let result = self.locks.lock(only(keys), ttl).await;
                self.granted(result)
            }
            Ask::Acquire { ttl, keys } => {
                self.held = Some(self.acquire(keys, ttl).await);
                Told::Yes
            }
            Ask::Extend { ttl } => {
                let held = self.held.as_ref().expect("it holds a lock");
                let result = self.locks.extend(held, ttl).await;
                self.granted(result)
            }
            Ask::Release => {
                let held = self.held.as_ref().expect("it holds a lock");
                self.locks.unlock(held).await;
                Told::Nothing
            }
            Ask::Count { ttl, rounds, key } => {
                let connection = self.servers[0].connect().unwrap();
                count(self, connection, key, ttl, rounds).await
            }
        }
    }
}
