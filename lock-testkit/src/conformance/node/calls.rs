//! Calls that go wrong, for the checks of faults.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use futures::poll;
use lock_core::node::NodeErrorKind;
use lock_core::runtime::BoxFuture;
use lock_core::{Command, NodeError, RedisNode, Reply};

use super::cx::{NodeCx, SHORT, acquire_or_report, described, extend, release, send};
use super::harness::Entry;
use crate::conformance::failure::chain;
use crate::conformance::{CheckResult, Failure, expect};

/// A time that means a hang: no call takes that long otherwise.
pub(crate) const AGES: Duration = Duration::from_secs(600);

/// The time for the many calls that are not to be answered.
pub(crate) const BRIEF: Duration = Duration::from_millis(20);

/// A call on its own, which can be begun, left alone and dropped.
pub(crate) type Call = BoxFuture<'static, Result<Reply, NodeError>>;

impl NodeCx {
    /// Fails unless the call ends, however long it takes on a busy machine.
    pub(crate) async fn ends_soon<T>(
        &self,
        what: &str,
        call: impl Future<Output = T> + Send,
    ) -> CheckResult<T> {
        self.ends(what, self.patience(), call).await
    }

    /// Fails unless the command ends with an error, by itself. It is sent as it is, a script by its
    /// digest.
    pub(crate) async fn fails(
        &self,
        command: &Command,
        within: Duration,
    ) -> CheckResult<NodeError> {
        let call = self.node().execute(command, within);
        match self.ends_soon(&described(command), call).await? {
            Err(error) => Ok(error),
            Ok(reply) => Err(Failure::new(
                format!("an error to {}", described(command)),
                format!("{reply:?}"),
            )),
        }
    }

    /// Returns a call that has not been polled.
    pub(crate) fn call(&self, command: Command, within: Duration) -> Call {
        let node = Arc::clone(self.node());
        Box::pin(async move { node.execute(&command, within).await })
    }

    /// Polls a call once, which sends its command. Fails if the call ends with that.
    pub(crate) async fn begin(&self, call: &mut Call) -> CheckResult {
        match poll!(call) {
            std::task::Poll::Pending => Ok(()),
            std::task::Poll::Ready(answer) => Err(Failure::new(
                "a call to wait for its answer",
                format!("{answer:?} at once"),
            )),
        }
    }

    /// Polls a call for a moment, and drops it if it has not ended by then.
    pub(crate) async fn give_up(&self, call: Call) {
        match select(call, self.runtime().sleep(BRIEF)).await {
            // It does not matter whether it has already failed.
            Either::Left((answer, _)) => drop(answer),
            Either::Right(((), call)) => drop(call),
        }
    }

    /// Calls a node until it answers.
    pub(crate) async fn until_answers(&self, node: &dyn RedisNode) -> CheckResult {
        self.until_answers_within(node, SHORT).await
    }

    /// Calls a node until it answers, and gives each call this much time.
    pub(crate) async fn until_answers_within(
        &self,
        node: &dyn RedisNode,
        within: Duration,
    ) -> CheckResult {
        let start = self.runtime().now();
        loop {
            let command = release("nobody", self.token());
            let call = send(node, &command, within);
            let error = match self.ends_soon("a call", call).await? {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if self.runtime().now().saturating_sub(start) > self.patience() {
                return Err(Failure::new("the node to answer again", told(&error)));
            }
            self.sleep(Duration::from_millis(2)).await;
        }
    }

    /// Makes the scripts known to the server, so that digests are enough from now on.
    pub(crate) async fn teach_scripts(&self) -> CheckResult {
        self.warm_up().await?;
        let token = self.token();
        // Several names, since each may belong to another server of a cluster.
        for name in ["nobody", "a", "b", "c", "d", "e"] {
            self.reply(&acquire_or_report(name, token)).await?;
            self.reply(&extend(name, token, AGES)).await?;
            self.reply(&release(name, token)).await?;
        }
        Ok(())
    }

    /// Gives each key a holder, by which the replies about them can be distinguished.
    pub(crate) async fn put_holders(&self, count: usize) -> CheckResult {
        for n in 0..count {
            let entry = Entry::forever(format!("holder {n}"));
            self.bed().put(holder_key(n).as_bytes(), &entry).await?;
        }
        Ok(())
    }

    /// Returns a command that asks for such a key.
    pub(crate) fn ask_holder(&self, n: usize) -> Command {
        acquire_or_report(holder_key(n), self.token())
    }

    /// Fails unless each call is answered about its own key.
    pub(crate) async fn expect_own_replies(&self, count: usize) -> CheckResult {
        for n in 0..count {
            let command = self.ask_holder(n);
            let answer = self
                .ends_soon("a call", self.send(&command))
                .await?
                .map_err(|error| super::cx::not_answered(&command, &error))?;
            expect_about_holder(n, &answer)?;
        }
        Ok(())
    }

    /// Waits until this many commands that contain the key, or the token, have arrived, and fails if
    /// they never do.
    pub(crate) async fn until_received(&self, key: &str, count: usize) -> CheckResult {
        let start = self.runtime().now();
        loop {
            let found = self.received_for(key).await?.len();
            if found >= count {
                return Ok(());
            }
            if self.runtime().now().saturating_sub(start) > self.patience() {
                return Err(Failure::new(
                    format!("{count} commands for {key:?} to arrive"),
                    format!("{found}"),
                ));
            }
            self.sleep(Duration::from_millis(2)).await;
        }
    }

    /// Returns the commands that have arrived and contain the key.
    pub(crate) async fn received_for(&self, key: &str) -> CheckResult<Vec<Vec<Vec<u8>>>> {
        let mut received = self.bed().received().await?;
        received.retain(|words| words.iter().any(|word| word == key.as_bytes()));
        Ok(received)
    }

    /// Fails if the server has any key.
    pub(crate) async fn expect_no_keys(&self, of: &str) -> CheckResult {
        let keys = self.bed().keys().await?;
        let shown: Vec<_> = keys
            .iter()
            .map(|key| String::from_utf8_lossy(key))
            .collect();
        expect(keys.is_empty(), &format!("no key of {of}"), shown)
    }
}

fn holder_key(n: usize) -> String {
    format!("held {n}")
}

/// Fails unless the reply names the holder of this key.
pub(crate) fn expect_about_holder(n: usize, reply: &Reply) -> CheckResult {
    let value = Reply::Bytes(format!("holder {n}").into_bytes());
    let own = Reply::Array(vec![value, Reply::Int(-1)]);
    crate::conformance::expect_eq(&format!("the reply about {:?}", holder_key(n)), &own, reply)
}

/// Fails unless the error allows that the command has run, or will run.
pub(crate) fn expect_in_doubt(error: &NodeError) -> CheckResult {
    let kind = error.kind();
    expect(
        matches!(kind, NodeErrorKind::NoAnswer | NodeErrorKind::Connection),
        "an error of the kind NoAnswer or Connection, since the command may have run",
        told(error),
    )
}

/// An error with its kind and causes.
pub(crate) fn told(error: &NodeError) -> String {
    format!("{:?}: {}", error.kind(), chain(error))
}
