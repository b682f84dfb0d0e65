//! Calls to acquire, as the ledger learns of them.

use std::time::Duration;

use lock_core::{AcquireError, LockRequest, NodeReports, NodeVote};

use super::ledger::{CallFacts, CallResult, Told};
use super::marks::Mark;
use super::stage::Seat;

/// A call to acquire, until it ends or is dropped.
pub(crate) struct Calling<'a> {
    seat: &'a Seat,
    keys: Vec<Vec<u8>>,
    pub(crate) began: Duration,
    has_ended: bool,
}

impl<'a> Calling<'a> {
    pub(crate) fn new(seat: &'a Seat, request: &LockRequest) -> Self {
        let mut keys = request.resources().map(<[u8]>::to_vec).collect::<Vec<_>>();
        keys.sort_unstable();
        Self {
            seat,
            keys,
            began: seat.shared.world().now,
            has_ended: false,
        }
    }

    pub(crate) fn end(mut self, result: Result<(), &AcquireError>) {
        let (result, mark) = match result {
            Ok(()) => (CallResult::Acquired, Mark::Acquired),
            Err(AcquireError::Contended(error)) => {
                (CallResult::Contended(votes(&error.nodes)), Mark::Contended)
            }
            Err(AcquireError::Unavailable(error)) => (
                CallResult::Unavailable(votes(&error.nodes)),
                Mark::Unavailable,
            ),
            Err(AcquireError::ShutDown) => (CallResult::ShutDown, Mark::ShutDown),
            Err(AcquireError::TooSlow(_)) => (CallResult::TooSlow, Mark::TooSlow),
            Err(_) => (CallResult::Other, Mark::Cancelled),
        };
        self.record(result, mark);
    }

    /// Somebody else has it; nobody says what the nodes said.
    pub(crate) fn taken(mut self) {
        self.record(CallResult::Contended(Vec::new()), Mark::Contended);
    }

    fn record(&mut self, result: CallResult, mark: Mark) {
        self.has_ended = true;
        let mut world = self.seat.shared.world();
        world.mark(mark);
        let (client, ended) = (self.seat.client, world.now);
        if result == CallResult::Acquired {
            world.judge_shutdown(client, "acquired");
        }
        world.note(|| format!("client {}: acquire ended: {result:?}", client.0));
        let facts = CallFacts {
            client,
            keys: self.keys.clone(),
            began: self.began,
            ended,
            result,
        };
        world.ledger.calls.push(facts);
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.record(CallResult::Cancelled, Mark::Cancelled);
        }
    }
}

fn votes(reports: &NodeReports) -> Vec<Told> {
    let told = |vote: &NodeVote| match vote {
        NodeVote::Granted => Told::Granted,
        NodeVote::Refused => Told::Refused,
        NodeVote::Failed(_) => Told::Failed,
        _ => Told::Nothing,
    };
    let reports = reports.as_slice().iter();
    reports.map(|report| told(&report.vote)).collect()
}
