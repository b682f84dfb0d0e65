//! Fencing tokens.

use std::collections::BTreeMap;

use super::Invariant;
use crate::sim::ledger::{FenceFacts, Ledger, Violation};
use crate::sim::plan::Plan;

pub(super) struct Fencing;

impl Invariant for Fencing {
    fn name(&self) -> &'static str {
        "fencing"
    }

    fn about(&self) -> &'static str {
        "no two acquisitions of a lock have one fencing token, and one that began when another had been \
         made has a larger one, whatever clocks and times did, unless more nodes than two quorums share, \
         less one, went back behind their own tokens; one that was made when another was over has a larger \
         one as long as locks exclude each other"
    }

    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        let mut by_key: BTreeMap<&[u8], Vec<&FenceFacts>> = BTreeMap::new();
        for fence in &ledger.fences {
            by_key.entry(&fence.key).or_default().push(fence);
        }
        for fences in by_key.values() {
            for (n, one) in fences.iter().enumerate() {
                for other in &fences[n + 1..] {
                    let found = wrong(one, other)
                        .or_else(|| behind(plan, ledger, one, other))
                        .or_else(|| behind(plan, ledger, other, one));
                    if let Some(text) = found {
                        let went_back = went_back(ledger, one).max(went_back(ledger, other));
                        if went_back <= plan.survives_forgetful() {
                            violations.push(Violation {
                                invariant: "fencing",
                                text,
                            });
                        }
                    }
                }
            }
        }
    }
}

/// How many nodes have granted this lock with a number that is not above all that they had before.
fn went_back(ledger: &Ledger, fence: &FenceFacts) -> usize {
    let by = |(token, _): &&(_, _)| *token == fence.attempt;
    let servers = ledger.went_back.iter().filter(by);
    let set = servers.fold(0_u64, |set, (_, server)| set | (1 << server.0));
    set.count_ones() as usize
}

fn describe(fence: &FenceFacts) -> String {
    format!(
        "{} (client {}, asked at {:?}, acquired at {:?})",
        fence.number,
        fence.client.index(),
        fence.asked_at,
        fence.acquired_at
    )
}

/// A lock that was asked for before the earlier one was acquired, and acquired when that was over.
fn behind(
    plan: &Plan,
    ledger: &Ledger,
    earlier: &FenceFacts,
    later: &FenceFacts,
) -> Option<String> {
    let is_over = ledger.holds[earlier.hold].end() <= later.acquired_at;
    let since = earlier.asked_at.min(later.asked_at);
    let is_exclusive = !ledger.clocks_failed
        && plan.rates_are_fine
        && ledger.forgetful(since, later.acquired_at) <= plan.survives_forgetful();
    let is_wrong = is_over && is_exclusive && earlier.number > later.number;
    is_wrong.then(|| format!("behind: {} after {}", describe(later), describe(earlier)))
}

fn wrong(one: &FenceFacts, other: &FenceFacts) -> Option<String> {
    let (one_shown, other_shown) = (describe(one), describe(other));
    if one.number == other.number {
        return Some(format!("one token twice: {one_shown} and {other_shown}"));
    }
    let is_wrong = |earlier: &FenceFacts, later: &FenceFacts| {
        earlier.acquired_at < later.asked_at && earlier.number > later.number
    };
    if is_wrong(one, other) || is_wrong(other, one) {
        return Some(format!("out of order: {one_shown} and {other_shown}"));
    }
    None
}

pub(super) struct Register;

impl Invariant for Register {
    fn name(&self) -> &'static str {
        "register"
    }

    fn about(&self) -> &'static str {
        "a register that refuses smaller tokens takes no write of a holder once it has taken one of a \
         holder whose acquisition began when the first one had been made, unless nodes went back as above"
    }

    fn judge(&self, plan: &Plan, ledger: &Ledger, violations: &mut Vec<Violation>) {
        let mut written: BTreeMap<&[u8], Vec<&FenceFacts>> = BTreeMap::new();
        for number in &ledger.writes {
            let writer = &ledger.fences[*number];
            let before = written.entry(&writer.key).or_default();
            for earlier in before.iter() {
                let is_stale = writer.acquired_at < earlier.asked_at;
                let went_back = went_back(ledger, writer).max(went_back(ledger, earlier));
                if is_stale && went_back <= plan.survives_forgetful() {
                    violations.push(Violation {
                        invariant: "register",
                        text: format!(
                            "client {} wrote with {} of {:?} after client {} with {} of {:?}",
                            writer.client.index(),
                            writer.number,
                            writer.acquired_at,
                            earlier.client.index(),
                            earlier.number,
                            earlier.acquired_at
                        ),
                    });
                    break;
                }
            }
            before.push(writer);
        }
    }
}
