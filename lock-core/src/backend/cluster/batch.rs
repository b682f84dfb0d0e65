//! Extensions of many locks, by one command for each slot.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::ClusterClient;
use super::routes::Routes;
use super::state::{Deadline, State};
use crate::node::{Command, ExtendEntry, NodeError, NodeErrorKind, RedisNode, Reply};
use crate::slot::slot;

/// How much of its time a batch may take: what some masters say is to come in time though another one hangs.
const SHARE: f64 = 0.75;

/// The answer about the entries at these places.
type Part = (Vec<usize>, Result<Reply, NodeError>);

impl<C: ClusterClient> State<C> {
    /// Extends the entries of each slot by a command of their own.
    pub(super) async fn extend(
        self: &Arc<Self>,
        routes: &Routes<C>,
        command: &Command,
        entries: &Arc<[ExtendEntry]>,
        deadline: Deadline,
    ) -> Result<Reply, NodeError> {
        let mut slots = BTreeMap::<u16, Vec<usize>>::new();
        for (place, entry) in entries.iter().enumerate() {
            slots.entry(slot(&entry.key)).or_default().push(place);
        }
        let deadline = &match slots.len() {
            1 => deadline,
            _ => deadline.sooner(SHARE),
        };
        let parts = slots.into_iter().map(|(slot, places)| async move {
            let own = places.iter().map(|place| entries[*place].clone());
            let own: Arc<[ExtendEntry]> = own.collect();
            let command = command.extending(Arc::clone(&own));
            let answer = match places.len() {
                1 => self.follow(routes, &command, deadline).await,
                _ => {
                    self.extend_slot(routes, slot, &command, &own, deadline)
                        .await
                }
            };
            (places, answer)
        });
        gathered(command, side_by_side(parts).await)
    }

    /// Extends several entries of one slot. What its master refuses for the sake of one of them, as while the slot
    /// moves, is sent for each by itself.
    async fn extend_slot(
        self: &Arc<Self>,
        routes: &Routes<C>,
        slot: u16,
        command: &Command,
        entries: &[ExtendEntry],
        deadline: &Deadline,
    ) -> Result<Reply, NodeError> {
        let member = self.master_of(routes, slot)?;
        let turns = entries
            .iter()
            .map(|entry| self.turns.begin(&entry.key, || ()).0);
        let turns: Vec<_> = turns.collect();
        let why = match member.node.execute(command, deadline.left()).await {
            Err(error) if error.is_of_one_key() => error,
            answer => return self.learn(answer),
        };
        let next = || self.next(member, slot, why.clone());
        let parts = entries.iter().zip(turns).enumerate();
        let parts = parts.map(|(place, (entry, turn))| async move {
            let command = command.extending(Arc::from([entry.clone()]));
            let answer = match next() {
                Ok(next) => self.follow_on(&command, turn, next, deadline).await,
                Err(error) => Err(error),
            };
            (vec![place], answer)
        });
        gathered(command, side_by_side(parts).await)
    }
}

/// Puts the answers together. What has none is told as nil, unless there is no answer at all.
fn gathered(command: &Command, parts: Vec<Part>) -> Result<Reply, NodeError> {
    let mut replies = vec![Reply::Nil; command.operation().count()];
    let mut errors = Vec::new();
    let mut is_answered = false;
    for (places, answer) in parts {
        match answer {
            Ok(Reply::Array(answers)) if answers.len() == places.len() => {
                is_answered = true;
                for (place, answer) in places.into_iter().zip(answers) {
                    replies[place] = answer;
                }
            }
            Ok(other) => errors.push(NodeError::unexpected_reply(command.operation(), &other)),
            Err(error) => errors.push(error),
        }
    }
    // The core sends the source of the script then, for all of them.
    let no_script = errors.iter().position(NodeError::is_no_script);
    // Nothing was sent only if that is so for all.
    let was_sent = |error: &NodeError| error.kind() != NodeErrorKind::NotSent;
    let worst = no_script.or_else(|| match is_answered {
        true => None,
        false => errors.iter().position(was_sent).or(Some(0)),
    });
    match worst.and_then(|worst| errors.into_iter().nth(worst)) {
        Some(error) => Err(error),
        None => Ok(Reply::Array(replies)),
    }
}

/// Runs them at the same time, and polls them for the first time in their order, so that their commands leave in it.
async fn side_by_side<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut done = Vec::with_capacity(waiting.len());
    poll_fn(|cx| {
        waiting.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Ready(output) => {
                done.push(output);
                false
            }
            Poll::Pending => true,
        });
        Poll::Ready(())
    })
    .await;
    let rest: FuturesUnordered<_> = waiting.into_iter().collect();
    done.extend(rest.collect::<Vec<_>>().await);
    done
}
