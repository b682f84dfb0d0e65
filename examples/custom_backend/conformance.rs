//! What makes the backend trustworthy: it keeps every rule of `RedisNode`, and Redlock over it every
//! rule of `DistributedLock`.

use lock_core::backend::ClientNode;
use lock_testkit::conformance::node::Protocol;
use lock_testkit::conformance::{RedisHarness, RedlockHarness, TokioDriver};

fn harness() -> RedisHarness {
    RedisHarness::new(TokioDriver::multi_thread(), |target| async move {
        match target.protocol() {
            // What the client cannot do is refused, never passed over: see `unsupported`.
            Some(Protocol::Resp3) => Err("the client knows RESP2 alone"),
            _ => Ok(ClientNode::new(crate::MyClient(target.addr().to_string()))),
        }
    })
}

lock_testkit::conformance! {
    harness: harness(),
    unsupported: {
        resp3_replies_are_read_as_those_of_resp2: "the client knows RESP2 alone",
        the_right_password_opens_the_server: "the client does not log in",
    },
}

mod redlock {
    lock_testkit::lock_conformance! { harness: super::RedlockHarness::over(3, super::harness()) }
}
