//! Owed releases: those that had no definite answer are sent again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::calls::{Call, Calls, Done};
use super::fanout::{FanOut, Operation};
use super::nodes::Nodes;
use super::protocol::{Debt, NodeSet, Step};
use crate::node::Command;
use crate::runtime::Runtime;

/// The pause before a release is sent again; it doubles while the node does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The number of releases that go to a node at once, after it has answered one.
const BATCH: usize = 64;

/// Remembers a release that had no definite answer, and sees to it that it is sent again.
pub(crate) fn owe(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>, node: usize, debt: Debt) {
    nodes.all[node].debts().push(debt);
    start(nodes, runtime, node);
}

/// Goes on where a runtime ended with releases still owed. Costs next to nothing if none did.
pub(crate) fn resume(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>) {
    for (index, node) in nodes.all.iter().enumerate() {
        if node.is_abandoned.load(Ordering::Relaxed)
            && node.is_abandoned.swap(false, Ordering::SeqCst)
        {
            start(nodes, runtime, index);
        }
    }
}

fn start(nodes: &Arc<Nodes>, runtime: &Arc<dyn Runtime>, node: usize) {
    let is_collecting = &nodes.all[node].is_collecting;
    if !is_collecting.swap(true, Ordering::SeqCst) {
        let collector = Collector {
            nodes: Arc::clone(nodes),
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
    nodes: Arc<Nodes>,
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
            let node = &self.nodes.all[self.node];
            node.is_collecting.store(false, Ordering::SeqCst);
            // A debt that came between the last look and this moment saw a collector at work.
            self.is_at_work =
                !node.debts().is_empty() && !node.is_collecting.swap(true, Ordering::SeqCst);
        }
    }

    async fn collect(&mut self) {
        let nodes = Arc::clone(&self.nodes);
        let node = &nodes.all[self.node];
        let mut pause = FIRST_PAUSE;
        let mut limit = 1;
        loop {
            if !pause.is_zero() {
                self.runtime.sleep(pause).await;
            }
            let now = self.runtime.now();
            let debts = node.debts().take(now, limit);
            if debts.is_empty() {
                return;
            }
            self.sent.clone_from(&debts);
            let open = self.send(debts, now).await;
            self.sent.clear();
            if open.is_empty() {
                (pause, limit) = (Duration::ZERO, BATCH);
            } else {
                let doubled = pause.max(FIRST_PAUSE).saturating_mul(2);
                (pause, limit) = (doubled.min(MAX_PAUSE), 1);
            }
            let mut debts = node.debts();
            for debt in open {
                debts.put_back(debt);
            }
        }
    }

    /// Sends releases, and returns those that had no definite answer again.
    async fn send(&self, debts: Vec<Debt>, now: Duration) -> Vec<Debt> {
        let collecting = Collecting {
            nodes: Arc::clone(&self.nodes),
            open: debts.into_iter().map(Some).collect(),
            node: self.node,
            is_asked: false,
        };
        let mut fan_out = FanOut::new(collecting, &self.runtime, now);
        fan_out.decide().await;
        fan_out.finish().await;
        fan_out.operation.open.drain(..).flatten().collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // When the runtime ends before the task does, the next use of the lock starts it anew.
        if self.is_at_work {
            let node = &self.nodes.all[self.node];
            for debt in self.sent.drain(..) {
                node.debts().put_back(debt);
            }
            node.is_collecting.store(false, Ordering::SeqCst);
            node.is_abandoned.store(true, Ordering::SeqCst);
        }
    }
}

/// Some owed releases on their way to one node. If the runtime ends, the collector has noted them.
struct Collecting {
    nodes: Arc<Nodes>,
    /// Those that have no definite answer, by their part.
    open: Vec<Option<Debt>>,
    node: usize,
    is_asked: bool,
}

impl Operation for Collecting {
    type Verdict = ();

    fn step(&self) -> Step<()> {
        match self.is_asked {
            true => Step::Decided(()),
            false => Step::Ask(NodeSet::of(self.node)),
        }
    }

    fn ask(&mut self, _nodes: NodeSet, now: Duration, calls: &mut Calls) {
        self.is_asked = true;
        let node = self.node;
        let within = self
            .nodes
            .within(node, self.nodes.settings.release_timeout());
        for (part, debt) in self.open.iter().enumerate() {
            let Some(debt) = debt else { continue };
            let keep = debt.hold_until.saturating_sub(now);
            let command = Command::from(debt.keys.release(debt.token, keep));
            calls.push(Call {
                part,
                ..Call::other(&self.nodes, node, command, within)
            });
        }
    }

    fn take(&mut self, done: Done, _calls: &mut Calls) {
        if done.result.is_ok() {
            self.open[done.part] = None;
        }
    }
}
