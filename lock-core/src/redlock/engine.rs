//! What all clones of one lock share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::holders::Holders;
use super::member::Member;
use super::renewer::Renewals;
use super::settings::Settings;

/// The nodes of one lock and its settings.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) members: Box<[Member]>,
    pub(crate) settings: Settings,
    /// The locks that are extended automatically.
    pub(crate) renewals: Renewals,
    /// What is held or tried for.
    pub(crate) holders: Holders,
    /// Nodes have refused a command with keys of several slots, as those of a cluster do.
    pub(super) is_one_by_one: AtomicBool,
}

impl Engine {
    /// Whether several resources are acquired one after the other.
    pub(crate) fn wants_one_by_one(&self) -> bool {
        self.is_one_by_one.load(Ordering::Relaxed)
    }

    /// From now on they are.
    pub(crate) fn goes_one_by_one(&self) {
        self.is_one_by_one.store(true, Ordering::Relaxed);
    }

    /// The labels of all nodes, in the configured order.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Arc<str>> {
        self.members.iter().map(|member| Arc::clone(&member.label))
    }
}
