//! Asking every node, outside of any attempt: inspection, listing and forced release.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, stream};

use super::calls::{Call, Calls, Done};
use super::engine::Engine;
use super::fanout::{FanOut, Operation};
use super::node::Nodes;
use super::protocol::{Ballots, KeyAnswer, NodeSet, Step, inspected, scanned};
use super::settings::RESERVED;
use crate::error::{ForceReleaseError, InvalidInput};
use crate::inspection::{Inspection, ListedLock, Listing, NodeInspection};
use crate::node::{Command, NodeError, Operation as NodeOperation, Reply};

/// The number of locks that are inspected at a time.
const AT_ONCE: usize = 32;

/// How often a node is asked for one part of a scan.
const SCAN_TRIES: u32 = 3;

/// Asks all nodes who holds the lock.
pub(crate) async fn inspect(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<Inspection, InvalidInput> {
    let key = engine.settings().key(&Arc::from(resource))?;
    let all = NodeSet::all(engine.nodes.all.len());
    Ok(inspect_key(engine, key, all).await)
}

async fn inspect_key(engine: &Arc<Engine>, key: Arc<[u8]>, at: NodeSet) -> Inspection {
    let operation = NodeOperation::Inspect { key };
    let answers = ask(engine, at, &operation).await;
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
    let mut well = NodeSet::all(engine.nodes.all.len());
    let scans = well.iter().map(|node| scan(engine, node, &prefix, max));
    let scans = join_all(scans).await.into_iter().enumerate();
    for ((node, (found, result)), label) in scans.zip(engine.nodes.labels()) {
        keys.extend(found);
        if let Err(error) = result {
            failures.push((label, error));
            // Else one that hangs would be waited for at each lock.
            well = well.without(node);
        }
    }
    let is_cut = keys.len() > max;
    let inspections = stream::iter(keys.into_iter().take(max)).map(|key| async move {
        let resource = key[own..].to_vec();
        let inspection = inspect_key(engine, Arc::from(key), well).await;
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

/// The keys of one node, one more than `max` at least if there are so many, as far as it answered.
async fn scan(
    engine: &Arc<Engine>,
    node: usize,
    prefix: &Arc<[u8]>,
    max: usize,
) -> (BTreeSet<Vec<u8>>, Result<(), NodeError>) {
    let mut keys = BTreeSet::new();
    let (mut cursor, mut failed) = (0, 0);
    loop {
        let operation = NodeOperation::Scan {
            prefix: Arc::clone(prefix),
            cursor,
        };
        let replies = ask(engine, NodeSet::of(node), &operation).await;
        let part = replies
            .result(node)
            .and_then(|reply| scanned(&operation, reply));
        match part {
            Ok((found, next)) => {
                failed = 0;
                let is_lock = |key: &Vec<u8>| {
                    let is_lock = |suffix: &&str| !key.ends_with(suffix.as_bytes());
                    key.starts_with(prefix) && RESERVED.iter().all(is_lock)
                };
                keys.extend(found.into_iter().filter(is_lock));
                match next {
                    Some(next) if keys.len() <= max => cursor = next,
                    _ => return (keys, Ok(())),
                }
            }
            Err(error) if failed == SCAN_TRIES - 1 => return (keys, Err(error)),
            // One late answer among thousands; a part may be asked for again.
            Err(_) => failed += 1,
        }
    }
}

/// Deletes the key at all nodes, whatever holds it. Returns whether there was one.
pub(crate) async fn force_release(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<bool, ForceReleaseError> {
    let key = engine.settings().key(&Arc::from(resource))?;
    let operation = NodeOperation::Remove { key };
    let replies = ask(engine, NodeSet::all(engine.nodes.all.len()), &operation).await;
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

/// Waits for each of these nodes for as long as it may take, and returns what each said.
pub(crate) async fn ask(
    engine: &Arc<Engine>,
    at: NodeSet,
    operation: &NodeOperation,
) -> Ballots<Reply> {
    let runtime = engine.settings().runtime();
    let survey = Survey {
        nodes: Arc::clone(&engine.nodes),
        at,
        command: Command::from(operation.clone()),
        replies: Ballots::new(engine.nodes.all.len()),
    };
    let mut fan_out = FanOut::new(survey, &runtime, runtime.now());
    fan_out.decide().await;
    fan_out.operation.replies.clone()
}

/// One question to some nodes, or to all.
struct Survey {
    nodes: Arc<Nodes>,
    at: NodeSet,
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
            if !self.at.contains(node) {
                let error = NodeError::not_sent("not asked, since it did not list its keys");
                self.replies.record(node, Err(error));
                continue;
            }
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
