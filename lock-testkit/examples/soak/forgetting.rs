//! Whose turn it is to forget, where at most one node may at a time.

use std::sync::Mutex;
use std::time::Instant;

use crate::work::LONGEST_TTL;

/// Lets any number of nodes forget at a time, or one.
pub(crate) struct Forgetting {
    pub(crate) one_at_a_time: bool,
    last: Mutex<Option<Last>>,
}

/// The node that forgot last.
#[derive(Clone, Copy, Debug)]
struct Last {
    node: usize,
    /// None while the fault goes on.
    ended: Option<Instant>,
}

impl Forgetting {
    pub(crate) fn new(one_at_a_time: bool) -> Self {
        Self {
            one_at_a_time,
            last: Mutex::default(),
        }
    }

    /// Returns whether the node may forget now. If so, it is its turn until all locks are over that it may have
    /// forgotten, and it `grants` locks again.
    pub(crate) fn begin(
        &self,
        node: usize,
        now: Instant,
        grants: impl FnOnce(usize) -> bool,
    ) -> bool {
        if !self.one_at_a_time {
            return true;
        }
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        let is_free = last.is_none_or(|last| {
            let is_past = |ended| now.saturating_duration_since(ended) > LONGEST_TTL;
            last.ended.is_some_and(is_past) && grants(last.node)
        });
        if is_free {
            *last = Some(Last { node, ended: None });
        }
        is_free
    }

    /// The node has forgotten, and answers again.
    pub(crate) fn end(&self, node: usize, now: Instant) {
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(last) = last.as_mut().filter(|last| last.node == node) {
            last.ended = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_forgets_when_the_one_before_it_is_back_and_grants_locks() {
        let forgetting = Forgetting::new(true);
        let now = Instant::now();
        let later = now + LONGEST_TTL + Duration::from_millis(1);
        assert!(forgetting.begin(3, now, |_| false));
        assert!(!forgetting.begin(4, later, |_| true), "it goes on");
        forgetting.end(3, now);
        assert!(
            !forgetting.begin(4, now + LONGEST_TTL, |_| true),
            "locks live"
        );
        assert!(
            !forgetting.begin(4, later, |node| node != 3),
            "in quarantine"
        );
        assert!(forgetting.begin(4, later, |node| node == 3));
        forgetting.end(3, now);
        assert!(!forgetting.begin(3, later, |_| true), "the turn of another");
        assert!(Forgetting::new(false).begin(3, now, |_| false));
    }
}
