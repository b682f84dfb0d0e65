//! Setting the key of a lock that is held again at a node that forgot it.

use std::sync::Arc;
use std::time::Duration;

use super::call::Purpose;
use super::calls::Calls;
use super::protocol::Timing;
use crate::node::Command;

/// Adds a call that sets the key again, if the lock is held still. Until `valid_until` it is ours.
pub(super) fn set_again(calls: &mut Calls, node: usize, timing: Timing, valid_until: Duration) {
    let attempt = Arc::clone(calls.attempt());
    // In this order: whoever ends the attempt afterwards sees the node and releases it.
    attempt.touch(node);
    let now = attempt.runtime.now();
    if attempt.is_over() || now >= valid_until {
        return;
    }
    attempt.doubt(now);
    // By script, since another extension may have set the key again already: a plain SET would be
    // refused by it, as by a stranger's.
    let command = Command::from(attempt.keys.acquire(attempt.token, timing.ttl, true));
    let within = attempt.within_of(node, timing);
    calls.start(node, Purpose::Heal, command, within);
}
