//! The restart guard: a node that may have forgotten a lock grants none for as long as that lock may last.

use std::sync::Arc;
use std::time::Duration;

use super::engine::Engine;
use super::protocol::{Ballots, NodeSet, inspected};
use super::survey::ask;
use crate::error::{BootstrapError, BuildError};
use crate::node::{Guard, NodeError, Operation, Reply};
use crate::ttl::Ttl;

/// What the key of the guard is called, behind the prefix of all locks. No lock's key may end with it.
pub(crate) const GUARD_SUFFIX: &str = ":restart-guard";

/// How far clocks of servers may be set forward, or be apart, unless told otherwise.
const CLOCK_SKEW: Duration = Duration::from_secs(5);

/// Keeps a node that may have forgotten locks from granting any until the last of them has ended:
/// [`RedlockBuilder::restart_guard`](crate::RedlockBuilder::restart_guard).
///
/// A server that restarts without its data, is flushed or is replaced by a replica that lags behind forgets locks.
/// With `f` such nodes of `N` and a quorum of `q`, locks exclude each other if `f <= 2q - N - 1`: with a plain
/// majority of an odd `N`, none. Under the guard a node is in quarantine from the first acquire that reaches it after
/// that: it answers each acquire with the error `QUARANTINE`, until what it may have forgotten has expired. So a node
/// that forgot has no vote, and any number may forget; while too many of them are in quarantine, no lock can be
/// acquired.
///
/// A node knows by a key of its own, the guard, which holds the name of the server's run (`run_id`) and when the
/// quarantine ends. A server that lost that key, or has another run, may have forgotten. Where the user may not call
/// `INFO`, its run is unknown, and only the loss of the key shows: a server that restarts with old data is not noticed.
/// [`Redlock::check`](crate::Redlock::check) says so.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, Redlock, RestartGuard};
/// # use lock_testkit::MemoryNode;
///
/// # futures::executor::block_on(async {
/// # let nodes = MemoryNode::several(5);
/// let locks = Redlock::builder()
///     .nodes(nodes)
///     .ttl(Duration::from_secs(10))
///     .restart_guard(RestartGuard::new(Duration::from_secs(30)))
///     .build()?;
/// locks.bootstrap().await?; // by hand, before the very first lock, and never again
/// let guard = locks.lock("invoice-7").await?;
/// # guard.release().await?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # What it does not cover
///
/// - **A single key that goes**: an eviction, a `DEL`. Set `maxmemory-policy noeviction`.
/// - **Requests that keep their key for their whole ttl**, as [ticks](crate::tick) do: they may last longer than
///   `max_ttl`, and a tick may run once more when its claim was forgotten by a quorum.
/// - **Processes without the guard**: they acquire at a node in quarantine. Every process that uses the same prefix
///   needs it.
/// - **Nodes of a cluster**: the guard and a lock do not share a slot.
/// - **A failover and back** during which no acquire reached the other server: the first one has the run that its guard
///   names, and the other one's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartGuard {
    max_ttl: Duration,
    clock_skew: Duration,
}

impl RestartGuard {
    /// A guard for locks of at most this ttl. Requests and extensions with a longer one are refused. A quarantine is as
    /// long, and a little longer: `max_ttl * (1 + drift_factor) + 2 * clock_skew`.
    ///
    /// Processes may differ during a deploy: a node remembers the longest quarantine that it was asked for, and adds
    /// what the first one that asked lacked. One that forgot knows what it is asked for afterwards alone, so lower the
    /// `max_ttl` only when no lock with a longer ttl is left.
    #[must_use]
    pub fn new(max_ttl: Duration) -> Self {
        Self {
            max_ttl,
            clock_skew: CLOCK_SKEW,
        }
    }

    /// By how much the clocks of the servers may be apart, where one takes over from another, or be set forward at
    /// once. Defaults to 5 s.
    #[must_use]
    pub fn clock_skew(self, clock_skew: Duration) -> Self {
        Self { clock_skew, ..self }
    }

    pub(crate) fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// How long a node that may have forgotten grants no lock.
    pub(crate) fn quarantine(&self, drift_factor: f64) -> Result<Ttl, BuildError> {
        let (max_ttl, clock_skew) = (self.max_ttl, self.clock_skew);
        Ttl::new(max_ttl)?;
        let drift = Duration::try_from_secs_f64(max_ttl.as_secs_f64() * drift_factor);
        let skew = match mutant!(QuarantineWithoutSkew) {
            true => Duration::ZERO,
            false => clock_skew.saturating_mul(2),
        };
        let quarantine = max_ttl
            .saturating_add(drift.unwrap_or(Duration::MAX))
            .saturating_add(skew)
            // Fractions of a millisecond are cut off.
            .saturating_add(Duration::from_millis(1));
        Ttl::new(quarantine).map_err(|_| BuildError::Quarantine {
            quarantine,
            max: Ttl::MAX.as_duration(),
        })
    }
}

/// Says of all nodes that there was no lock to forget, unless one of them has a guard: then there were.
pub(crate) async fn bootstrap(engine: &Arc<Engine>) -> Result<usize, BootstrapError> {
    let settings = engine.settings();
    let Some(Guard { key, quarantine }) = settings.guard.clone() else {
        return Err(BootstrapError::NoGuard);
    };
    let inspect = Operation::Inspect {
        key: Arc::clone(&key),
    };
    let are_guarded = answers(engine, &inspect, |reply| {
        inspected(&inspect, reply).map(|found| found.is_some())
    })
    .await?;
    if are_guarded.contains(&true) {
        return Ok(0);
    }
    let bootstrap = Operation::Bootstrap { key, quarantine };
    let are_new = answers(engine, &bootstrap, |reply| match reply {
        Reply::Int(1) => Ok(true),
        Reply::Int(0) => Ok(false),
        reply => Err(NodeError::unexpected_reply(&bootstrap, reply)),
    })
    .await?;
    Ok(are_new.into_iter().filter(|is_new| *is_new).count())
}

/// What each node answers; an error if one does not.
async fn answers(
    engine: &Arc<Engine>,
    operation: &Operation,
    read: impl Fn(&Reply) -> Result<bool, NodeError>,
) -> Result<Vec<bool>, BootstrapError> {
    let replies = ask(engine, NodeSet::all(engine.nodes.all.len()), operation).await;
    let mut ballots = Ballots::new(replies.len());
    for node in 0..replies.len() {
        let answer = replies.result(node).and_then(|reply| read(&reply));
        ballots.record(node, answer);
    }
    if ballots.answered() < ballots.len() {
        return Err(BootstrapError::Unavailable {
            nodes: engine.nodes.reports(&ballots, |_| true),
        });
    }
    Ok(ballots.answers().map(|(_, answer)| *answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_outlasts_the_longest_lock_whatever_clocks_do() {
        let quarantine = |guard: RestartGuard, drift| guard.quarantine(drift).map(Ttl::as_millis);
        let second = Duration::from_secs(1);
        let guard = RestartGuard::new(30 * second);
        assert_eq!(quarantine(guard, 0.01), Ok(30_000 + 300 + 2 * 5_000 + 1));
        let exact = guard.clock_skew(Duration::ZERO);
        assert_eq!(quarantine(exact, 0.0), Ok(30_001));
        assert_eq!(quarantine(exact, 0.00001), Ok(30_001));
        for wrong in [
            RestartGuard::new(Duration::ZERO),
            RestartGuard::new(Duration::MAX),
            RestartGuard::new(Ttl::MAX.as_duration()),
            guard.clock_skew(Duration::MAX),
        ] {
            assert!(wrong.quarantine(0.01).is_err(), "{wrong:?}");
        }
    }
}
