//! Locks over TLS, on real servers: what every backend that speaks it has to hold.
//!
//! A backend's crate takes these tests in with a few lines, in `tests/tls.rs`:
//!
//! ```ignore
//! // A runtime as in `lock-testkit/tests/rt`, and `lock-testkit/tests/support`.
//! mod support;
//! #[path = "../../lock-testkit/tests/tls/mod.rs"]
//! mod tls;
//!
//! mod backend {
//!     pub(crate) type Node = MyNode;
//!
//!     /// By the system's roots.
//!     pub(crate) fn node(url: &str, connect_timeout: Duration) -> Node { .. }
//!
//!     /// Trusts this CA alone, and shows this certificate to the server.
//!     pub(crate) fn trusting(
//!         url: &str,
//!         connect_timeout: Duration,
//!         ca: &str,
//!         client: Option<&Certified>,
//!     ) -> Node { .. }
//! }
//! ```

pub(crate) mod certificates;
mod conformance;
mod everyday;
mod failing;

use std::error::Error;
use std::time::Duration;

use lock_core::{NodeError, RedisNode};
use lock_testkit::RedisServer;

use self::certificates::Authority;
use crate::backend::{Node, trusting};
use crate::support::{LONG, acquire, token};

/// Long enough for a busy machine; a quarter of it passes where a server stays silent.
const CONNECT: Duration = Duration::from_secs(4);

/// By its address, for which a server's certificate is made.
fn url(server: &RedisServer) -> String {
    format!("rediss://{}", server.tls_addr().unwrap())
}

fn server(authority: &Authority) -> RedisServer {
    authority.server(&["127.0.0.1"]).start().unwrap()
}

fn node(authority: &Authority, url: &str) -> Node {
    trusting(url, CONNECT, &authority.pem(), None)
}

async fn error_of(node: &impl RedisNode) -> NodeError {
    let answer = node.execute(&acquire("k", token()), LONG).await;
    answer.unwrap_err()
}

/// The error with all its causes.
fn chain(error: &NodeError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
