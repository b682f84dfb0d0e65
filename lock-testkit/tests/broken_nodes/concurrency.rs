//! Bugs that show only if there are several calls, or calls that are given up.

use lock_core::NodeError;
use lock_core::node::Operation;

use crate::mutants::Bug;
use crate::node::{Answer, BrokenNode, pause};

/// Carries the operation out, with the bugs of this file.
pub(crate) async fn run(node: &BrokenNode, operation: &Operation) -> Answer {
    match node.bug {
        Bug::RefusesASecondCall => {
            if node.state.lock().in_flight > 0 {
                return Err(NodeError::not_sent("another call is running"));
            }
            node.state.lock().in_flight += 1;
            let ended = OnEnd(|| node.state.lock().in_flight -= 1);
            pause().await;
            let answer = node.run(operation).await;
            drop(ended);
            answer
        }
        Bug::MixesUpOneReplyOf997 => {
            let answer = node.run(operation).await;
            pause().await;
            let mut memory = node.state.lock();
            memory.calls += 1;
            let last = memory.last.replace(answer.clone());
            match last {
                Some(last) if memory.calls.is_multiple_of(997) => last,
                _ => answer,
            }
        }
        Bug::GivesTheReplyOfADroppedCall => {
            let answer = node.run(operation).await;
            let mut dropped = OnDrop::new(|| {
                node.state.lock().orphans.push_back(answer.clone());
            });
            pause().await;
            dropped.disarm();
            drop(dropped);
            let mut memory = node.state.lock();
            if memory.orphans.is_empty() {
                return answer;
            }
            memory.orphans.push_back(answer.clone());
            memory.orphans.pop_front().unwrap_or(answer)
        }
        Bug::BreaksAtADroppedCall => {
            if node.state.lock().broken {
                return Err(NodeError::connection("broken pipe"));
            }
            let mut dropped = OnDrop::new(|| node.state.lock().broken = true);
            pause().await;
            dropped.disarm();
            drop(dropped);
            node.run(operation).await
        }
        Bug::RunsADroppedCallLate => {
            let mut dropped = OnDrop::new(|| node.state.lock().late.push(operation.clone()));
            pause().await;
            dropped.disarm();
            drop(dropped);
            let answer = node.run(operation).await;
            let late = std::mem::take(&mut node.state.lock().late);
            for operation in late {
                drop(node.run(&operation).await);
            }
            answer
        }
        _ => node.run(operation).await,
    }
}

/// Acts when it is dropped, be that at the end of a call or before.
struct OnEnd<F: Fn()>(F);

impl<F: Fn()> Drop for OnEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Acts when a call is dropped before its end.
struct OnDrop<F: Fn()> {
    act: F,
    armed: bool,
}

impl<F: Fn()> OnDrop<F> {
    fn new(act: F) -> Self {
        Self { act, armed: true }
    }

    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if self.armed {
            (self.act)();
        }
    }
}
