//! The decisions of the algorithm, pure: no await, no clock, no randomness, no IO. Time and chance
//! are parameters, so every rule has a test without a runtime. The driver carries them out.

mod acquire;
mod debts;
mod extend;
mod fencing;
mod health;
mod ledger;
mod placement;
mod release;
mod renewal;
mod replies;
mod retries;
mod timing;
mod votes;

pub(crate) use acquire::{AcquireRound, Verdict};
pub(crate) use debts::{Debt, Debts};
pub(crate) use extend::{ExtendRound, ExtendVerdict};
pub(crate) use fencing::{Fencing, Grant};
pub(crate) use health::{Admission, Answered, Health};
pub(crate) use ledger::{Follow, Ledger};
pub(crate) use placement::{COUNTER_SUFFIX, anchor_order, counter_key, slot};
pub(crate) use release::{ReleaseRound, ReleaseVerdict};
pub(crate) use renewal::{KeyVote, Renewal, RenewalRound};
pub(crate) use replies::{AcquireAnswer, KeyAnswer, confirmed, described, inspected, scanned};
pub(crate) use retries::{AskPlan, Next, ReportHolder, Retries, WaitPolicy};
pub(crate) use timing::{Moment, Timing};
pub(crate) use votes::{Ballots, NodeSet, Quorum, Standing, Step, Tally};
