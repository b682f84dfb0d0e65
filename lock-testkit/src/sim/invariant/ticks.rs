//! Once per tick.

use std::collections::BTreeMap;

use super::Invariant;
use crate::sim::ledger::{Ledger, TickResult, Violation};
use crate::sim::plan::Plan;

pub(super) struct Ticks;

impl Invariant for Ticks {
    fn name(&self) -> &'static str {
        "ticks"
    }

    fn about(&self) -> &'static str {
        "a tick runs at most once, as long as the nodes do not forget beyond the budget, and \
         exactly once while nothing is wrong"
    }

    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        if ledger.clocks_failed || !plan.rates_are_fine {
            return;
        }
        let mut ran: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for claim in &ledger.ticks {
            if claim.result == TickResult::Ran {
                ran.entry(claim.tick).or_default().push(claim);
            }
        }
        for tick in &ledger.quiet_ticks {
            if !ran.contains_key(tick) {
                violations.push(Violation {
                    invariant: "ticks",
                    text: format!("tick {tick} was missed, and nothing was wrong"),
                });
            }
        }
        for (tick, claims) in ran {
            let ended = claims.iter().map(|claim| claim.ended);
            let (Some(first), Some(last)) = (ended.clone().min(), ended.max()) else {
                continue;
            };
            // A claim's key is set before the claim is known to be won.
            let since = first.saturating_sub(2 * plan.duration);
            if claims.len() > 1 && ledger.forgetful(since, last) <= plan.survives_forgetful() {
                let who = claims.iter().map(|claim| claim.client.index());
                violations.push(Violation {
                    invariant: "ticks",
                    text: format!("tick {tick} ran {:?}", who.collect::<Vec<_>>()),
                });
            }
        }
    }
}
