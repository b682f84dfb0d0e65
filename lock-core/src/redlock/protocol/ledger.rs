//! What is known of one lock: where its keys may be, what nodes have granted, until when it can be
//! relied on. Answers go in, and what has to follow comes out.

use std::time::Duration;

use super::{AcquireAnswer, KeyAnswer, Moment, NodeSet};
use crate::node::{NodeError, NodeErrorKind};

/// How long a command that sets a key leaves the key unsettled when its answer did not come: the
/// client may have sent a release behind the command, so that the key may vanish again (rule N12).
pub(crate) const UNSETTLED: Duration = Duration::from_secs(20);

/// The account of one attempt to acquire, and of the lock that it may become.
///
/// It keeps these rules:
///
/// - A node counts as touched from before a command is sent that may set a key there, until a
///   definite answer says that there is none. Whatever ends the lock releases it where it touched.
/// - Once it is over, nothing begins that sets a key. What was on its way already is released
///   behind its answer, unless a release is sure to follow it.
/// - The validity grows only while it lasts. Nothing revives a lock.
/// - A key that was set by a command without an answer does not count before it is settled, even if it
///   was set again meanwhile: the release that belongs behind that command may still come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The lock stands for several keys.
    has_several: bool,
    /// The nodes where a key may be.
    touched: NodeSet,
    /// The nodes that are known to hold the key.
    granted: NodeSet,
    /// The nodes where a command that sets the key had no answer.
    doubtful: NodeSet,
    /// The nodes that failed to set the key, and have not refused to: they may get it later.
    missed: NodeSet,
    /// The nodes where a command may run behind the release that was meant to follow it.
    behind: NodeSet,
    /// The nodes where a release has taken the key of the held lock, or may have.
    released: NodeSet,
    /// A release was begun.
    is_releasing: bool,
    /// The nodes that are owed a release.
    owed: NodeSet,
    /// From when on nodes count that hold the key though they have not granted it.
    settled_at: Duration,
    /// The nodes that were sent a command which sets the key again, and have not answered it.
    healing: NodeSet,
    /// When such a command counts as settled whose answer nobody waits for any more.
    healed_at: Duration,
    /// Until when a lock that was won can be relied on. It never goes back.
    valid_until: Option<Duration>,
    /// When the validity began.
    began: Moment,
    /// Until when a release keeps the keys.
    hold_until: Duration,
    /// The longest ttl that any key was given.
    longest_ttl: Duration,
    /// Failed, cancelled, lost, released or handed over.
    is_over: bool,
    /// The holder was told that the validity has ended.
    has_expired: bool,
    /// The lock was held for certain when its first release began.
    ended_in_time: bool,
}

/// What has to follow an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Nothing,
    /// The key may have been set behind its release: the node gets another one.
    Release,
    /// The release has no definite answer. It is owed to the node until its key has expired.
    Owe {
        until: Duration,
    },
}

impl Ledger {
    /// Of an attempt to set one key, or several, for this long.
    pub(crate) fn new(has_several: bool, ttl: Duration, began: Moment) -> Self {
        Self {
            has_several,
            began,
            longest_ttl: ttl,
            ..Self::default()
        }
    }

    /// Goes on with the lock of a lease. Its key may be at all nodes. Whoever set it there, no release
    /// that is under way names the token that it is exchanged for: an exchanged key counts at once.
    pub(crate) fn take_over(&mut self, all: NodeSet) {
        self.touched = all;
    }

    /// A command that may set the key is about to be sent. Returns whether it may be: not once
    /// the lock is over, since it would run behind its own release.
    pub(crate) fn begins(&mut self, node: usize) -> bool {
        if !self.is_over {
            self.touched = self.touched.with(node);
        }
        !self.is_over
    }

    /// The node was not asked for the key: it may get it later.
    pub(crate) fn not_asked(&mut self, node: usize) {
        self.missed = self.missed.with(node);
    }

    /// The command that [began](Self::begins) is on its way. If the lock ended meanwhile, its
    /// release may have overtaken the command.
    pub(crate) fn is_sent(&mut self, node: usize) {
        if self.is_over {
            self.behind = self.behind.with(node);
        }
    }

    /// A command that sets the key again is about to be sent.
    pub(crate) fn heals(&mut self, node: usize, now: Duration) {
        self.healing = self.healing.with(node);
        self.healed_at = now.saturating_add(UNSETTLED);
    }

    /// A node answered a command that sets the key.
    pub(crate) fn acquire_answered(
        &mut self,
        node: usize,
        answer: &Result<AcquireAnswer, NodeError>,
        now: impl FnOnce() -> Duration,
    ) -> Follow {
        // Of several keys that could not be set again, some may be there still.
        let may_have_others = self.has_several && self.valid_until.is_some();
        self.healing = self.healing.without(node);
        let is_missed = matches!(answer, Err(error) if !error.is_final());
        self.missed = match is_missed {
            true => self.missed.with(node),
            false => self.missed.without(node),
        };
        let may_be_set = match answer {
            Ok(AcquireAnswer::Granted(_)) => {
                if !self.doubtful.contains(node) || now() >= self.settled_at {
                    self.granted = self.granted.with(node);
                    self.doubtful = self.doubtful.without(node);
                }
                if !self.is_over {
                    // Another command to the node may have been said not to be sent meanwhile.
                    self.touched = self.touched.with(node);
                }
                true
            }
            Ok(AcquireAnswer::Refused(_)) => {
                self.lacks(node, may_have_others);
                false
            }
            Err(error) if error.kind() == NodeErrorKind::NotSent || error.is_quarantine() => {
                // An earlier command may have set the key, and had no answer.
                self.lacks(node, may_have_others || self.doubtful.contains(node));
                false
            }
            // A cluster that refuses several keys at once has set none of them.
            Err(error) if error.is_cross_slot() => {
                self.lacks(node, false);
                false
            }
            Err(_) => {
                self.granted = self.granted.without(node);
                self.doubtful = self.doubtful.with(node);
                self.unsettle(now());
                true
            }
        };
        // A release that has its answer already went before, against the rules.
        let may_be_left = self.behind.contains(node) || !self.touched.contains(node);
        match self.is_over && may_be_set && may_be_left {
            true => Follow::Release,
            false => Follow::Nothing,
        }
    }

    /// A node answered an extension that began at `now`. Returns whether its yes counts: not while the key that it
    /// speaks of is unsettled.
    pub(crate) fn extend_answered(
        &mut self,
        node: usize,
        answer: KeyAnswer,
        now: Duration,
    ) -> bool {
        let is_settled = self.granted.contains(node)
            || mutant!(DoubtfulKeysVote)
            || (now >= self.settled_at && !self.is_healing(node, now));
        let counts = answer == KeyAnswer::Ours && is_settled;
        self.granted = match counts {
            true => self.granted.with(node),
            false => self.granted.without(node),
        };
        if counts {
            self.doubtful = self.doubtful.without(node);
        }
        counts
    }

    /// A release without a definite answer is sent again until then, when its key has expired.
    pub(crate) fn owed_until(&self, now: Duration) -> Duration {
        now.saturating_add(self.longest_ttl)
    }

    /// A node answered a release, or failed to. A release without a definite answer is sent again
    /// until it has one, or the key has expired.
    pub(crate) fn release_answered(
        &mut self,
        node: usize,
        answer: &Result<KeyAnswer, NodeError>,
        now: impl FnOnce() -> Duration,
    ) -> Follow {
        // Without an answer the key was ours for certain only if the validity had not ended.
        let was_ours = match answer {
            Ok(answer) => *answer == KeyAnswer::Ours,
            Err(_) => self.ended_in_time,
        };
        if was_ours {
            self.released = self.released.with(node);
        }
        match answer {
            Ok(_) => {
                self.lacks(node, false);
                Follow::Nothing
            }
            Err(_) if mutant!(DebtsForgotten) => Follow::Nothing,
            Err(_) => Follow::Owe {
                until: self.not_released(node, now()),
            },
        }
    }

    /// A release will have no answer. Returns until when it is owed.
    pub(crate) fn not_released(&mut self, node: usize, now: Duration) -> Duration {
        self.owed = self.owed.with(node);
        self.owed_until(now)
    }

    /// Looks at both clocks. If the machine was paused for longer than this since the validity began, it
    /// ends now: its true end may have passed meanwhile.
    pub(crate) fn look(&mut self, present: Moment, longest_pause: Duration) {
        if present.paused_since(self.began) > longest_pause {
            self.valid_until = self.valid_until.min(Some(present.now));
            self.has_expired = true;
        }
    }

    /// A quorum granted the lock at `now`. Returns whether it is held: not if it ended meanwhile, by
    /// a shutdown.
    pub(crate) fn is_won(&mut self, now: Duration, valid_until: Duration, hold: Duration) -> bool {
        if self.is_over {
            return false;
        }
        if !hold.is_zero() {
            self.hold_until = now.saturating_add(hold);
        }
        if self.granted != self.touched {
            self.unsettle(now);
        }
        self.valid_until = Some(valid_until);
        true
    }

    /// Keys of the lock get a ttl of this length.
    pub(crate) fn note_ttl(&mut self, ttl: Duration) {
        self.longest_ttl = self.longest_ttl.max(ttl);
    }

    /// Even a release keeps the keys until then.
    pub(crate) fn hold_until(&mut self, until: Duration) {
        self.hold_until = until;
    }

    /// A quorum extended the lock, it turns out at `now`. Returns `false` if the validity has ended
    /// meanwhile, or its holder was told so: nothing revives it then.
    #[must_use]
    pub(crate) fn is_extended(
        &mut self,
        began: Moment,
        valid_until: Duration,
        now: Duration,
    ) -> bool {
        let mut has_ended = self.valid_until.is_some_and(|until| until <= now);
        if mutant!(ExtendRevives) {
            has_ended = false;
        }
        has_ended |= self.has_expired;
        if has_ended && !mutant!(RenewalRevives) {
            return false;
        }
        if self.valid_until <= Some(valid_until) {
            self.valid_until = Some(valid_until);
            self.began = began;
        }
        true
    }

    /// The holder is told that the validity has ended.
    pub(crate) fn expire(&mut self) {
        self.has_expired = !mutant!(ExtendRevives);
    }

    /// From now on nothing begins that sets a key. Returns whether the lock was not over before.
    pub(crate) fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.is_over, true)
    }

    /// A release of the held lock begins, or a shutdown is about to begin one. Returns whether it comes
    /// after the end of the validity: then the lock is lost.
    pub(crate) fn end_by_release(&mut self, now: Duration) -> bool {
        let is_held = self.valid_until.is_some() && !self.is_over;
        let is_in_time = !self.remaining_at(now).is_zero();
        self.ended_in_time |= is_in_time;
        self.is_over = true;
        self.is_releasing = true;
        is_held && !is_in_time
    }

    /// The attempt failed: only what was granted by now is released. (A mutant alone does that.)
    pub(crate) fn forget_late_grants(&mut self) {
        self.touched = self.granted;
    }

    /// What is left at `now` of the time in which the lock can be relied on.
    pub(crate) fn remaining_at(&self, now: Duration) -> Duration {
        match self.valid_until {
            Some(until) if !self.is_over => until.saturating_sub(now),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn held_until(&self) -> Duration {
        self.hold_until
    }

    /// Returns whether the validity was said to have ended.
    pub(crate) fn has_expired(&self) -> bool {
        self.has_expired
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// A release is about to be sent.
    pub(crate) fn begins_release(&mut self) {
        self.is_releasing = true;
    }

    /// Returns whether a release is under way to a node that has neither answered it nor failed to.
    pub(crate) fn is_being_released(&self) -> bool {
        let mut touched = self.touched.iter();
        self.is_releasing && touched.any(|node| !self.owed.contains(node))
    }

    /// The nodes that may be given the key: of a held lock alone, and none that has refused it.
    pub(crate) fn missed(&self) -> NodeSet {
        match self.valid_until.is_some() && !self.is_over {
            true => self.missed,
            false => NodeSet::EMPTY,
        }
    }

    pub(crate) fn touched(&self) -> NodeSet {
        self.touched
    }

    pub(crate) fn granted(&self) -> NodeSet {
        self.granted
    }

    pub(crate) fn released(&self) -> NodeSet {
        self.released
    }

    /// The node does not have the key, though perhaps others of the same lock.
    fn lacks(&mut self, node: usize, may_have_others: bool) {
        self.granted = self.granted.without(node);
        if !may_have_others {
            self.touched = self.touched.without(node);
        }
    }

    fn is_healing(&self, node: usize, now: Duration) -> bool {
        self.healing.contains(node) && now < self.healed_at
    }

    fn unsettle(&mut self, now: Duration) {
        self.settled_at = self.settled_at.max(now.saturating_add(UNSETTLED));
    }
}

#[cfg(test)]
mod tests;
