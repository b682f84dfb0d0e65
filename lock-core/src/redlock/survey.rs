//! Asking every node once, outside of any attempt: inspection and forced release.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;

use super::engine::Engine;
use super::protocol::{Ballots, KeyAnswer};
use crate::error::{ForceReleaseError, InvalidInput};
use crate::inspection::{Inspection, LockKey, NodeInspection};
use crate::node::{Command, NodeError, Operation, Reply};
use crate::runtime::{BoxFuture, Runtime};

/// Asks all nodes who holds the lock.
pub(crate) async fn inspect(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<Inspection, InvalidInput> {
    let key = engine.settings.key(&Arc::from(resource))?;
    let operation = Operation::Inspect { key };
    let read = |reply: Reply| found(&operation, &reply);
    let answers = Survey::new(engine, &operation).take().await;
    let nodes = engine
        .labels()
        .zip(answers)
        .map(|(label, answer)| NodeInspection {
            label,
            found: answer.and_then(read),
        });
    Ok(Inspection::new(
        engine.settings.quorum.needed(),
        nodes.collect(),
    ))
}

/// Deletes the key at all nodes, whoever holds it; whether there was one.
pub(crate) async fn force_release(
    engine: &Arc<Engine>,
    resource: &[u8],
) -> Result<bool, ForceReleaseError> {
    let key = engine.settings.key(&Arc::from(resource))?;
    let operation = Operation::Remove { key };
    let answers = Survey::new(engine, &operation).take().await;
    let mut ballots = Ballots::new(answers.len());
    for (node, answer) in answers.into_iter().enumerate() {
        ballots.record(
            node,
            answer.and_then(|reply| KeyAnswer::read(&operation, &reply)),
        );
    }
    let is_done = |answer: &KeyAnswer| *answer != KeyAnswer::Foreign;
    let done = ballots
        .answers()
        .filter(|(_, answer)| is_done(answer))
        .count();
    if engine.settings.quorum.reached(done) {
        return Ok(ballots
            .answers()
            .any(|(_, answer)| *answer == KeyAnswer::Ours));
    }
    Err(ForceReleaseError::Unavailable {
        quorum: engine.settings.quorum.needed(),
        nodes: ballots.reports(engine.labels(), is_done),
    })
}

/// Reads the reply to an inspection.
fn found(operation: &Operation, reply: &Reply) -> Result<Option<LockKey>, NodeError> {
    let unexpected = || NodeError::unexpected_reply(operation, reply);
    let Reply::Array(items) = reply else {
        return match reply {
            Reply::Int(0) => Ok(None),
            _ => Err(unexpected()),
        };
    };
    let [token, Reply::Int(pttl)] = &items[..] else {
        return Err(unexpected());
    };
    let token = match token {
        Reply::Bytes(token) => Some(token.clone()),
        Reply::Nil => None,
        _ => return Err(unexpected()),
    };
    let ttl = u64::try_from(*pttl).ok().map(Duration::from_millis);
    Ok(Some(LockKey::new(token, ttl)))
}

/// One question to all nodes. What has no answer in time, or is not waited for, is driven to its end
/// in the background: calls are never dropped half-way.
struct Survey {
    runtime: Arc<dyn Runtime>,
    calls: FuturesUnordered<BoxFuture<'static, (usize, Result<Reply, NodeError>)>>,
    answers: Ballots<Reply>,
}

impl Survey {
    fn new(engine: &Arc<Engine>, operation: &Operation) -> Self {
        let runtime = engine.settings.runtime();
        let now = runtime.now();
        let mut answers = Ballots::new(engine.members.len());
        let calls = FuturesUnordered::new();
        let command = Command::from(operation.clone());
        for (node, member) in engine.members.iter().enumerate() {
            let settings = &engine.settings;
            let within = member.within(settings.release_timeout(), settings.connect_timeout);
            answers.ask(node, now, within);
            let (engine, command) = (Arc::clone(engine), command.clone());
            calls.push(Box::pin(async move {
                let member = &engine.members[node];
                let mut answer = member.execute(&command, within).await;
                if answer.as_ref().is_err_and(NodeError::is_no_script) {
                    answer = member.execute(&command.with_source(), within).await;
                }
                (node, answer)
            }) as BoxFuture<'static, _>);
        }
        Self {
            runtime,
            calls,
            answers,
        }
    }

    /// Waits for each node for as long as it may take, and says what each answered.
    async fn take(mut self) -> Vec<Result<Reply, NodeError>> {
        while let Some(until) = self.answers.next_deadline() {
            let left = until.saturating_sub(self.runtime.now());
            match select(self.calls.next(), self.runtime.sleep(left)).await {
                Either::Left((Some((node, answer)), _)) => self.answers.record(node, answer),
                Either::Left((None, _)) => break,
                Either::Right(_) => {
                    self.answers.expire(self.runtime.now().max(until));
                }
            }
        }
        let nodes = self.answers.len();
        (0..nodes).map(|node| self.answers.result(node)).collect()
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        let mut calls = mem::take(&mut self.calls);
        if !calls.is_empty() {
            self.runtime.spawn(Box::pin(
                async move { while calls.next().await.is_some() {} },
            ));
        }
    }
}
