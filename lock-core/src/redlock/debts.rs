//! Owed releases: those that had no definite answer are sent again.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Call, Calls};
use super::node::Nodes;
use super::protocol::Debt;
use crate::node::Command;
use crate::runtime::Runtime;

/// The pause before a release is sent again; it doubles while the node does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The number of releases that go to a node at once, after it has answered one.
const BATCH: usize = 64;

/// Remembers a release that had no definite answer, and sees to it that it is sent again.
pub(crate) fn owe(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>, node: usize, debt: Debt) {
    nodes.owe(node, debt);
    serve(nodes, runtime, node);
}

/// Goes on where a runtime ended with releases still owed.
pub(crate) fn resume(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>) {
    for node in 0..nodes.all.len() {
        serve(nodes, runtime, node);
    }
}

fn serve(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>, node: usize) {
    let now = runtime.now();
    if nodes.all[node].debts().take_over_if_unserved(now) {
        let collector = Collector {
            nodes: Arc::clone(nodes),
            runtime: Arc::clone(runtime),
            node,
            sent: Vec::new(),
            is_done: false,
        };
        runtime.spawn(Box::pin(collector.run()));
    }
}

/// The one task that is busy with the debts of a node. It ends when there are none.
struct Collector {
    nodes: Arc<Nodes>,
    runtime: Arc<dyn Runtime>,
    node: usize,
    /// What was sent and has no definite answer yet, by the part of its call.
    sent: Vec<Option<Debt>>,
    is_done: bool,
}

impl Collector {
    async fn run(mut self) {
        let (mut pause, mut limit) = (FIRST_PAUSE, 1);
        loop {
            if !pause.is_zero() {
                self.runtime.sleep(pause).await;
            }
            let now = self.runtime.now();
            let debts = self.nodes.all[self.node].debts().take(now, limit);
            if debts.is_empty() {
                self.is_done = true;
                return;
            }
            self.sent = debts.into_iter().map(Some).collect();
            self.send(now).await;
            if self.put_back() == 0 {
                (pause, limit) = (Duration::ZERO, BATCH);
            } else {
                let doubled = pause.max(FIRST_PAUSE).saturating_mul(2);
                (pause, limit) = (doubled.min(MAX_PAUSE), 1);
            }
        }
    }

    /// Sends the releases, and waits until each has an answer or none will come.
    async fn send(&mut self, now: Duration) {
        let mut calls = Calls::default();
        let timeout = self.nodes.settings.release_timeout();
        let within = self.nodes.within(self.node, timeout);
        for (part, debt) in self.sent.iter().flatten().enumerate() {
            let keep = debt.hold_until.saturating_sub(now);
            let command = Command::from(debt.keys.release(debt.token, keep));
            calls.push(Call {
                part,
                ..Call::other(&self.nodes, self.node, command, within)
            });
        }
        while let Some(done) = calls.next().await {
            if done.result.is_ok() {
                self.sent[done.part] = None;
            }
        }
    }

    /// What has no definite answer is owed again. Returns how much that is.
    fn put_back(&mut self) -> usize {
        let (nodes, node) = (&self.nodes, self.node);
        let open = self.sent.drain(..).flatten();
        open.map(|debt| {
            let lost = nodes.all[node].debts().put_back(debt);
            nodes.given_up(node, lost);
        })
        .count()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // When the runtime ends before the task does, the next use of the lock starts it anew.
        if !self.is_done {
            self.put_back();
            self.nodes.all[self.node].debts().leave();
            self.nodes.leave_work();
        }
    }
}
