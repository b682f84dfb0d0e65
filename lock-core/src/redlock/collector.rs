//! Sends releases again that had no definite answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::engine::Engine;
use super::protocol::Debt;
use crate::node::{Command, NodeError};
use crate::runtime::Runtime;

/// The pause before a release is sent again; it doubles while the node does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How many releases go to a node at once, once it has answered one.
const BATCH: usize = 64;

/// Remembers a release that had no definite answer, and sees to it that it is sent again.
pub(crate) fn owe(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>, node: usize, debt: Debt) {
    engine.members[node].debts().push(debt);
    start(engine, runtime, node);
}

/// Goes on where a runtime ended with releases still owed. Costs next to nothing if none did.
pub(crate) fn resume(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>) {
    for (node, member) in engine.members.iter().enumerate() {
        if member.is_abandoned.load(Ordering::Relaxed)
            && member.is_abandoned.swap(false, Ordering::SeqCst)
        {
            start(engine, runtime, node);
        }
    }
}

fn start(engine: &Arc<Engine>, runtime: &Arc<dyn Runtime>, node: usize) {
    let is_collecting = &engine.members[node].is_collecting;
    if !is_collecting.swap(true, Ordering::SeqCst) {
        let collector = Collector {
            engine: Arc::clone(engine),
            runtime: Arc::clone(runtime),
            node,
            sent: Vec::new(),
            is_at_work: true,
        };
        runtime.spawn(Box::pin(collector.run()));
    }
}

/// The one task that is busy with the debts of a node. It ends when there are none.
struct Collector {
    engine: Arc<Engine>,
    runtime: Arc<dyn Runtime>,
    node: usize,
    /// What was sent and has no answer yet.
    sent: Vec<Debt>,
    is_at_work: bool,
}

impl Collector {
    async fn run(mut self) {
        while self.is_at_work {
            self.collect().await;
            let member = &self.engine.members[self.node];
            member.is_collecting.store(false, Ordering::SeqCst);
            // A debt that came between the last look and this moment saw a collector at work.
            self.is_at_work =
                !member.debts().is_empty() && !member.is_collecting.swap(true, Ordering::SeqCst);
        }
    }

    async fn collect(&mut self) {
        let engine = Arc::clone(&self.engine);
        let member = &engine.members[self.node];
        let mut pause = FIRST_PAUSE;
        let mut limit = 1;
        loop {
            if !pause.is_zero() {
                self.runtime.sleep(pause).await;
            }
            let debts = member.debts().take(self.runtime.now(), limit);
            if debts.is_empty() {
                return;
            }
            self.sent.clone_from(&debts);
            let open = self.send(debts).await;
            self.sent.clear();
            if open.is_empty() {
                (pause, limit) = (Duration::ZERO, BATCH);
            } else {
                let doubled = pause.max(FIRST_PAUSE).saturating_mul(2);
                (pause, limit) = (doubled.min(MAX_PAUSE), 1);
            }
            let mut debts = member.debts();
            for debt in open {
                debts.put_back(debt);
            }
        }
    }

    /// Sends releases, and gives back those that had no definite answer again.
    async fn send(&self, debts: Vec<Debt>) -> Vec<Debt> {
        let calls = debts.into_iter().map(|debt| self.release(debt));
        let mut calls = calls.collect::<FuturesUnordered<_>>();
        let mut open = Vec::new();
        while let Some(debt) = calls.next().await {
            open.extend(debt);
        }
        open
    }

    async fn release(&self, debt: Debt) -> Option<Debt> {
        let member = &self.engine.members[self.node];
        let settings = &self.engine.settings;
        let keep = debt.hold_until.saturating_sub(self.runtime.now());
        let command = Command::from(debt.keys.release(debt.token, keep));
        let within = member.within(settings.release_timeout(), settings.connect_timeout);
        let mut result = member.execute(&command, within).await;
        if result.as_ref().is_err_and(NodeError::is_no_script) {
            result = member.execute(&command.with_source(), within).await;
        }
        result.is_err().then_some(debt)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // When the runtime ends before the task does, the next use of the lock starts it anew.
        if self.is_at_work {
            let member = &self.engine.members[self.node];
            for debt in self.sent.drain(..) {
                member.debts().put_back(debt);
            }
            member.is_collecting.store(false, Ordering::SeqCst);
            member.is_abandoned.store(true, Ordering::SeqCst);
        }
    }
}
