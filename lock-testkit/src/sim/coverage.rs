//! Counts of what happened, so that a campaign can tell what it did not cover.

macro_rules! marks {
    ($($(#[doc = $about:literal])* $name:ident: $text:literal, $seeds:expr;)*) => {
        /// An event that is counted: a coverage mark.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Mark {
            $($(#[doc = $about])* $name,)*
        }

        impl Mark {
            /// All marks.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns what the mark is called in a table.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Returns whether a campaign of this many seeds must have met the event. Without it,
            /// the campaign would prove nothing about what the mark stands for.
            #[must_use]
            pub fn must_happen_in(self, seeds: u64) -> bool {
                let within: Option<u64> = match self { $(Self::$name => $seeds),* };
                within.is_some_and(|within| within <= seeds)
            }
        }
    };
}

/// A campaign of this many seeds meets most events, and most of them far more than once.
const SOON: Option<u64> = Some(1_000);

/// For an event that takes several rare ones at once: it was met three times in 12,000 seeds.
const RARE: Option<u64> = Some(20_000);

marks! {
    /// A command was sent.
    Command: "commands sent", SOON;
    /// A node granted.
    Granted: "grants", SOON;
    /// A node refused.
    Refused: "refusals", SOON;
    /// A call ended with no answer in its time.
    NoAnswer: "calls without an answer in time", SOON;
    /// A call was surely not sent.
    NotSent: "calls that were not sent", SOON;
    /// A call lost its connection.
    ConnectionLost: "calls that lost their connection", SOON;
    /// A call was answered with an error.
    ServerError: "calls answered with an error", SOON;
    /// The future of a call was dropped before its end.
    CallDropped: "calls dropped half-way", None;
    /// A connection was made.
    Connected: "connections made", SOON;
    /// A connection that went silent was replaced.
    Replaced: "silent connections replaced", SOON;
    /// A release was written behind a doubtful acquire on a connection that was replaced.
    Undone: "releases behind doubtful acquires", SOON;
    /// A request ran though its connection was broken, or twice.
    Stray: "requests that ran late or twice", SOON;
    /// A stray request set a key that nobody knows of.
    Ghost: "keys set by such requests", SOON;
    /// A server did not know a script.
    NoScript: "scripts that a server did not know", SOON;
    /// The source of a script was sent after that.
    Resent: "scripts sent again with their source", SOON;
    /// A grant came after the attempt's release had been sent, and was released.
    LateGrantReleased: "late grants released", SOON;
    /// A node that had not answered was asked again by an acquire.
    Probed: "suspect nodes probed", SOON;
    /// A release that had failed got its answer later.
    DebtCollected: "releases owed and collected", SOON;
    /// A lock was acquired.
    Acquired: "locks acquired", SOON;
    /// A lock was acquired by a call whose earlier attempt had shared the votes with a rival.
    SplitResolved: "split votes resolved", SOON;
    /// A lock was acquired after the call had met a holder.
    WaitedOut: "holders waited out", SOON;
    /// A call reported contention.
    Contended: "calls that found the lock taken", SOON;
    /// A call reported an outage.
    Unavailable: "calls that found an outage", SOON;
    /// A call won too late.
    TooSlow: "calls that won too late", RARE;
    /// A call was refused because the lock was shut down.
    ShutDown: "calls refused by a shutdown", SOON;
    /// A lock was shut down in time.
    ShutdownDone: "shutdowns", SOON;
    /// A shutdown had locks left.
    ShutdownFailed: "shutdowns that left locks", SOON;
    /// The end of a validity was told.
    LostExpired: "losses told at the end of the validity", SOON;
    /// A loss was told before the validity ended.
    LostNotOurs: "losses told before that", SOON;
    /// A lock was handed over.
    HandedOver: "locks handed over", SOON;
    /// A lease was given to two clients.
    LeaseShared: "leases given to two", SOON;
    /// A lock that was handed over was resumed.
    Resumed: "leases resumed", SOON;
    /// A lease came too late.
    ResumeLost: "leases that came too late", SOON;
    /// Too few nodes answered to resume a lease.
    ResumeUnavailable: "resumes during an outage", SOON;
    /// Automatic extensions kept a lock beyond its first validity.
    Renewed: "locks kept by automatic extension", SOON;
    /// Locks of several resources.
    Several: "several resources locked together", SOON;
    /// A lock was acquired with a fencing token.
    Fenced: "fencing tokens", SOON;
    /// A node confirmed a fencing token.
    Confirmed: "fencing tokens confirmed", SOON;
    /// A node did not, since the lock had ended there.
    NotConfirmed: "confirmations that came too late", RARE;
    /// A node granted a number that was not above all of its past.
    WentBack: "fencing counters that went back", SOON;
    /// A register refused a write with an old token.
    WriteRefused: "stale writes refused", SOON;
    /// A call was dropped by its caller.
    Cancelled: "calls cancelled", SOON;
    /// A lock was released and known to be.
    Released: "locks released", SOON;
    /// A release came too late.
    ReleasedNotHeld: "releases of a lost lock", SOON;
    /// A release had too few answers.
    ReleaseUnavailable: "releases during an outage", SOON;
    /// A guard was dropped.
    Dropped: "guards dropped", SOON;
    /// A validity ended before its holder was done.
    Expired: "locks outlived by their holders", SOON;
    /// A lock was extended.
    Extended: "extensions", SOON;
    /// A lost lock was not extended.
    ExtendLost: "extensions of a lost lock refused", SOON;
    /// An extension had too few answers.
    ExtendUnavailable: "extensions during an outage", SOON;
    /// An extension set the key again at a node that had forgotten it.
    Healed: "keys healed", SOON;
    /// A lock was kept beyond its release.
    Kept: "locks kept beyond their release", SOON;
    /// A tick was claimed.
    TickRan: "ticks run", SOON;
    /// A tick was found claimed.
    TickClaimed: "ticks found claimed already", SOON;
    /// A tick was too late.
    TickLate: "ticks that were too late", SOON;
    /// A tick could not be claimed.
    TickUnavailable: "ticks not run for an outage", SOON;
    /// Two beliefs in one lock met, more nodes having forgotten than any quorum survives.
    ExcusedOverlap: "overlaps beyond the fault budget", None;
}

/// How often each event happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage([u64; Mark::ALL.len()]);

impl Default for Coverage {
    fn default() -> Self {
        Self([0; Mark::ALL.len()])
    }
}

impl Coverage {
    pub(crate) fn add(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// Returns how often the event happened.
    #[must_use]
    pub fn count(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.0.iter_mut().zip(&other.0) {
            *mine += others;
        }
    }
}
