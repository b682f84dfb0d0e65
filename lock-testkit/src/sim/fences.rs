//! Fencing tokens as the simulator sees them: what servers count, what holders write.

use std::collections::BTreeMap;

use lock_core::node::{Operation, Reply};
use lock_core::{FencingToken, LockGuard, Token};

use super::coverage::Mark;
use super::ledger::FenceFacts;
use super::world::World;

/// What a server's counters have ever shown, whether it knows of it or not.
#[derive(Debug, Default)]
pub(crate) struct Counted(BTreeMap<Vec<u8>, u64>);

impl Counted {
    /// Takes note of what a server answered. Returns whether it granted a number that is not above all that
    /// it had shown before.
    pub(crate) fn note(&mut self, operation: &Operation, reply: &Reply, is_new: bool) -> bool {
        let (fence, number) = match (operation, reply) {
            (
                Operation::Acquire {
                    fence: Some(fence), ..
                },
                Reply::Int(number),
            ) if is_new => (fence, number.unsigned_abs()),
            (Operation::Confirm { fence, raised, .. }, Reply::Int(1)) => (fence, raised.get()),
            _ => return false,
        };
        let is_grant = matches!(operation, Operation::Acquire { .. });
        let mut goes_back = false;
        for key in fence.counters.iter() {
            let largest = self.0.entry(key.to_vec()).or_default();
            goes_back |= is_grant && *largest >= number;
            *largest = number.max(*largest);
        }
        goes_back
    }
}

/// A register for each lock, which refuses tokens below the largest that it has seen.
#[derive(Debug, Default)]
pub(crate) struct Registers(BTreeMap<Vec<u8>, FencingToken>);

impl World {
    /// Records the fencing token of a guard that was handed out, if it has one: that of the belief with
    /// this number.
    pub(crate) fn note_fence(&mut self, hold: usize, guard: &LockGuard) {
        let found = &self.ledger.holds[hold];
        let (Some(number), Some(attempt)) = (guard.fencing_token(), found.token) else {
            return;
        };
        let fence = FenceFacts {
            client: found.client,
            key: found.key.clone(),
            number,
            attempt,
            hold,
            asked_at: found.asked_at,
            acquired_at: found.acquired_at,
        };
        self.ledger.fences.push(fence);
        self.mark(Mark::Fenced);
    }

    /// The holder writes to the register of its lock.
    pub(crate) fn write_to_register(&mut self, hold: usize) {
        let fences = &self.ledger.fences;
        let Some(number) = fences.iter().position(|fence| fence.hold == hold) else {
            return;
        };
        let fence = &fences[number];
        let largest = self.registers.0.entry(fence.key.clone());
        let largest = largest.or_insert(FencingToken::new(0));
        if fence.number < *largest {
            return self.mark(Mark::WriteRefused);
        }
        *largest = fence.number;
        self.ledger.writes.push(number);
    }

    /// A server has granted a number that is not above all that it had before.
    pub(crate) fn note_went_back(&mut self, server: super::ServerId, attempt: Token) {
        self.ledger.went_back.push((attempt, server));
        self.mark(Mark::WentBack);
    }
}
