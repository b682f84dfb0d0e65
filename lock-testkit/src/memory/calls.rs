//! How often a node was called.

use lock_core::node::Operation;

/// How many calls a [`MemoryNode`](super::MemoryNode) got, by kind.
///
/// A call counts from the first poll of its future, whatever its outcome: calls that were refused
/// count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// [`Operation::Acquire`] that is a plain `SET`.
    pub acquire: u64,
    /// [`Operation::Acquire`] by a script, which reports the holder.
    pub acquire_or_report: u64,
    /// [`Operation::Extend`] and [`Operation::Exchange`], which extends too.
    pub extend: u64,
    /// [`Operation::Release`].
    pub release: u64,
    /// Everything else.
    pub other: u64,
}

impl Calls {
    /// Returns the number of all calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.acquire + self.acquire_or_report + self.extend + self.release + self.other
    }

    pub(super) fn count(&mut self, operation: &Operation) {
        let kind = match operation {
            Operation::Acquire { .. } if operation.script_name().is_none() => &mut self.acquire,
            Operation::Acquire { .. } => &mut self.acquire_or_report,
            Operation::Extend { .. } | Operation::Exchange { .. } => &mut self.extend,
            Operation::Release { .. } => &mut self.release,
            _ => &mut self.other,
        };
        *kind += 1;
    }
}
