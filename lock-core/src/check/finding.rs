//! What may be the matter with a node, and what to do about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::server::{ClockOffset, Role, ServerInfo};
use super::{Examined, GuardUse, Probed};
use crate::display::Ms;
use crate::node::{NodeError, NodeErrorKind};

/// Clocks that are further apart than this are reported: well below the 5 s that instances which claim ticks may be
/// apart by default, and well above what is left where NTP sets a clock.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// How grave a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something to know.
    Note,
    /// The node works, but some fault would break more than it has to.
    Warning,
    /// The node does not vote.
    Error,
}

/// Something that is the matter with a node, or with this machine.
///
/// `Display` says what it is, [`advice`](Self::advice) what to do about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// The node has granted no lock.
    Fails {
        /// Why.
        error: NodeError,
    },
    /// The node is the same server as one that is listed too. Its vote does not count, or it would count twice.
    SameServer {
        /// The label of the other one.
        other: Arc<str>,
    },
    /// The server is a replica.
    Replica,
    /// The server may have forgotten locks, and grants none before they have ended.
    Quarantined {
        /// What it said.
        error: NodeError,
    },
    /// Others use a [restart guard](crate::RestartGuard) here, and this process does not: it may acquire what a server
    /// has forgotten.
    Unguarded,
    /// The restart guard does not notice a server that restarts with old data, as the user may not call `INFO`.
    GuardReduced,
    /// The user may not run the scripts of the library, so that no lock could be released.
    ScriptsRefused {
        /// What the server said.
        error: NodeError,
    },
    /// The node takes nearly as long as it may.
    Slow {
        /// How long it took.
        round_trip: Duration,
        /// How long it may take.
        node_timeout: Duration,
    },
    /// The server may delete locks when its memory is full.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// The server forgets locks as it restarts.
    Forgets,
    /// A failover to a replica forgets locks that the replica had not seen yet.
    FailoverForgets {
        /// The number of replicas.
        replicas: u64,
    },
    /// The server's clock and that of this machine are apart. It does no harm to locks, whose times are durations.
    ClocksApart {
        /// How far the server is ahead.
        offset: ClockOffset,
    },
    /// The clock of this machine is wrong: those of most servers say otherwise. Jobs would run ticks that are not due,
    /// or long gone.
    OwnClock {
        /// How far the middle one of the servers is ahead.
        offset: ClockOffset,
    },
    /// The server does not tell what it is.
    InfoRefused {
        /// What it said.
        why: String,
    },
}

impl Finding {
    /// Returns how grave it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Fails { .. }
            | Self::SameServer { .. }
            | Self::Replica
            | Self::Quarantined { .. }
            | Self::ScriptsRefused { .. } => Severity::Error,
            Self::Slow { .. }
            | Self::Evicts { .. }
            | Self::Forgets
            | Self::Unguarded
            | Self::GuardReduced
            | Self::OwnClock { .. } => Severity::Warning,
            Self::FailoverForgets { .. } | Self::ClocksApart { .. } | Self::InfoRefused { .. } => {
                Severity::Note
            }
        }
    }

    /// Returns what to do about it, as a sentence.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Fails { error } => advice_on(error),
            Self::SameServer { .. } => {
                "List each server once; independent servers are what makes a lock safe."
            }
            Self::Replica => "Name the primary, or reach it by its sentinels.",
            Self::Quarantined { .. } => "Wait. It ends by itself.",
            Self::Unguarded => "Build every lock of this prefix with the same restart_guard.",
            Self::GuardReduced => "Allow the user +info.",
            Self::ScriptsRefused { .. } => {
                "Allow the user +evalsha and +eval, and the commands that the scripts call."
            }
            Self::Slow { .. } => {
                "Look for slow commands on the server and for load here, or raise node_timeout."
            }
            Self::Evicts { .. } => "Set maxmemory-policy noeviction on servers that keep locks.",
            Self::Forgets => {
                "Set appendonly yes, or keep a server that was restarted out for the longest ttl."
            }
            Self::FailoverForgets { .. } => {
                "Set min-replicas-to-write 1, or use several independent servers instead."
            }
            Self::ClocksApart { .. } => "Let NTP set the server's clock.",
            Self::OwnClock { .. } => "Let NTP set the clock of this machine.",
            Self::InfoRefused { .. } => {
                "Allow the user +time and +info, for this check to see more; locks do not need it."
            }
        }
    }
}

/// What to do about a node that fails like this.
fn advice_on(error: &NodeError) -> &'static str {
    if error.is_permission() {
        return "Give the client the right password, and its user the rights that the documentation lists.";
    }
    match (error.code(), error.kind()) {
        (Some("MOVED" | "CROSSSLOT" | "CLUSTERDOWN"), _) => {
            "This server is part of a cluster, which serves some names only: name the whole cluster, \
             or a server that stands alone."
        }
        (Some("READONLY" | "MASTERDOWN"), _) => "Name the primary, or reach it by its sentinels.",
        (Some("OOM"), _) => "Give the server more memory, or keep other data elsewhere.",
        (Some("LOADING"), _) => "Wait until the server has loaded its data.",
        (Some("MISCONF" | "NOREPLICAS"), _) => {
            "The server takes no writes: look at its disk and its replicas."
        }
        (_, NodeErrorKind::NoAnswer) => {
            "Look whether the server hangs and the network drops what is sent to it."
        }
        (_, NodeErrorKind::NotSent | NodeErrorKind::Connection) => {
            "Look whether the server runs and can be reached from here under this address."
        }
        _ => "Look at the server's log.",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails { error } => write!(f, "grants no lock: {error}"),
            Self::SameServer { other } => write!(f, "is the same server as {other}"),
            Self::Replica => f.write_str("is a replica, which takes no writes"),
            Self::Quarantined { error } => write!(f, "grants no lock yet: {error}"),
            Self::Unguarded => f.write_str("has a restart guard, which this process does not use"),
            Self::GuardReduced => {
                f.write_str("does not tell its run, so that a restart with old data goes unnoticed")
            }
            Self::ScriptsRefused { error } => write!(f, "refuses scripts: {error}"),
            Self::Slow {
                round_trip,
                node_timeout,
            } => {
                let (round_trip, limit) = (Ms(*round_trip), Ms(*node_timeout));
                write!(f, "took {round_trip} for an answer, and may take {limit}")
            }
            Self::Evicts { policy } => {
                write!(f, "may delete locks when memory is full ({policy})")
            }
            Self::Forgets => f.write_str("forgets locks as it restarts, without appendonly"),
            Self::FailoverForgets { replicas } => write!(
                f,
                "has {replicas} replicas and waits for none: a failover may forget locks"
            ),
            Self::ClocksApart { offset } => write!(f, "its clock is {}", Apart(*offset)),
            Self::OwnClock { offset } => {
                write!(
                    f,
                    "most servers say that the clock here is wrong: theirs are {}",
                    Apart(*offset)
                )
            }
            Self::InfoRefused { why } => write!(f, "does not tell what it is: {why}"),
        }
    }
}

/// How far a server's clock is from ours, in words.
struct Apart(ClockOffset);

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.0.distance().as_secs_f64();
        let way = if self.0.is_ahead() { "ahead" } else { "behind" };
        write!(f, "{by:.1} s {way}")
    }
}

/// Returns what is the matter with a node, the gravest first.
pub(super) fn of_node(node: &Examined, is_own_clock: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_replica = |server: &ServerInfo| server.role == Some(Role::Replica);
    match (&node.lock, &node.server) {
        (Probed::Granted, Ok(_)) => {}
        (Probed::Twin(other), _) => findings.push(Finding::SameServer {
            other: Arc::clone(other),
        }),
        (Probed::Failed(error), _) if error.is_quarantine() => {
            findings.push(Finding::Quarantined {
                error: error.clone(),
            })
        }
        (Probed::Failed(_), Ok(server)) if is_replica(server) => findings.push(Finding::Replica),
        (Probed::Granted, Err(error)) if error.is_permission() => {
            findings.push(Finding::InfoRefused {
                why: error.to_string(),
            });
        }
        (Probed::Failed(error), Err(other)) if error.is_permission() && other.is_permission() => {
            findings.push(Finding::ScriptsRefused {
                error: error.clone(),
            });
        }
        (Probed::Failed(error), _) | (Probed::Granted, Err(error)) => {
            findings.push(Finding::Fails {
                error: error.clone(),
            });
        }
    }
    if let Ok(server) = &node.server {
        findings.extend(of_server(server, is_own_clock));
        if node.guard == GuardUse::Ours {
            // A server that forgot is kept from granting locks.
            findings.retain(|finding| !matches!(finding, Finding::Forgets));
            findings.extend(server.run_id.is_none().then_some(Finding::GuardReduced));
        }
    }
    if node.guard == GuardUse::OthersAlone {
        findings.push(Finding::Unguarded);
    }
    if let Some(round_trip) = node.round_trip
        && matches!(node.lock, Probed::Granted)
        && round_trip > node.node_timeout / 2
    {
        findings.push(Finding::Slow {
            round_trip,
            node_timeout: node.node_timeout,
        });
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    findings
}

fn of_server(server: &ServerInfo, is_own_clock: bool) -> impl Iterator<Item = Finding> {
    let policy = server.eviction_policy.as_deref();
    let evicts = policy.filter(|policy| server.max_memory.is_some() && *policy != "noeviction");
    let replicas = server
        .replicas
        .filter(|replicas| *replicas > 0 && !server.needs_replicas);
    let offset = Some(server.clock_offset);
    let offset = offset.filter(|offset| !is_own_clock && offset.at_least() > CLOCKS_APART);
    let forgets = (server.has_append_only_file == Some(false)).then_some(Finding::Forgets);
    [
        evicts.map(|policy| Finding::Evicts {
            policy: policy.to_owned(),
        }),
        forgets,
        replicas.map(|replicas| Finding::FailoverForgets { replicas }),
        offset.map(|offset| Finding::ClocksApart { offset }),
        server
            .info_refused
            .clone()
            .map(|why| Finding::InfoRefused { why }),
    ]
    .into_iter()
    .flatten()
}

/// Returns that the clock here is wrong, if more than half of at least two servers say so, all to the same side.
pub(super) fn own_clock(offsets: &[ClockOffset]) -> Option<Finding> {
    let mut sorted = offsets.to_vec();
    sorted.sort_by_key(|offset| offset.micros());
    let is_apart = |offset: &&ClockOffset| offset.at_least() > CLOCKS_APART;
    let (ahead, behind): (Vec<_>, Vec<_>) = sorted
        .iter()
        .filter(is_apart)
        .partition::<Vec<&ClockOffset>, _>(|offset| offset.is_ahead());
    let are_most = ahead.len().max(behind.len()) > offsets.len() / 2;
    let middle = *sorted.get(offsets.len() / 2)?;
    (offsets.len() > 1 && are_most).then_some(Finding::OwnClock { offset: middle })
}
