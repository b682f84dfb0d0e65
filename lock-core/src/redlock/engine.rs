//! What all clones of one lock share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::acquisition::Acquisition;
use super::node::Nodes;
use super::registry::Registry;
use super::renewals::Renewals;
use super::settings::Settings;

/// The nodes of one lock, and the locks that are held on them.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) nodes: Arc<Nodes>,
    /// What is held or tried for.
    pub(crate) registry: Arc<Registry<Acquisition>>,
    /// The locks that are extended automatically.
    pub(crate) renewals: Arc<Renewals<Acquisition>>,
    /// Nodes have refused a command with keys of several slots, as those of a cluster do: several
    /// resources are acquired one after the other from then on.
    pub(crate) is_one_by_one: AtomicBool,
    /// The same for automatic extensions: there is a command for each slot.
    pub(crate) is_by_slot: AtomicBool,
}

impl Engine {
    pub(crate) fn new(nodes: Nodes) -> Self {
        Self {
            is_one_by_one: AtomicBool::new(nodes.settings.one_key_per_command),
            nodes: Arc::new(nodes),
            registry: Arc::default(),
            renewals: Arc::default(),
            is_by_slot: AtomicBool::new(false),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.nodes.settings
    }
}
