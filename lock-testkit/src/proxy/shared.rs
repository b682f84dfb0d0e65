//! The state that all connections of a proxy share.

use std::time::Instant;

use super::ProxyFault;
use super::record::Record;

#[derive(Default)]
pub(super) struct Shared {
    pub(super) fault: Option<ProxyFault>,
    pub(super) record: Record,
}

impl Shared {
    pub(super) fn is_black_hole(&self) -> bool {
        self.fault == Some(ProxyFault::BlackHole)
    }

    /// Returns when a reply that arrived at `arrival` is to be delivered, or `None` while that is not
    /// known.
    pub(super) fn due(&self, arrival: Instant) -> Option<Instant> {
        match self.fault {
            Some(ProxyFault::Hold) => None,
            Some(ProxyFault::Delay(delay)) => arrival.checked_add(delay),
            _ => Some(arrival),
        }
    }
}
