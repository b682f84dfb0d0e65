//! The same in a database: one statement compares and writes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use examples::BoxError;
use lock_core::FencingToken;
use rusqlite::{Connection, params};

use crate::store::{Store, Written};

/// A table in SQLite. Any database that runs a statement as one step will do.
pub(crate) struct SqliteStore(Mutex<Connection>);

impl SqliteStore {
    /// A database in memory, with the one invoice.
    pub(crate) fn open() -> Result<Self, BoxError> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE TABLE invoices (id INTEGER PRIMARY KEY, paid_by TEXT NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO invoices VALUES (7, '', 0);",
        )?;
        Ok(Self(Mutex::new(connection)))
    }

    /// A connection is for one thread at a time. Threads could just as well have one each.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for SqliteStore {
    fn pay(&self, who: &str, token: FencingToken) -> Result<Written, BoxError> {
        let connection = self.connection();
        // Tokens fit into the 64 bits with a sign that databases have: see `FencingToken::MAX`.
        let fence = i64::try_from(token.get())?;
        let update = "UPDATE invoices SET paid_by = ?1, fence = ?2 WHERE id = 7 AND fence <= ?2";
        if connection.execute(update, params![who, fence])? == 1 {
            return Ok(Written::Yes);
        }
        let largest: i64 =
            connection.query_row("SELECT fence FROM invoices WHERE id = 7", [], |row| {
                row.get(0)
            })?;
        let largest = FencingToken::new(u64::try_from(largest)?);
        Ok(Written::TooLate { largest })
    }

    fn paid_by(&self) -> Result<String, BoxError> {
        let query = "SELECT paid_by FROM invoices WHERE id = 7";
        Ok(self.connection().query_row(query, [], |row| row.get(0))?)
    }
}
