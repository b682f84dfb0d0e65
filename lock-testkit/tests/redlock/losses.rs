//! Keys that vanish from servers.

use lock_core::{DistributedLockExt, ExtendError, LockRequest, Loss};
use lock_testkit::RedisServer;

use super::support::*;

/// Why a server has the key no more.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// Its clock was set forward.
    Clock,
    /// It is a cache, and has too little memory.
    Eviction,
}

impl Cause {
    fn strike(self, server: &RedisServer) {
        match self {
            Self::Clock => {
                ask(server, &["PEXPIRE", KEY, "1"]);
            }
            Self::Eviction => {
                ask(
                    server,
                    &["CONFIG", "SET", "maxmemory-policy", "allkeys-random"],
                );
                ask(server, &["CONFIG", "SET", "maxmemory", "4mb"]);
                let value = "x".repeat(60_000);
                for number in 0..10_000 {
                    if get(server, KEY).is_none() {
                        break;
                    }
                    ask(server, &["SET", &format!("cached-{number}"), &value]);
                }
                ask(server, &["CONFIG", "SET", "maxmemory", "0"]);
            }
        }
    }
}

/// C44, C53.
#[apply(async_test!)]
async fn a_key_that_vanished_at_a_minority_is_no_loss_and_at_a_majority_it_is_told() {
    for cause in [Cause::Clock, Cause::Eviction] {
        let servers = servers(3);
        let locks = warm_locks(&servers).await;
        let request = LockRequest::new(KEY).ttl(60_000 * MS);
        let guard = locks.lock(request.clone()).await.unwrap();
        granted_everywhere(&guard).await;
        let lost = spawn(guard.lost());

        cause.strike(&servers[0]);
        until("gone", LONG, || get(&servers[0], KEY).is_none()).await;
        assert!(locks.try_lock(KEY).await.unwrap().is_none(), "{cause:?}");
        guard.extend(60_000 * MS).await.unwrap();
        assert!(guard.is_valid() && !lost.is_finished(), "{cause:?}");
        let is_back = || get(&servers[0], KEY).as_deref() == Some(guard.token().as_bytes());
        until("set again", LONG, is_back).await;

        let gone = |server: &RedisServer| get(server, KEY).is_none();
        for server in &servers[1..] {
            cause.strike(server);
        }
        until("gone", LONG, || servers[1..].iter().all(gone)).await;
        let extended = guard.extend(60_000 * MS).await;
        assert!(matches!(extended, Err(ExtendError::Lost)), "{extended:?}");
        assert_eq!(timeout(LONG, lost).await.unwrap().unwrap(), Loss::Revoked);
        assert!(!guard.is_valid());
        // What is left of it at one server is in nobody's way.
        let next = locks.lock(request.max_wait(LONG)).await.unwrap();
        assert!(next.is_valid() && !guard.is_valid());
    }
}
