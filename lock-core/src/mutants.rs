//! Bugs that the engine and the keeper of connections can be told to have, so that the simulator can
//! show that it would notice them. They are compiled with `--cfg lock_mutants` only; without it the
//! hooks are the constant `false`.

use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! mutants {
    ($($(#[doc = $about:literal])* $name:ident = $text:literal;)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Mutant {
            $($(#[doc = $about])* $name,)*
        }

        impl Mutant {
            const ALL: &[(Self, &'static str)] = &[$((Self::$name, $text)),*];
        }
    };
}

mutants! {
    /// One vote less is enough.
    QuorumMinusOne = "quorum-minus-one";
    /// The majority of the nodes that answered is enough.
    QuorumOfReachable = "quorum-of-reachable";
    /// An acquired lock is valid from the moment of its last vote on.
    ElapsedNotSubtracted = "elapsed-not-subtracted";
    /// An extended lock is valid from the moment of its last vote on.
    ExtendFromReplies = "extend-from-replies";
    /// A quarantine is as long as the longest lock, whatever clocks do meanwhile.
    QuarantineWithoutSkew = "quarantine-without-skew";
    /// A node that may have forgotten locks grants them at once.
    NoGuard = "no-guard";
    /// Clocks are taken to run alike.
    NoDrift = "no-drift";
    /// All attempts of a call have one token.
    TokenReused = "token-reused";
    /// A failed attempt releases nothing.
    NoCleanupAfterFailure = "no-cleanup-after-failure";
    /// A cancelled attempt releases nothing.
    NoCleanupAfterCancellation = "no-cleanup-after-cancellation";
    /// A failed attempt releases only where it had been granted by then.
    LateGrantsForgotten = "late-grants-forgotten";
    /// A release without an answer is not sent again.
    DebtsForgotten = "debts-forgotten";
    /// A dropped guard releases nothing.
    DropWithoutRelease = "drop-without-release";
    /// An extension succeeds on a lock whose validity has ended.
    ExtendRevives = "extend-revives";
    /// A node that forgot the key counts as having extended it, since it gets it again.
    HealedKeysVote = "healed-keys-vote";
    /// A key counts though the command that set it had no answer, so that a release may be on its
    /// way behind it.
    DoubtfulKeysVote = "doubtful-keys-vote";
    /// An extension needs the majority of the nodes that answered.
    ExtendByReachable = "extend-by-reachable";
    /// A node that did not answer once is never asked again.
    SuspectsNeverProbed = "suspects-never-probed";
    /// A node that does not answer is still asked by every attempt.
    SuspectsNotSpared = "suspects-not-spared";
    /// A release deletes a lock that was to stay taken.
    ClaimsDeletedOnRelease = "claims-deleted-on-release";
    /// Contention is reported as an outage.
    ContentionAsOutage = "contention-as-outage";
    /// An outage is reported as contention.
    OutageAsContention = "outage-as-contention";
    /// A holder that one node names is believed to hold the lock.
    RivalNamedByOne = "rival-named-by-one";
    /// A release deletes the key, whatever its value.
    PlainDel = "plain-del";
    /// An extension extends the key, whatever its value.
    ExtendWithoutCompare = "extend-without-compare";
    /// An extension sets a key that is not there.
    ExtendCreates = "extend-creates";
    /// An extension sets the new ttl even if the old one lasted longer.
    ExtendShortens = "extend-shortens";
    /// A lock that was released is extended once more.
    RenewalOutlivesRelease = "renewal-outlives-release";
    /// An automatic extension that comes too late revives a lock.
    RenewalRevives = "renewal-revives";
    /// An automatic extension needs the majority of the nodes that answered.
    RenewalByReachable = "renewal-by-reachable";
    /// A lock that was extended automatically is valid from the moment of the last vote on.
    RenewalFromReplies = "renewal-from-replies";
    /// An automatic extension that failed is not tried again.
    RenewalNeverRetries = "renewal-never-retries";
    /// An automatic extension waits for nodes that are still connecting.
    RenewalWaitsForConnects = "renewal-waits-for-connects";
    /// A lock is extended automatically for as long as its guard lives.
    MaxHoldIgnored = "max-hold-ignored";
    /// No holder is told when a quorum denies its lock.
    LossOnExpiryOnly = "loss-on-expiry-only";
    /// The end of a validity is reported as if the lock had begun when it was won.
    LossLate = "loss-late";
    /// A holder that has released its lock is told of its loss.
    LossAfterRelease = "loss-after-release";
    /// An extension that finds its lock released takes that for a loss.
    ReleaseAsLoss = "release-as-loss";
    /// Only one of several keys is released.
    SeveralPartlyReleased = "several-partly-released";
    /// Only one of several keys is checked.
    SeveralPartlyChecked = "several-partly-checked";
    /// Several locks are acquired one by one in the order given.
    SeveralInAnyOrder = "several-in-any-order";
    /// A lease is taken for a held lock without asking the nodes.
    LeaseWithoutProof = "lease-without-proof";
    /// An exchange takes the key for a new token, whatever its value.
    LeaseResumedTwice = "lease-resumed-twice";
    /// A guard that became a lease releases the lock.
    LeaseReleasedOnDrop = "lease-released-on-drop";
    /// Keys of a lease that is lost are left where they are.
    LeaseLostLeavesKeys = "lease-lost-leaves-keys";
    /// A shutdown does not wait for guards that were dropped just before.
    ShutdownForgetsDropped = "shutdown-forgets-dropped";
    /// A shutdown does not know of attempts under way.
    ShutdownForgetsAttempts = "shutdown-forgets-attempts";
    /// A shutdown does not know of locks that were resumed where they had been handed over.
    ShutdownForgetsResumed = "shutdown-forgets-resumed";
    /// A connection that is replaced does not get the releases of its doubtful acquires.
    UndosForgotten = "undos-forgotten";
    /// An acquire that is given up on a connection that was replaced before gets no release there.
    LateUndosForgotten = "late-undos-forgotten";
    /// A connection that does not answer is kept for ever.
    HungConnectionsKept = "hung-connections-kept";
    /// Calls that wait for a connection are sent with the last one first.
    WaitingCallsInAnyOrder = "waiting-calls-in-any-order";
    /// A call whose time ended while it waited for a connection is sent all the same.
    WaitingCallsSentLate = "waiting-calls-sent-late";
    /// A connection that stood still writes what waited for it, however late.
    StalledDriversWrite = "stalled-drivers-write";
    /// The largest number that was granted is the fencing token at once.
    NotConfirmed = "not-confirmed";
    /// A node confirms a fencing token though the lock has ended there.
    ConfirmedWithoutLock = "confirmed-without-lock";
    /// A node answers its own token with the number of its counter, whoever raised that.
    GrantedWithoutIdentity = "granted-without-identity";
}

/// The number of the active mutant plus one.
static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// Gives the whole process the bug of this name, or none. Returns whether there is such a bug.
pub fn activate(name: Option<&str>) -> bool {
    let number = match name {
        None => Some(0),
        Some(name) => {
            let mut all = Mutant::ALL.iter();
            let found = all.find(|(_, text)| *text == name);
            found.map(|(mutant, _)| *mutant as u8 + 1)
        }
    };
    ACTIVE.store(number.unwrap_or_default(), Ordering::SeqCst);
    number.is_some()
}

/// Returns whether the process has this bug.
#[must_use]
pub fn is(mutant: Mutant) -> bool {
    ACTIVE.load(Ordering::Relaxed) == mutant as u8 + 1
}
