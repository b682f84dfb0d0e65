//! Redlock over nodes of this crate keeps the rules of locks, also beside nodes of another kind.

#![cfg(unix)]

use std::sync::Arc;

use lock_redis_rs::RedisRsNode;
use lock_testkit::conformance::{MemoryHarness, NodeHarness, RedisHarness, RedlockHarness};
use rt::driver;

mod rt;

fn servers() -> RedisHarness {
    RedisHarness::new(
        driver(),
        |target| async move { RedisRsNode::new(target.url()) },
    )
}

fn memory() -> MemoryHarness {
    MemoryHarness::new(driver())
}

mod five_servers {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(5, servers()),
    }
}

mod three_servers {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(3, servers()),
    }
}

#[cfg(feature = "bb8")]
mod three_servers_by_pools {
    use super::*;

    fn pooled() -> RedisHarness {
        RedisHarness::new(driver(), |target| async move {
            let client = redis::Client::open(target.url())?;
            let pool = bb8::Pool::builder().build_unchecked(client);
            let label = target.addr().to_string();
            Ok::<_, redis::RedisError>(RedisRsNode::from_pool(label, pool))
        })
    }

    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(3, pooled()),
    }
}

mod one_server {
    use super::*;
    lock_testkit::lock_conformance! {
        harness: RedlockHarness::over(1, servers()),
        unsupported: {
            a_minority_of_hung_nodes_does_no_harm: "the one node is needed",
            a_minority_of_dead_nodes_does_no_harm: "the one node is needed",
            a_minority_of_denying_nodes_does_no_harm: "the one node is needed",
            a_minority_of_late_nodes_does_no_harm: "the one node is needed",
            a_stale_minority_does_not_keep_a_lock_taken: "the one node is needed",
            slow_refusals_are_no_outage: "the one node is needed",
        },
    }
}

mod two_servers_and_one_in_this_process {
    use super::*;

    fn mix() -> Vec<Arc<dyn NodeHarness>> {
        let servers: Arc<dyn NodeHarness> = Arc::new(servers());
        vec![Arc::clone(&servers), Arc::new(memory()), servers]
    }

    lock_testkit::lock_conformance! {
        harness: RedlockHarness::mixed(mix()),
        unsupported: {
            processes_lose_no_update: "one of the nodes is of one process",
            a_killed_process_keeps_its_lock_until_the_ttl_ends:
                "one of the nodes is of one process",
        },
    }
}
