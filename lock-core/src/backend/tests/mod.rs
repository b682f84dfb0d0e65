//! The rules that the keeper keeps, over a client in memory and a runtime that is driven by hand.

mod cluster;
mod cluster_batch;
mod cluster_toy;
mod connecting;
mod ending;
mod hung;
mod limits;
mod misdirected;
#[cfg(feature = "tokio")]
mod runtimes;
mod sending;
mod standstill;
mod toy;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::ClientNode;
use crate::node::{Command, Keys, NodeError, NodeErrorKind, Operation, RedisNode, Reply, Token};
use crate::runtime::BoxFuture;
use crate::ttl::Ttl;
use toy::{Accept, Server, Toy};
use world::World;

const MS: Duration = Duration::from_millis(1);
const WITHIN: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3600);

/// A call that is polled by hand.
struct Call<'n> {
    future: BoxFuture<'n, Result<Reply, NodeError>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Call<'_> {
    fn poll(&mut self) -> Poll<Result<Reply, NodeError>> {
        self.woken.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst) > 0
    }

    /// The answer of a call that was woken.
    fn answer(mut self) -> Result<Reply, NodeError> {
        assert!(self.is_woken(), "nobody woke the call");
        match self.poll() {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("woken for nothing"),
        }
    }

    fn error(self) -> NodeError {
        self.answer().unwrap_err()
    }

    fn kind(self) -> NodeErrorKind {
        self.error().kind()
    }
}

/// A node, its server and its time.
struct Bed {
    world: Arc<World>,
    server: Server,
    node: ClientNode<Toy>,
}

impl Bed {
    fn new() -> Self {
        let (world, server) = (World::new(), Server::default());
        let node = ClientNode::new(server.client()).runtime(Arc::clone(&world) as _);
        Self {
            world,
            server,
            node,
        }
    }

    /// A node that is connected, and whose server has answered a call.
    fn connected() -> Self {
        let bed = Self::new();
        let call = bed.call(&inspect("first"), WITHIN);
        bed.world.run();
        bed.server.answer_all();
        call.answer().unwrap();
        bed.server.forget_log();
        bed
    }

    /// Begins a call.
    fn call(&self, command: &Command, within: Duration) -> Call<'_> {
        begun(&self.node, command, within)
    }

    /// A call that gets no answer in time.
    fn time_out(&self, key: &str) {
        let call = self.call(&acquire(key), WITHIN);
        self.world.advance(WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NoAnswer, "{key}");
    }
}

/// Begins a call.
fn begun<'n>(node: &'n dyn RedisNode, command: &Command, within: Duration) -> Call<'n> {
    let command = command.clone();
    let mut call = Call {
        future: Box::pin(async move { node.execute(&command, within).await }),
        woken: Arc::default(),
    };
    if let Poll::Ready(answer) = call.poll() {
        // For `answer` to find.
        call.future = Box::pin(std::future::ready(answer));
        call.woken.0.store(1, Ordering::SeqCst);
    }
    call
}

fn acquire(key: &str) -> Command {
    let keys = Keys::One(Arc::from(key.as_bytes()));
    let (token, ttl) = (Token::from_random([0; 16]), Ttl::new(LONG).unwrap());
    Command::from(keys.acquire(token, ttl, false))
}

fn release(key: &str) -> Command {
    acquire(key).undo().unwrap()
}

fn inspect(key: &str) -> Command {
    Command::from(Operation::Inspect {
        key: Arc::from(key.as_bytes()),
    })
}

fn source(error: &NodeError) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}
