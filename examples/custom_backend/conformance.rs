//! What makes the backend trustworthy: it keeps every rule of `RedisNode`, and Redlock over it
//! every rule of `DistributedLock`.

use std::convert::Infallible;

use lock_testkit::conformance::{RedisHarness, RedlockHarness, TokioDriver};

use crate::node::MyNode;

fn harness() -> RedisHarness {
    RedisHarness::new(TokioDriver::multi_thread(), |target| async move {
        Ok::<_, Infallible>(MyNode::new(target.addr().to_string()))
    })
}

mod node {
    lock_testkit::conformance! {
        harness: super::harness(),
        unsupported: {
            the_right_password_opens_the_server: "the client does not log in",
        },
    }
}

mod redlock {
    lock_testkit::lock_conformance! {
        harness: super::RedlockHarness::over(3, super::harness()),
    }
}
