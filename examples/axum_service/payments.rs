//! The work: charging an order. A database and the payment provider are made up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::LockGuard;

/// An order's id: 1 to 36 letters, digits and hyphens, so that whatever is made of it is harmless.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrderId(String);

impl OrderId {
    pub(crate) fn parse(id: String) -> Option<Self> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        ((1..=36).contains(&id.len()) && id.bytes().all(legal)).then_some(Self(id))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Says that an order is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt(usize);

impl Receipt {
    pub(crate) fn number(self) -> usize {
        self.0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Payments {
    /// In place of a database, which instances share.
    receipts: Arc<Mutex<HashMap<OrderId, Receipt>>>,
    /// How long the provider takes.
    work: Duration,
}

impl Payments {
    pub(crate) fn new(work: Duration) -> Self {
        let receipts = Arc::default();
        Self { receipts, work }
    }

    /// Charges the order, unless that is done already; `None` if the lock is not valid any more.
    /// Only for who holds the order's lock: else two could find that it is not charged yet.
    pub(crate) async fn charge(&self, order: &OrderId, guard: &LockGuard) -> Option<Receipt> {
        if let Some(receipt) = self.receipt(order) {
            return Some(receipt);
        }
        // The provider is told the order's id, so that it too charges no order twice.
        tokio::time::sleep(self.work).await;
        // `with_lock` drops this future when the lock is lost, but only where it waits: so look
        // before each step that must not overlap with another holder's.
        guard.is_valid().then(|| self.record(order))
    }

    pub(crate) fn receipt(&self, order: &OrderId) -> Option<Receipt> {
        self.receipts().get(order).copied()
    }

    /// A database would have the last word here, by a unique key.
    fn record(&self, order: &OrderId) -> Receipt {
        let mut receipts = self.receipts();
        let receipt = Receipt(receipts.len() + 1);
        receipts.insert(order.clone(), receipt);
        receipt
    }

    fn receipts(&self) -> MutexGuard<'_, HashMap<OrderId, Receipt>> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orders_id_is_short_and_harmless() {
        for (id, legal) in [
            ("7", true),
            ("3f2b8a10-0000-4000-8000-00000000000f", true),
            ("", false),
            ("3f2b8a10-0000-4000-8000-00000000000f0", false),
            ("a b", false),
            ("a:b", false),
            ("../7", false),
            ("ü", false),
        ] {
            assert_eq!(OrderId::parse(id.into()).is_some(), legal, "{id:?}");
        }
    }
}
