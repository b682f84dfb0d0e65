//! What all clones of one lock share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::acquisition::Acquisition;
use super::nodes::Nodes;
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
    /// Nodes have refused a command with keys of several slots, as those of a cluster do.
    is_one_by_one: AtomicBool,
    /// The same for automatic extensions.
    is_by_slot: AtomicBool,
}

impl Engine {
    pub(crate) fn new(nodes: Nodes) -> Self {
        Self {
            nodes: Arc::new(nodes),
            registry: Arc::default(),
            renewals: Arc::default(),
            is_one_by_one: AtomicBool::new(false),
            is_by_slot: AtomicBool::new(false),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.nodes.settings
    }

    /// Returns whether several resources are acquired one after the other.
    pub(crate) fn wants_one_by_one(&self) -> bool {
        self.is_one_by_one.load(Ordering::Relaxed)
    }

    /// From now on they are.
    pub(crate) fn goes_one_by_one(&self) {
        self.is_one_by_one.store(true, Ordering::Relaxed);
    }

    /// Returns whether locks whose keys are in several slots are extended by several commands.
    pub(crate) fn wants_by_slot(&self) -> bool {
        self.is_by_slot.load(Ordering::Relaxed)
    }

    /// From now on they are. Returns whether that is news.
    pub(crate) fn goes_by_slot(&self) -> bool {
        !self.is_by_slot.swap(true, Ordering::Relaxed)
    }
}
