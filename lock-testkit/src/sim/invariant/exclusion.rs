//! Mutual exclusion.

use super::Invariant;
use crate::sim::ledger::{Hold, Ledger, Violation};
use crate::sim::plan::Plan;

pub(super) struct Exclusion;

impl Invariant for Exclusion {
    fn name(&self) -> &'static str {
        "exclusion"
    }

    fn about(&self) -> &'static str {
        "no two holders believe in one lock at the same true time, unless clocks were out of \
         bounds or more nodes forgot meanwhile than two quorums share, less one; under a restart \
         guard, nodes that restarted, were flushed or failed over do not count"
    }

    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        overlaps(plan, ledger, |plan, ledger, earlier, later| {
            let forgetful = forgetful(ledger, earlier, later);
            if is_excused(plan, ledger, forgetful) {
                return;
            }
            violations.push(Violation {
                invariant: "exclusion",
                text: format!(
                    "client {} believed from {:?} to {:?}, client {} from {:?} to {:?}, and {} \
                     nodes forgot meanwhile where {} may",
                    earlier.client.index(),
                    earlier.acquired_at,
                    earlier.end(),
                    later.client.index(),
                    later.acquired_at,
                    later.end(),
                    forgetful,
                    plan.survives_forgetful(),
                ),
            });
        });
    }
}

/// Returns how many nodes forgot keys since any key of the two was set. A client that acquires
/// several locks one by one has the first of them long before all.
fn forgetful(ledger: &Ledger, earlier: &Hold, later: &Hold) -> usize {
    ledger.unguarded(earlier.asked_at.min(later.asked_at), later.acquired_at)
}

fn is_excused(plan: &Plan, ledger: &Ledger, forgetful: usize) -> bool {
    ledger.clocks_failed || !plan.rates_are_fine || forgetful > plan.survives_forgetful()
}

/// Returns how many overlaps there were that no lock could have avoided.
pub(crate) fn excused(plan: &Plan, ledger: &Ledger) -> u64 {
    let mut count = 0;
    overlaps(plan, ledger, |plan, ledger, earlier, later| {
        let forgetful = forgetful(ledger, earlier, later);
        count += u64::from(is_excused(plan, ledger, forgetful));
    });
    count
}

fn overlaps<'l>(
    plan: &Plan,
    ledger: &'l Ledger,
    mut found: impl FnMut(&Plan, &Ledger, &'l Hold, &'l Hold),
) {
    let mut holds = ledger.holds.iter().collect::<Vec<_>>();
    holds.sort_by(|a, b| (&a.key, a.acquired_at).cmp(&(&b.key, b.acquired_at)));
    let mut longest: Option<&Hold> = None;
    for hold in holds {
        match longest {
            Some(earlier) if earlier.key == hold.key => {
                if hold.acquired_at < earlier.end() && hold.acquired_at < hold.end() {
                    found(plan, ledger, earlier, hold);
                }
                if hold.end() > earlier.end() {
                    longest = Some(hold);
                }
            }
            _ => longest = Some(hold),
        }
    }
}
