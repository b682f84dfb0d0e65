//! Invariants that are judged as a run goes on, since that could not be told afterwards.

use super::Invariant;
use crate::sim::ledger::{Ledger, Violation};
use crate::sim::plan::Plan;

/// An invariant that other files judge: `belief.rs`, `life.rs`, `watch.rs`, `run.rs`,
/// `tracked.rs`, `calls.rs`.
pub(super) struct Noticed {
    name: &'static str,
    about: &'static str,
}

/// All of them.
pub(super) const NOTICED: [Noticed; 10] = [
    Noticed {
        name: "belief",
        about: "to the last moment of a guard's validity a quorum of nodes holds its keys, save \
                those that forgot them",
    },
    Noticed {
        name: "extension",
        about: "an extension never revives a lock whose validity has ended, and never makes it \
                end sooner",
    },
    Noticed {
        name: "keeping",
        about: "a lock that is to be held for a while at least stays on a quorum of nodes for so \
                long, released or not",
    },
    Noticed {
        name: "lifetime",
        about: "no key lives longer than its ttl after the last command that set or extended it, \
                and none lives for ever",
    },
    Noticed {
        name: "liveness",
        about: "once faults have ended every client acquires every lock within a bound, several \
                together too, and all work comes to its end",
    },
    Noticed {
        name: "renewal",
        about: "automatic extension keeps a lock as long as a quorum of nodes is well, revives \
                none, and ends with the guard or the longest hold",
    },
    Noticed {
        name: "loss",
        about: "a loss is told at the moment at which the validity ends or a quorum denies the \
                lock, never without reason, and never after a release",
    },
    Noticed {
        name: "handing",
        about: "a lock that was handed over is there for a client that comes in time, and for one \
                alone",
    },
    Noticed {
        name: "shutdown",
        about: "after a shutdown nothing is acquired, and one that succeeds leaves no key where \
                nodes were well",
    },
    Noticed {
        name: "sending",
        about: "a command leaves at most once, in the order of the calls, before its call has \
                ended and never late, and a call that says that it was not sent was not",
    },
];

impl Invariant for &'static Noticed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn judge(&self, _plan: &Plan, _ledger: &Ledger, _violations: &mut Vec<Violation>) {}
}
