//! More copies than a majority: while a lock is held, nodes that missed it get its keys too, since each
//! spare copy is a node that may forget.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::acquisition::Acquisition;
use super::calls::{Call, Calls, Probe, Purpose};
use super::protocol::Admission;
use super::release::settle;
use crate::runtime::Runtime;
use crate::ttl::Ttl;

/// The pauses between two tries, which double. The first try is put off too, so that a short lock costs nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Sees to it that the nodes which missed the lock get its keys, if any did.
pub(crate) fn start(lock: &Arc<Acquisition>) {
    if lock.ledger().missed().is_empty() || !lock.begin_fill() {
        return;
    }
    let waiting = Arc::downgrade(lock);
    lock.nodes.fills.add(&lock.runtime, move || {
        if let Some(lock) = waiting.upgrade() {
            let filler = Filler {
                lock: waiting,
                runtime: Arc::clone(&lock.runtime),
                pause: FIRST_PAUSE,
            };
            lock.runtime.spawn(Box::pin(filler.run()));
        }
    });
}

/// The task that fills one lock up. It keeps no lock alive.
struct Filler {
    lock: Weak<Acquisition>,
    runtime: Arc<dyn Runtime>,
    pause: Duration,
}

impl Filler {
    async fn run(mut self) {
        while let Some(lock) = self.lock.upgrade() {
            let mut calls = Calls::default();
            if !fill(&lock, &mut calls) {
                return;
            }
            while let Some(done) = calls.next().await {
                settle(done, &mut calls);
            }
            drop(lock);
            self.runtime.sleep(self.pause).await;
            self.pause = self.pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.upgrade() {
            lock.end_fill();
        }
    }
}

/// Adds a call to each node that missed the lock. Returns `false` if there is nothing left to do.
fn fill(lock: &Arc<Acquisition>, calls: &mut Calls) -> bool {
    let now = lock.look();
    let missed = lock.ledger().missed();
    // A copy ends with the validity: one that was set late must not outlive what the holder relies on.
    let left = lock.remaining_at(now);
    let Ok(ttl) = Ttl::new(left) else {
        return false;
    };
    if missed.is_empty() || left <= lock.timing.node_timeout {
        return false;
    }
    // By script, since the command that had no answer may have set the key: a plain SET would be refused by
    // it, as by a stranger's.
    let command = lock.copy_command(ttl);
    for node in missed.iter() {
        let within = lock.within(node);
        let probe = match lock.nodes.all[node].admit(now, within) {
            Admission::Go => None,
            Admission::Probe => Some(Probe::new(&lock.nodes, node)),
            Admission::Skip => continue,
        };
        lock.ledger().heals(node, now);
        calls.push(Call {
            probe,
            ..Call::of_lock(lock, node, Purpose::Heal, command.clone())
        });
    }
    true
}
