//! Asking every node once, outside of any attempt: inspection and forced release.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Call, Calls, Done};
use super::engine::Engine;
use super::fanout::{FanOut, Operation};
use super::node::Nodes;
use super::protocol::{Ballots, KeyAnswer, NodeSet, Step, inspected};
use crate::error::{ForceReleaseError, InvalidInput};
use crate::inspection::{Inspection, NodeInspection};
use crate::node::{Command, Operation as NodeOperation, Reply};

/// Asks all nodes who holds the lock.
pub(crate) async fn inspect(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<Inspection, InvalidInput> {
    let key = engine.settings().key(&Arc::from(resource))?;
    let operation = NodeOperation::Inspect { key };
    let answers = ask_all(engine, &operation).await;
    let nodes = engine.nodes.labels().enumerate();
    let nodes = nodes.map(|(node, label)| NodeInspection {
        label,
        found: answers
            .result(node)
            .and_then(|reply| inspected(&operation, &reply)),
    });
    let needed = engine.nodes.quorum().needed();
    Ok(Inspection::new(needed, nodes.collect()))
}

/// Deletes the key at all nodes, whatever holds it. Returns whether there was one.
pub(crate) async fn force_release(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<bool, ForceReleaseError> {
    let key = engine.settings().key(&Arc::from(resource))?;
    let operation = NodeOperation::Remove { key };
    let replies = ask_all(engine, &operation).await;
    let mut ballots = Ballots::new(replies.len());
    for node in 0..replies.len() {
        let answer = replies.result(node);
        ballots.record(
            node,
            answer.and_then(|reply| KeyAnswer::read(&operation, &reply)),
        );
    }
    let is_done = |answer: &KeyAnswer| *answer != KeyAnswer::Foreign;
    let done = ballots.answers().filter(|(_, answer)| is_done(answer));
    let quorum = engine.nodes.quorum();
    if quorum.reached(done.count()) {
        return Ok(ballots
            .answers()
            .any(|(_, answer)| *answer == KeyAnswer::Ours));
    }
    Err(ForceReleaseError::Unavailable {
        quorum: quorum.needed(),
        nodes: engine.nodes.reports(&ballots, is_done),
    })
}

/// Waits for each node for as long as it may take, and returns what each said.
async fn ask_all(engine: &Arc<Engine>, operation: &NodeOperation) -> Ballots<Reply> {
    let runtime = engine.settings().runtime();
    let survey = Survey {
        nodes: Arc::clone(&engine.nodes),
        command: Command::from(operation.clone()),
        replies: Ballots::new(engine.nodes.all.len()),
    };
    let mut fan_out = FanOut::new(survey, &runtime, runtime.now());
    fan_out.decide().await;
    fan_out.operation.replies.clone()
}

/// One question to all nodes.
struct Survey {
    nodes: Arc<Nodes>,
    command: Command,
    replies: Ballots<Reply>,
}

impl Operation for Survey {
    type Verdict = ();

    fn step(&self) -> Step<()> {
        self.replies
            .step(|| (self.replies.open() == 0).then_some(()))
    }

    fn ask(&mut self, nodes: NodeSet, now: Duration, calls: &mut Calls) {
        for node in nodes.iter() {
            let within = self.nodes.within(node, self.nodes.settings.node_timeout());
            self.replies.ask(node, now, within);
            let command = self.command.clone();
            calls.push(Call::other(&self.nodes, node, command, within));
        }
    }

    fn take(&mut self, done: Done, _calls: &mut Calls) {
        self.replies.record(done.node, done.result);
    }

    fn pass_time(&mut self, now: Duration, _calls: &mut Calls) {
        self.replies.expire(now);
    }
}
