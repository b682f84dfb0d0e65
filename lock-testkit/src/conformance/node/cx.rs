//! The tools of a check of a node.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use lock_core::node::NodeErrorKind;
use lock_core::runtime::BoxFuture;
use lock_core::{Command, NodeError, RedisNode, Reply, Runtime, Token};

pub(crate) use super::commands::{
    TTL, acquire, acquire_all, acquire_all_for, acquire_fenced, acquire_for, acquire_or_report,
    acquire_or_report_for, answers, bootstrap, confirm, counter_of, describe, exchange,
    exchange_all, extend, extend_all, extended, guarded, inspect, release, release_all,
    release_all_keeping, release_keeping, remove, scan,
};
use super::harness::{Access, Entry, NodeBed, NodeFault};
use super::show::reply_shown;
use crate::conformance::failure::chain;
use crate::conformance::{CheckResult, Failure, NodeHarness};

/// A time that is longer than any answer of a healthy server takes, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// The time for calls that a check lets run out of time.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// The number of keys with which a pool of a few connections is asked for all of them.
const WARM_UP: usize = 64;

/// The time between two looks at a condition that becomes true by itself.
const POLL: Duration = Duration::from_millis(5);

/// How long something that happens by itself may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a check of a node works with: a server of its own and a node that talks to it.
#[derive(Debug)]
pub struct NodeCx {
    bed: Arc<dyn NodeBed>,
    node: Arc<dyn RedisNode>,
    runtime: Arc<dyn Runtime>,
    patience: Duration,
}

impl NodeCx {
    pub(crate) async fn start(
        harness: &dyn NodeHarness,
        runtime: Arc<dyn Runtime>,
        patience: Duration,
    ) -> CheckResult<Self> {
        let bed: Arc<dyn NodeBed> = Arc::from(harness.start().await?);
        let node = bed.connect(&Access::default()).await?;
        Ok(Self {
            bed,
            node,
            runtime,
            patience,
        })
    }

    /// The server, seen from outside.
    pub(crate) fn bed(&self) -> &Arc<dyn NodeBed> {
        &self.bed
    }

    /// How long something that happens by itself may take.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// The node under test.
    pub(crate) fn node(&self) -> &Arc<dyn RedisNode> {
        &self.node
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }

    /// Returns a new token, with a note as those of a lock have.
    pub(crate) fn token(&self) -> Token {
        let token = Token::generate(&*self.runtime);
        token.with_note("a check, pid 1").unwrap_or(token)
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        self.runtime.sleep(time).await;
    }

    /// Sends a command to the node under test, as a lock does: first by digest, and by source if the
    /// server does not know the script.
    pub(crate) async fn send(&self, command: &Command) -> Result<Reply, NodeError> {
        send(&*self.node, command, LONG).await
    }

    /// Sends a command, and fails unless it is answered.
    pub(crate) async fn reply(&self, command: &Command) -> CheckResult<Reply> {
        let answer = self.send(command).await;
        answer.map_err(|error| not_answered(command, &error))
    }

    /// Fails unless the command gets this answer.
    pub(crate) async fn expect(&self, command: &Command, expected: &Reply) -> CheckResult {
        let reply = self.reply(command).await?;
        if reply == *expected {
            return Ok(());
        }
        Err(Failure::new(
            format!("{} to {}", reply_shown(expected), described(command)),
            reply_shown(&reply),
        ))
    }

    /// Fails unless the command ends with an error, which it returns.
    pub(crate) async fn expect_error(
        &self,
        command: &Command,
        within: Duration,
    ) -> CheckResult<NodeError> {
        match send(&*self.node, command, within).await {
            Err(error) => Ok(error),
            Ok(reply) => Err(Failure::new(
                format!("an error to {}", described(command)),
                reply_shown(&reply),
            )),
        }
    }

    /// Fails unless the key holds the token with a lifetime.
    pub(crate) async fn expect_held(&self, key: impl AsRef<[u8]>, token: Token) -> CheckResult {
        let entry = self.bed.look(key.as_ref()).await?;
        match &entry {
            Entry::Value {
                value,
                ttl: Some(_),
            } if value == token.as_bytes() => Ok(()),
            _ => Err(Failure::new(
                format!("the key to hold {token} with a lifetime"),
                entry.to_string(),
            )),
        }
    }

    /// Fails unless the key holds exactly this.
    pub(crate) async fn expect_entry(
        &self,
        key: impl AsRef<[u8]>,
        expected: &Entry,
    ) -> CheckResult {
        let entry = self.bed.look(key.as_ref()).await?;
        if entry == *expected {
            return Ok(());
        }
        Err(Failure::new(
            format!("the key to hold {expected}"),
            entry.to_string(),
        ))
    }

    /// Returns what is left of the key's life. Fails unless the key has an expiry.
    pub(crate) async fn lifetime(&self, key: impl AsRef<[u8]>) -> CheckResult<Duration> {
        let entry = self.bed.look(key.as_ref()).await?;
        match entry {
            Entry::Value { ttl: Some(ttl), .. } => Ok(ttl),
            _ => Err(Failure::new("a key with a lifetime", entry.to_string())),
        }
    }

    /// Makes sure that the node is connected: with many keys, since each of them may belong to another
    /// connection of a pool.
    pub(crate) async fn warm_up(&self) -> CheckResult {
        for number in 0..WARM_UP {
            let nobody = release(format!("nobody-{number}"), self.token());
            self.expect(&nobody, &Reply::Int(0)).await?;
        }
        Ok(())
    }

    /// Calls until the node answers, as the attempts of a lock do after a fault.
    pub(crate) async fn until_answered(&self) -> CheckResult {
        self.until_answers(&*self.node).await
    }

    /// Gives the server, or the way to it, a fault.
    pub(crate) async fn inject(&self, fault: NodeFault) -> CheckResult {
        self.bed.inject(&fault).await
    }

    pub(crate) async fn heal(&self) -> CheckResult {
        self.bed.heal().await
    }

    /// Looks at the key until it holds what is asked for.
    pub(crate) async fn eventually(
        &self,
        what: &str,
        key: impl AsRef<[u8]>,
        holds: impl Fn(&Entry) -> bool,
    ) -> CheckResult {
        let start = self.runtime.now();
        loop {
            let entry = self.bed.look(key.as_ref()).await?;
            if holds(&entry) {
                return Ok(());
            }
            if self.runtime.now().saturating_sub(start) > self.patience {
                return Err(Failure::new(what, entry.to_string()));
            }
            self.bed.pass(POLL).await;
        }
    }

    /// Fails unless the call ends before `limit`, which is so long that only a hang reaches it.
    pub(crate) async fn ends<T>(
        &self,
        what: &str,
        limit: Duration,
        call: impl Future<Output = T> + Send,
    ) -> CheckResult<T> {
        let timer = self.runtime.sleep(limit);
        match select(Box::pin(call), timer).await {
            Either::Left((answer, _)) => Ok(answer),
            Either::Right(((), _)) => Err(Failure::new(
                format!("{what} to end within {} ms", limit.as_millis()),
                "no end",
            )),
        }
    }

    /// Runs the calls at the same time, each in a task of its own, and collects their results in
    /// order.
    pub(crate) async fn all<T: Send + 'static>(
        &self,
        calls: Vec<BoxFuture<'static, T>>,
    ) -> CheckResult<Vec<T>> {
        let mut waits = Vec::with_capacity(calls.len());
        for call in calls {
            let (sender, receiver) = futures::channel::oneshot::channel();
            self.runtime.spawn(Box::pin(async move {
                // The check that waits for it may be over.
                sender.send(call.await).ok();
            }));
            waits.push(receiver);
        }
        let results: Result<Vec<_>, _> = join_all(waits).await.into_iter().collect();
        results.map_err(|_| Failure::new("the call to end", "its task ended without a result"))
    }
}

/// Sends a command as a lock does: first by digest, and by source if the server does not know the
/// script.
pub(crate) async fn send(
    node: &dyn RedisNode,
    command: &Command,
    within: Duration,
) -> Result<Reply, NodeError> {
    match node.execute(command, within).await {
        Err(error) if error.code() == Some("NOSCRIPT") => {
            node.execute(&command.with_source(), within).await
        }
        answer => answer,
    }
}

/// Makes a failure of an answer that had to come and did not.
pub(crate) fn not_answered(command: &Command, error: &NodeError) -> Failure {
    Failure::new(
        format!("an answer to {}", described(command)),
        format!("{:?}: {}", error.kind(), chain(error)),
    )
}

/// Fails unless the error says that nothing was sent, for certain.
pub(crate) fn expect_not_sent(error: &NodeError) -> CheckResult {
    super::super::expect(
        error.kind() == NodeErrorKind::NotSent,
        "an error of the kind NotSent",
        error,
    )
}

/// Returns a command in words.
pub(crate) fn described(command: &Command) -> String {
    let key = command.operation().key();
    let start = key[..key.len().min(40)].escape_ascii();
    format!("{} of \"{start}\"", command.operation().name())
}
