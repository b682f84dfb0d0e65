//! What all clones of one lock share.

use std::sync::Arc;

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
}

impl Engine {
    /// The labels of all nodes, in the configured order.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Arc<str>> {
        self.members.iter().map(|member| Arc::clone(&member.label))
    }
}
