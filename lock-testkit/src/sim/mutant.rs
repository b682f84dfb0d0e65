//! Ways in which the engine and the keeper of connections can be made to misbehave, and the
//! invariants that must notice.

use super::fault::FaultKind;
use super::plan::Plan;

/// A way to misbehave, compiled into `lock-core` with `--cfg lock_mutants`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// The invariant that must notice.
    pub killed_by: &'static str,
    /// What its seeds lean towards, if it shows too rarely in those of a campaign.
    pub bias: Bias,
}

/// What the plans of seeds lean towards, so that rare events meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bias {
    /// No lean: the seeds of a campaign.
    #[default]
    None,
    /// One workload, with the faults of the seed.
    Workload(&'static str),
    /// One workload, with these faults alone.
    Faults(&'static str, &'static [FaultKind]),
    /// The same, with one resource that all clients compete for, and single faults that come sixteen times as
    /// often.
    Often(&'static str, &'static [FaultKind]),
    /// The same on a single server with a restart guard, which forgets now and then.
    Guarded(&'static str, &'static [FaultKind]),
}

impl Bias {
    /// Returns the plan of a seed with this lean.
    #[must_use]
    pub fn plan(self, seed: u64) -> Plan {
        let plan = Plan::new(seed);
        match self {
            Self::None => plan,
            Self::Workload(workload) => plan.with_workload(workload),
            Self::Faults(workload, faults) => plan.with_workload(workload).with_faults(faults),
            Self::Often(workload, faults) => {
                let mut plan = plan.with_workload(workload).with_faults(faults);
                plan.resources = 1;
                plan.fault_every /= 16;
                plan
            }
            Self::Guarded(workload, faults) => {
                let mut plan = Self::Often(workload, faults).plan(seed);
                (plan.servers, plan.quorum) = (1, 1);
                plan.fault_every = plan.ttl / 2;
                plan.guarded()
            }
        }
    }

    /// Returns the lean in words.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::None => "seeds of a campaign".to_owned(),
            Self::Workload(workload) => format!("biased: workload {workload}"),
            Self::Faults(workload, faults) => {
                let faults = faults.iter().map(|kind| kind.name()).collect::<Vec<_>>();
                format!("biased: workload {workload}, faults {}", faults.join(" "))
            }
            Self::Often(workload, faults) => {
                format!("{}, often", Self::Faults(workload, faults).text())
            }
            Self::Guarded(workload, faults) => {
                format!(
                    "{}, one guarded server",
                    Self::Faults(workload, faults).text()
                )
            }
        }
    }
}

const fn mutant(name: &'static str, killed_by: &'static str, bias: Bias) -> Mutant {
    Mutant {
        name,
        killed_by,
        bias,
    }
}

/// Connections that are replaced while commands are under way on the old ones.
const LAGGING: Bias = Bias::Faults("extending", &[FaultKind::Lag, FaultKind::LoseRequests]);

/// Nodes that miss keys, and then lose them again on the way.
const LOSING: Bias = Bias::Faults(
    "extending",
    &[
        FaultKind::Stall,
        FaultKind::PartitionRequests,
        FaultKind::LoseRequests,
    ],
);

/// Nodes that miss an extension.
const STALLING: Bias = Bias::Faults(
    "extending",
    &[FaultKind::Stall, FaultKind::PartitionRequests],
);

/// Locks that are held for so long that they must be extended, or lost.
const RENEWING: Bias = Bias::Workload("renewing");
const LOSING_LOCKS: Bias = Bias::Workload("losing");
const PAIRING: Bias = Bias::Workload("pairing");
const HANDING: Bias = Bias::Workload("handing");
const SHUTTING: Bias = Bias::Workload("shutting");

/// Attempts that are under way for as long as others hold the lock.
const FENCING: Bias = Bias::Faults("fencing", &[FaultKind::Slow, FaultKind::LoseRequests]);

/// Nodes that lose keys between grant and confirmation.
const CONFIRMING: Bias = Bias::Often(
    "fencing",
    &[FaultKind::Evict, FaultKind::Slow, FaultKind::LoseRequests],
);

/// Nodes that cannot be reached from the beginning on, and others that miss an extension.
const CONNECTING: Bias = Bias::Faults("renewing", &[FaultKind::Partition, FaultKind::LoseReplies]);

/// Releases that overtake extensions.
const OVERTAKING: Bias = Bias::Faults("losing", &[FaultKind::Lag, FaultKind::LoseRequests]);

/// Acquires that run when their connection has been replaced; the last ones in doubt end after
/// that.
const REPLACED: Bias = Bias::Faults("pairing", &[FaultKind::Lag]);
const REPLACED_EARLY: Bias = Bias::Faults("contending", &[FaultKind::Lag, FaultKind::LoseRequests]);

/// Nodes that forget, one after the other.
const FORGETTING: Bias = Bias::Guarded("contending", &[FaultKind::CrashEmpty]);

/// The same, with clocks that are set forward while a node is in quarantine.
const JUMPING: Bias = Bias::Guarded(
    "contending",
    &[FaultKind::CrashEmpty, FaultKind::ClockForward],
);

/// All mutants.
pub const MUTANTS: &[Mutant] = &[
    mutant("quorum-minus-one", "exclusion", Bias::None),
    mutant("quorum-of-reachable", "exclusion", Bias::None),
    mutant("elapsed-not-subtracted", "belief", Bias::None),
    mutant("extend-from-replies", "belief", Bias::None),
    mutant("no-drift", "belief", Bias::None),
    mutant("token-reused", "exclusion", Bias::None),
    mutant("no-cleanup-after-failure", "leftovers", Bias::None),
    mutant("no-cleanup-after-cancellation", "leftovers", Bias::None),
    mutant("late-grants-forgotten", "leftovers", Bias::None),
    mutant("debts-forgotten", "leftovers", Bias::None),
    mutant("drop-without-release", "leftovers", Bias::None),
    mutant("extend-revives", "extension", Bias::None),
    mutant("healed-keys-vote", "exclusion", LOSING),
    mutant("doubtful-keys-vote", "belief", LAGGING),
    mutant("extend-by-reachable", "belief", Bias::None),
    mutant("suspects-never-probed", "liveness", Bias::None),
    mutant("suspects-not-spared", "bounds", Bias::None),
    mutant("claims-deleted-on-release", "keeping", Bias::None),
    mutant("contention-as-outage", "blame", Bias::None),
    mutant("outage-as-contention", "blame", Bias::None),
    mutant("rival-named-by-one", "ticks", Bias::None),
    mutant("plain-del", "exclusion", Bias::None),
    mutant("extend-without-compare", "belief", STALLING),
    mutant("extend-creates", "leftovers", Bias::None),
    mutant("extend-shortens", "belief", Bias::None),
    mutant("renewal-outlives-release", "renewal", Bias::None),
    mutant("renewal-revives", "renewal", RENEWING),
    mutant("renewal-by-reachable", "belief", RENEWING),
    mutant("renewal-from-replies", "belief", RENEWING),
    mutant("renewal-never-retries", "renewal", RENEWING),
    mutant("renewal-waits-for-connects", "renewal", CONNECTING),
    mutant("max-hold-ignored", "renewal", Bias::None),
    mutant("loss-on-expiry-only", "loss", LOSING_LOCKS),
    mutant("loss-late", "loss", Bias::None),
    mutant("loss-after-release", "loss", Bias::None),
    mutant("release-as-loss", "loss", OVERTAKING),
    mutant("several-partly-released", "leftovers", Bias::None),
    mutant("several-partly-checked", "exclusion", Bias::None),
    mutant("several-in-any-order", "liveness", PAIRING),
    mutant("lease-without-proof", "exclusion", Bias::None),
    mutant("lease-resumed-twice", "handing", Bias::None),
    mutant("lease-released-on-drop", "handing", Bias::None),
    mutant("lease-lost-leaves-keys", "leftovers", HANDING),
    mutant("shutdown-forgets-dropped", "shutdown", SHUTTING),
    mutant("shutdown-forgets-attempts", "shutdown", Bias::None),
    mutant("shutdown-forgets-resumed", "shutdown", SHUTTING),
    mutant("undos-forgotten", "leftovers", REPLACED),
    mutant("late-undos-forgotten", "leftovers", REPLACED_EARLY),
    mutant("hung-connections-kept", "liveness", Bias::None),
    mutant("waiting-calls-in-any-order", "sending", Bias::None),
    mutant("waiting-calls-sent-late", "sending", Bias::None),
    mutant("stalled-drivers-write", "sending", Bias::None),
    mutant("no-guard", "exclusion", FORGETTING),
    mutant("quarantine-without-skew", "exclusion", JUMPING),
    mutant("not-confirmed", "fencing", Bias::None),
    mutant("confirmed-anywhere", "fencing", FENCING),
    mutant("confirmed-without-lock", "fencing", CONFIRMING),
];
