//! Asking every node, outside of any attempt: inspection, listing and forced release.

use std::collections::BTreeSet;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, join_all, select};
use futures::{StreamExt, stream};

use super::calls::{Call, Calls, Done};
use super::engine::Engine;
use super::fanout::{FanOut, Operation};
use super::node::Nodes;
use super::protocol::{Ballots, KeyAnswer, NodeSet, Step, inspected, scanned};
use crate::error::{ForceReleaseError, InvalidInput};
use crate::inspection::{Inspection, ListedLock, Listing, NodeInspection};
use crate::node::{Command, NodeError, Operation as NodeOperation, Reply};

/// The number of locks that are inspected at a time.
const AT_ONCE: usize = 32;

/// Asks all nodes who holds the lock.
pub(crate) async fn inspect(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<Inspection, InvalidInput> {
    let key = engine.settings().key(&Arc::from(resource))?;
    Ok(inspect_key(engine, key).await)
}

async fn inspect_key(engine: &Arc<Engine>, key: Arc<[u8]>) -> Inspection {
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
    Inspection::new(needed, nodes.collect())
}

/// Asks all nodes for the keys that begin with the lock's prefix and this one, and then who holds them.
pub(crate) async fn list(engine: &Arc<Engine>, prefix: &[u8], max: usize) -> Listing {
    let own = engine.settings().prefix.len();
    let prefix: Arc<[u8]> = Arc::from([&engine.settings().prefix[..], prefix].concat());
    let mut keys = BTreeSet::new();
    let mut failures = Vec::new();
    let nodes = engine.nodes.labels().enumerate();
    let scans = nodes.map(|(node, label)| {
        let scan = scan(engine, node, &prefix, max);
        async { (label, scan.await) }
    });
    for (label, (found, result)) in join_all(scans).await {
        keys.extend(found);
        failures.extend(result.err().map(|error| (label, error)));
    }
    let is_cut = keys.len() > max;
    let inspections = stream::iter(keys.into_iter().take(max)).map(|key| async move {
        let resource = key[own..].to_vec();
        let inspection = inspect_key(engine, Arc::from(key)).await;
        ListedLock {
            resource,
            inspection,
        }
    });
    let locks = inspections
        .buffered(AT_ONCE)
        .filter(|lock| ready(lock.inspection.is_seen()));
    Listing {
        locks: locks.collect().await,
        is_cut,
        failures,
    }
}

/// The keys of one node, one more than `max` at most, as far as it answered.
async fn scan(
    engine: &Arc<Engine>,
    node: usize,
    prefix: &Arc<[u8]>,
    max: usize,
) -> (BTreeSet<Vec<u8>>, Result<(), NodeError>) {
    let mut keys = BTreeSet::new();
    let mut cursor = 0;
    loop {
        let operation = NodeOperation::Scan {
            prefix: Arc::clone(prefix),
            cursor,
        };
        let part = match ask(engine, node, operation.clone()).await {
            Ok(reply) => scanned(&operation, reply),
            Err(error) => Err(error),
        };
        match part {
            Ok((found, next)) => {
                keys.extend(found.into_iter().filter(|key| key.starts_with(prefix)));
                match next {
                    Some(next) if keys.len() <= max => cursor = next,
                    _ => return (keys, Ok(())),
                }
            }
            Err(error) => return (keys, Err(error)),
        }
    }
}

/// Asks one node, for as long as it may take.
async fn ask(
    engine: &Arc<Engine>,
    node: usize,
    operation: NodeOperation,
) -> Result<Reply, NodeError> {
    let nodes = &engine.nodes;
    let within = nodes.within(node, nodes.settings.node_timeout());
    let mut calls = Calls::default();
    calls.push(Call::other(nodes, node, Command::from(operation), within));
    let late = engine.settings().runtime().sleep(within);
    match select(pin!(calls.next()), late).await {
        Either::Left((Some(done), _)) => done.result,
        Either::Left((None, _)) | Either::Right(_) => Err(NodeError::no_answer(within)),
    }
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
