//! Counts of what happened, so that a campaign can tell what it never met.

macro_rules! marks {
    ($($(#[doc = $about:literal])* $name:ident: $text:literal, $must:literal;)*) => {
        /// Something that may happen in a simulation and is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Mark {
            $($(#[doc = $about])* $name,)*
        }

        impl Mark {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What it says in a table.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Whether a campaign in which it never happens has failed: it would prove nothing
            /// about what the mark stands for.
            #[must_use]
            pub fn must_happen(self) -> bool {
                match self { $(Self::$name => $must),* }
            }
        }
    };
}

marks! {
    /// A command was sent.
    Command: "commands sent", true;
    /// A node granted.
    Granted: "grants", true;
    /// A node refused.
    Refused: "refusals", true;
    /// A call ended with no answer in its time.
    NoAnswer: "calls without an answer in time", true;
    /// A call was surely not sent.
    NotSent: "calls that were not sent", true;
    /// A call lost its connection.
    ConnectionLost: "calls that lost their connection", true;
    /// A call was answered with an error.
    ServerError: "calls answered with an error", true;
    /// The future of a call was dropped before its end.
    CallDropped: "calls dropped half-way", false;
    /// A connection was made.
    Connected: "connections made", true;
    /// A connection that went silent was replaced.
    Replaced: "silent connections replaced", true;
    /// A release was written behind a doubtful acquire on a connection that was replaced.
    Undone: "releases behind doubtful acquires", true;
    /// A request ran though its connection was broken, or twice.
    Stray: "requests that ran late or twice", true;
    /// A stray request set a key that nobody knows of.
    Ghost: "keys set by such requests", true;
    /// A server did not know a script.
    NoScript: "scripts that a server did not know", true;
    /// The source of a script was sent after that.
    Resent: "scripts sent again with their source", true;
    /// A grant came after the attempt's release had been sent, and was released.
    LateGrantReleased: "late grants released", true;
    /// A node that had not answered was asked again by an acquire.
    Probed: "suspect nodes probed", true;
    /// A release that had failed got its answer later.
    DebtCollected: "releases owed and collected", true;
    /// A lock was acquired.
    Acquired: "locks acquired", true;
    /// A lock was acquired by a call whose earlier attempt had shared the votes with a rival.
    SplitResolved: "split votes resolved", true;
    /// A lock was acquired after the call had met a holder.
    WaitedOut: "holders waited out", true;
    /// A call reported contention.
    Contended: "calls that found the lock taken", true;
    /// A call reported an outage.
    Unavailable: "calls that found an outage", true;
    /// A call won too late.
    TooSlow: "calls that won too late", true;
    /// A call was dropped by its caller.
    Cancelled: "calls cancelled", true;
    /// A lock was released and known to be.
    Released: "locks released", true;
    /// A release came too late.
    ReleasedNotHeld: "releases of a lost lock", true;
    /// A release had too few answers.
    ReleaseUnavailable: "releases during an outage", true;
    /// A guard was dropped.
    Dropped: "guards dropped", true;
    /// A validity ended before its holder was done.
    Expired: "locks outlived by their holders", true;
    /// A lock was extended.
    Extended: "extensions", true;
    /// A lost lock was not extended.
    ExtendLost: "extensions of a lost lock refused", true;
    /// An extension had too few answers.
    ExtendUnavailable: "extensions during an outage", true;
    /// An extension set the key again at a node that had forgotten it.
    Healed: "keys healed", true;
    /// A lock was kept beyond its release.
    Kept: "locks kept beyond their release", true;
    /// A tick was claimed.
    TickRan: "ticks run", true;
    /// A tick was found claimed.
    TickClaimed: "ticks found claimed already", true;
    /// A tick was too late.
    TickLate: "ticks that were too late", true;
    /// A tick could not be claimed.
    TickUnavailable: "ticks not run for an outage", true;
    /// Two beliefs in one lock met, more nodes having forgotten than any quorum survives.
    ExcusedOverlap: "overlaps beyond the fault budget", false;
}

/// How often each thing happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks([u64; Mark::ALL.len()]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; Mark::ALL.len()])
    }
}

impl Marks {
    pub(crate) fn add(&mut self, mark: Mark) {
        self.0[mark as usize] += 1;
    }

    /// How often it happened.
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
