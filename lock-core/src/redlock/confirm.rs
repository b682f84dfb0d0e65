//! Having nodes confirm the fencing token of an attempt.

use std::sync::Arc;

use super::acquisition::Acquisition;
use super::calls::{Call, Calls, Purpose};
use super::protocol::AcquireAnswer;
use crate::fencing::FencingToken;
use crate::node::{Command, NodeError, Operation};

/// Adds a call by which the node, which has `granted` less, raises its counter to the lock's fencing token.
///
/// It is not sent once the lock is over. One that is on its way then and runs behind the release does no harm,
/// since a node confirms nothing for a key that is gone.
pub(crate) fn confirm(
    lock: &Arc<Acquisition>,
    node: usize,
    granted: FencingToken,
    calls: &mut Calls,
) {
    let (Some(fence), Some(raised)) = (&lock.fence, lock.fencing_token.get()) else {
        return;
    };
    let command = Command::from(Operation::Confirm {
        keys: lock.keys.clone(),
        token: lock.token,
        fence: fence.clone(),
        granted,
        raised: *raised,
    });
    calls.push(Call::of_lock(lock, node, Purpose::Confirm, command));
}

/// A node answered when nobody waited for it any more. While the lock is held, a counter that is behind is
/// raised all the same, so that the next acquisition finds all in step and needs one round.
pub(crate) fn late(
    lock: &Arc<Acquisition>,
    node: usize,
    answer: &Result<AcquireAnswer, NodeError>,
    calls: &mut Calls,
) {
    if let Ok(AcquireAnswer::Granted(Some(granted))) = answer
        && Some(granted) < lock.fencing_token.get()
        && !lock.ledger().is_over()
    {
        confirm(lock, node, *granted, calls);
    }
}
