//! What the lock protects, and what it has to do for fencing: compare and set in one step.

use std::sync::{Mutex, MutexGuard, PoisonError};

use examples::BoxError;
use lock_core::FencingToken;

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// Somebody with a larger token has written before.
    TooLate {
        largest: FencingToken,
    },
}

/// An invoice that is paid by whoever has the lock.
pub(crate) trait Store: Send + Sync {
    /// Writes who pays, unless a larger token was seen before.
    fn pay(&self, who: &str, token: FencingToken) -> Result<Written, BoxError>;

    /// Reads who has paid; nobody at first.
    fn paid_by(&self) -> Result<String, BoxError>;
}

/// A store in this process. Its mutex makes one step of the comparison and the write.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<Row>);

#[derive(Default)]
struct Row {
    paid_by: String,
    largest: Option<FencingToken>,
}

impl MemoryStore {
    fn row(&self) -> MutexGuard<'_, Row> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn pay(&self, who: &str, token: FencingToken) -> Result<Written, BoxError> {
        let mut row = self.row();
        match row.largest {
            Some(largest) if token < largest => Ok(Written::TooLate { largest }),
            _ => {
                // The same token again is the same holder.
                row.largest = Some(token);
                who.clone_into(&mut row.paid_by);
                Ok(Written::Yes)
            }
        }
    }

    fn paid_by(&self) -> Result<String, BoxError> {
        Ok(self.row().paid_by.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses_smaller_tokens(store: &dyn Store) {
        let token = FencingToken::new;
        let largest = token(7);
        let pay = |who, number| store.pay(who, token(number)).expect("the store works");
        assert_eq!(pay("first", 5), Written::Yes);
        assert_eq!(pay("second", 7), Written::Yes);
        assert_eq!(pay("second again", 7), Written::Yes);
        assert_eq!(pay("first again", 6), Written::TooLate { largest });
        assert_eq!(store.paid_by().expect("the store works"), "second again");
    }

    #[test]
    fn a_store_in_memory_refuses_smaller_tokens() {
        refuses_smaller_tokens(&MemoryStore::default());
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_database_refuses_smaller_tokens() {
        let store = crate::sqlite::SqliteStore::open().expect("a database in memory");
        refuses_smaller_tokens(&store);
    }
}
