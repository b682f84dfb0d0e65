//! Asks the servers which of them has which slots.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;

use super::ClusterClient;
use super::member::not_of_a_cluster;
use super::slots::SlotMap;
use super::state::State;
use crate::backend::client::Client;
use crate::backend::led::asked;
use crate::display::Ms;
use crate::node::{NodeError, NodeErrorKind};
use crate::runtime::Runtime;

/// How many of the servers that were listed are asked at the first call.
const AT_FIRST: usize = 8;

/// How many masters are asked later, beside one that was listed.
const MASTERS: usize = 2;

/// How long the others are waited for when one has answered.
const SETTLING: Duration = Duration::from_millis(100);

/// Asks some of the servers in a task of its own. The `round` says which.
pub(super) fn start<C: ClusterClient>(
    state: &Arc<State<C>>,
    number: u64,
    round: usize,
    runtime: Arc<dyn Runtime>,
) {
    let search = Search {
        state: Arc::downgrade(state),
        number: Some(number),
        runtime: Arc::clone(&runtime),
    };
    let asked = whom_to_ask(state, round);
    let task = search.run(asked, state.settings.connect_timeout);
    runtime.spawn(Box::pin(task));
}

/// All that were listed, up to a limit; once there is a map, a few of it and one that was listed, in turns: one may
/// be away, or behind, and all of the map may have gone.
fn whom_to_ask<C: ClusterClient>(state: &State<C>, round: usize) -> Vec<C> {
    let listed = &state.servers;
    let Some(routes) = state.routes() else {
        let from = round.wrapping_mul(AT_FIRST);
        let asked = listed.iter().cycle().skip(from % listed.len());
        return asked.take(listed.len().min(AT_FIRST)).cloned().collect();
    };
    let masters = routes.masters();
    let some = match masters.len() {
        0 => Vec::new(),
        count => (0..count.min(MASTERS))
            .map(|n| masters[round.wrapping_add(n) % count].client().clone())
            .collect(),
    };
    // One that is among them would have two votes.
    let is_another = |one: &&C| some.iter().all(|other: &C| other.label() != one.label());
    let mut in_turns = listed.iter().cycle().skip(round % listed.len());
    let one = in_turns
        .by_ref()
        .take(listed.len())
        .find(is_another)
        .cloned();
    some.into_iter().chain(one).collect()
}

/// One time that the servers are asked.
struct Search<C: ClusterClient> {
    state: Weak<State<C>>,
    /// `None` once it is over.
    number: Option<u64>,
    runtime: Arc<dyn Runtime>,
}

impl<C: ClusterClient> Search<C> {
    async fn run(mut self, asked: Vec<C>, within: Duration) {
        let answers = self.answers(&asked, within).await;
        let (maps, errors) = split(answers);
        let (Some(number), Some(state)) = (self.number.take(), self.state.upgrade()) else {
            return;
        };
        if maps.is_empty() {
            let error = why_nobody(errors, asked.iter().map(Client::label), within);
            return state.not_learned(number, error, &*self.runtime);
        }
        let map = SlotMap::agreed(&maps, &state.map());
        state.learned(number, map, &self.runtime);
    }

    /// What the servers say in time.
    async fn answers(&self, asked: &[C], within: Duration) -> Vec<(usize, Answer)> {
        let asking = asked.iter().enumerate();
        let mut asking: FuturesUnordered<_> = asking
            .map(|(number, client)| async move { (number, self.answer_of(client, within).await) })
            .collect();
        let mut late = self.runtime.sleep(within);
        let mut answers: Vec<(usize, Answer)> = Vec::new();
        let mut is_settling = false;
        loop {
            match select(asking.next(), &mut late).await {
                Either::Left((Some(answer), _)) => {
                    if answer.1.is_ok() && !std::mem::replace(&mut is_settling, true) {
                        late = self.runtime.sleep(SETTLING.min(within));
                    }
                    answers.push(answer);
                }
                Either::Left((None, _)) | Either::Right(_) => return answers,
            }
        }
    }

    async fn answer_of(&self, client: &C, within: Duration) -> Answer {
        let answer = async {
            let mut opened = client.connect(within).await?;
            asked::<C>(&mut opened, &["CLUSTER", "SLOTS"], within).await
        };
        let label = client.label();
        let reply = pin!(answer)
            .await
            .map_err(|error| not_of_a_cluster(label, error))?;
        let host = label.rsplit_once(':').map_or(label, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match SlotMap::read(&reply, host) {
            Some(map) if !map.places().is_empty() => Ok(map),
            Some(_) => Err(NodeError::not_sent(format!("{label} knows of no slots"))),
            None => Err(NodeError::not_sent(format!(
                "{label} says where slots are in a way that makes no sense"
            ))),
        }
    }
}

impl<C: ClusterClient> Drop for Search<C> {
    fn drop(&mut self) {
        if let (Some(number), Some(state)) = (self.number.take(), self.state.upgrade()) {
            let error = NodeError::not_sent(
                "the search for the cluster was cut off: its runtime ended, or has not enabled what the client needs",
            );
            state.not_learned(number, error, &*self.runtime);
        }
    }
}

type Answer = Result<SlotMap, NodeError>;

fn split(answers: Vec<(usize, Answer)>) -> (Vec<SlotMap>, Vec<(usize, NodeError)>) {
    let mut maps = Vec::new();
    let mut errors = Vec::new();
    for (number, answer) in answers {
        match answer {
            Ok(map) => maps.push(map),
            Err(error) => errors.push((number, error)),
        }
    }
    (maps, errors)
}

/// What calls are told: a server's own answer, if there is one, or what became of each question.
fn why_nobody<'a>(
    errors: Vec<(usize, NodeError)>,
    labels: impl Iterator<Item = &'a str>,
    within: Duration,
) -> NodeError {
    let is_answer = |(_, error): &&(usize, NodeError)| error.kind() == NodeErrorKind::Server;
    if let Some((_, answer)) = errors.iter().find(is_answer) {
        return answer.clone();
    }
    let say = labels.enumerate().map(|(number, label)| {
        let error = errors.iter().find(|(other, _)| *other == number);
        match error.map(|(_, error)| (error, std::error::Error::source(error))) {
            Some((error, Some(cause))) => format!("{label}: {error}: {cause}"),
            Some((error, None)) => format!("{label}: {error}"),
            None => format!("{label}: no answer in {}", Ms(within)),
        }
    });
    let say = say.collect::<Vec<_>>().join("; ");
    NodeError::not_sent("no server says where the slots of the cluster are").with_source(say)
}
