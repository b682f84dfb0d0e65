//! A call from outside of tokio, to a client that runs on tokio alone.

use futures::executor::block_on;
use lock_core::RedisNode;
use lock_core::node::NodeErrorKind;
use lock_testkit::RedisServer;

use crate::backend::node;
use crate::support::*;

#[test]
fn a_call_outside_of_tokio_is_not_sent_and_says_what_it_needs() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    let error = block_on(node.execute(&acquire("k", token()), LONG)).unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(error.to_string().contains("tokio runtime"), "{error}");
    assert_eq!(keys(&server), 0);
}
