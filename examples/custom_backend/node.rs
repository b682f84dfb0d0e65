//! `MyNode`: a `RedisNode` over the client beside it.
//!
//! Calls go through one channel to one task that owns the connection, so the rules come almost by
//! themselves: the channel keeps the order of calls (N12), a call that nobody waits for any more is
//! skipped before it is sent and answered into the void after (N6), nothing is ever sent twice (N5).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::Subscription;
use lock_core::{Command, NodeError, RedisNode, Reply};
use tokio::sync::{mpsc, oneshot};

use crate::connection::serve;

/// No more calls wait than that: a caller learns at once that its own is not sent.
const MAX_WAITING: usize = 1024;

/// One Redis server, by its address `host:port`.
#[derive(Debug)]
pub(crate) struct MyNode {
    addr: String,
    /// To the task that owns the connection; it is started by the first call.
    calls: Mutex<Option<mpsc::Sender<Call>>>,
}

/// A command on its way to the task that owns the connection.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) command: Command,
    reply_to: oneshot::Sender<Result<Reply, NodeError>>,
}

impl Call {
    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply_to.is_closed()
    }

    pub(crate) fn answer(self, answer: Result<Reply, NodeError>) {
        // Whoever gave up meanwhile does not get it.
        self.reply_to.send(answer).ok();
    }
}

impl MyNode {
    /// Does no IO: a server that is down does not keep a service from starting.
    pub(crate) fn new(addr: impl Into<String>) -> Self {
        Self {
            addr: addr.into(),
            calls: Mutex::new(None),
        }
    }

    /// Hands the call over. It is here, before the first `await`, that the order of calls is set.
    fn hand_over(&self, call: Call) -> Result<(), NodeError> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match calls.take() {
            // The task ends with the runtime that it was started on: then another one takes over.
            Some(sender) if !sender.is_closed() => sender,
            _ => {
                let runtime = tokio::runtime::Handle::try_current()
                    .map_err(|error| NodeError::not_sent("no runtime").with_source(error))?;
                let (sender, receiver) = mpsc::channel(MAX_WAITING);
                runtime.spawn(serve(self.addr.clone(), receiver));
                sender
            }
        };
        let sent = sender.try_send(call);
        *calls = Some(sender);
        sent.map_err(|_| NodeError::not_sent("too many calls wait for an answer"))
    }
}

#[async_trait]
impl RedisNode for MyNode {
    async fn execute(&self, command: &Command, within: Duration) -> Result<Reply, NodeError> {
        let (reply_to, answer) = oneshot::channel();
        let command = command.clone();
        self.hand_over(Call { command, reply_to })?;
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(NodeError::connection("the runtime of the connection ended")),
            Err(_) => Err(NodeError::no_answer(within)),
        }
    }

    async fn subscribe(&self, _channel: &[u8]) -> Result<Subscription, NodeError> {
        Err(NodeError::cannot_listen())
    }

    fn label(&self) -> &str {
        &self.addr
    }
}
