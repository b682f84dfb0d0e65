//! The decisions of the algorithm, pure: no await, no clock, no randomness, no IO. Time and chance
//! are parameters, so every rule has a test without a runtime. The driver carries them out.

mod acquire;
mod anchor;
mod ballot;
mod debts;
mod extend;
mod health;
mod keys;
mod ledger;
mod node_set;
mod quorum;
mod release;
mod renewal;
mod replies;
mod slot;
mod timing;
mod wait;

pub(crate) use acquire::{AcquireRound, Verdict};
pub(crate) use anchor::anchor_order;
pub(crate) use ballot::{Ballots, Step};
pub(crate) use debts::{Debt, Debts};
pub(crate) use extend::{ExtendRound, ExtendVerdict};
pub(crate) use health::{Admission, Health};
pub(crate) use keys::Keys;
pub(crate) use ledger::{Follow, Ledger};
pub(crate) use node_set::NodeSet;
pub(crate) use quorum::Quorum;
pub(crate) use release::{ReleaseRound, ReleaseVerdict};
pub(crate) use renewal::{KeyVote, Renewal, RenewalRound};
pub(crate) use replies::{AcquireAnswer, Holder, KeyAnswer};
pub(crate) use slot::slot;
pub(crate) use timing::Timing;
pub(crate) use wait::{Asking, Next, Patience, Tell, Wait};
