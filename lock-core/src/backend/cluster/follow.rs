//! One command, and the redirects that it meets.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::ClusterClient;
use super::member::Member;
use super::redirect::{Redirect, is_redirect};
use super::routes::Routes;
use super::state::{Deadline, State};
use super::turns::Turn;
use crate::node::{Command, NodeError, NodeErrorKind, Operation, RedisNode, Reply};
use crate::slot::slot;

/// How often a command is referred to another server.
const MAX_REDIRECTS: usize = 5;

/// Where a command that has not run is to go.
pub(super) struct Next<C: ClusterClient> {
    member: Arc<Member<C>>,
    is_asking: bool,
    /// Why it has not run.
    why: NodeError,
}

impl<C: ClusterClient> State<C> {
    /// Sends the command by these routes at first.
    pub(super) async fn run_by(
        self: &Arc<Self>,
        routes: &Routes<C>,
        command: &Command,
        deadline: Deadline,
    ) -> Result<Reply, NodeError> {
        // Boxed, so that the common call has no room for them.
        match command.operation() {
            Operation::Scan { prefix, cursor } => {
                Box::pin(self.scan(routes, prefix, *cursor, &deadline)).await
            }
            Operation::Extend { entries } if entries.len() > 1 => {
                Box::pin(self.extend(routes, command, entries, deadline)).await
            }
            _ => self.follow(routes, command, &deadline).await,
        }
    }

    /// Sends the command to the master of its slot, and wherever that refers to.
    pub(super) async fn follow(
        self: &Arc<Self>,
        routes: &Routes<C>,
        command: &Command,
        deadline: &Deadline,
    ) -> Result<Reply, NodeError> {
        let key = command.operation().key();
        let member = self.master_of(routes, slot(key))?;
        let mut call = member.node.execute(command, deadline.left());
        let mut turn = None;
        let answer = poll_fn(|cx| match turn {
            Some(_) => call.as_mut().poll(cx),
            None => {
                let (taken, first) = self.turns.begin(key, || call.as_mut().poll(cx));
                turn = Some(taken);
                first
            }
        });
        match (answer.await, turn) {
            (Err(why), Some(turn)) if is_redirect(&why) => {
                let next = self.next(member, slot(key), why)?;
                // Boxed, so that the common call has no room for it.
                Box::pin(self.follow_on(command, turn, next, deadline)).await
            }
            (answer, _) => self.learn(answer),
        }
    }

    pub(super) fn master_of<'r>(
        self: &Arc<Self>,
        routes: &'r Routes<C>,
        slot: u16,
    ) -> Result<&'r Arc<Member<C>>, NodeError> {
        routes.of(slot).ok_or_else(|| {
            self.look_again();
            NodeError::not_sent("no server of the cluster is known")
        })
    }

    /// Where a command goes that this server has refused, for the sake of another one or of another of its keys.
    pub(super) fn next(
        self: &Arc<Self>,
        refused_by: &Arc<Member<C>>,
        slot: u16,
        why: NodeError,
    ) -> Result<Next<C>, NodeError> {
        let (member, is_asking) = match Redirect::of(&why, &refused_by.place.host) {
            Some(Redirect::Moved(to)) => {
                self.look_again();
                (self.member_at(&to, Some(slot)), false)
            }
            Some(Redirect::Ask(to)) => {
                let member = self.member_at(&to, None);
                if let Some(member) = &member {
                    member.is_asked.store(true, Ordering::Relaxed);
                }
                (member, true)
            }
            None if is_redirect(&why) => (None, false),
            None => (Some(Arc::clone(refused_by)), false),
        };
        match member {
            Some(member) => Ok(Next {
                member,
                is_asking,
                why,
            }),
            None => {
                let message = "referred to a server that cannot be reached";
                Err(NodeError::not_sent(message).with_source(why))
            }
        }
    }

    /// Sends a command again that has not run.
    pub(super) async fn follow_on(
        self: &Arc<Self>,
        command: &Command,
        turn: Turn<'_>,
        mut next: Next<C>,
        deadline: &Deadline,
    ) -> Result<Reply, NodeError> {
        let operation = command.operation();
        // Whatever sets, extends or deletes what somebody else may have by now.
        let has_to_be_last = !matches!(
            operation,
            Operation::Release { .. } | Operation::Inspect { .. }
        );
        for _ in 0..MAX_REDIRECTS {
            let left = deadline.left();
            if left.is_zero() {
                return Err(not_again("its time is over", next.why));
            }
            let command = command.asking(next.is_asking);
            let member = Arc::clone(&next.member);
            let mut call = member.node.execute(&command, left);
            let mut is_first = true;
            let answer = poll_fn(|cx| {
                if !std::mem::replace(&mut is_first, false) {
                    return call.as_mut().poll(cx).map(Some);
                }
                let first = turn.again(has_to_be_last, || call.as_mut().poll(cx));
                match first {
                    Some(first) => first.map(Some),
                    None => Poll::Ready(None),
                }
            });
            match answer.await {
                None => {
                    let later = "a later command for its key has left";
                    return Err(not_again(later, next.why));
                }
                Some(Err(why)) if is_redirect(&why) => {
                    next = self.next(&member, slot(operation.key()), why)?;
                }
                Some(answer) => return self.learn(answer),
            }
        }
        Err(not_again("it was referred too often", next.why))
    }

    /// Has the servers asked again where slots are if this answer says that something is not where it was.
    pub(super) fn learn(
        self: &Arc<Self>,
        answer: Result<Reply, NodeError>,
    ) -> Result<Reply, NodeError> {
        if let Err(error) = &answer {
            let is_lost = match error.kind() {
                NodeErrorKind::NotSent | NodeErrorKind::NoAnswer | NodeErrorKind::Connection => {
                    true
                }
                // Or at this address there is another server by now.
                _ => error.is_out_of_service() || error.is_permission(),
            };
            if is_lost {
                self.look_again();
            }
        }
        answer
    }
}

/// The command was refused, and is not sent again: it has not run, and never will.
fn not_again(why: &str, refusal: NodeError) -> NodeError {
    NodeError::not_sent(format!(
        "referred to another server, and not sent there: {why}"
    ))
    .with_source(refusal)
}
