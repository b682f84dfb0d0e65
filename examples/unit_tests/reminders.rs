//! The application: it reminds customers by mail, and no customer twice; and it counts the mails each
//! second, once, whatever the number of its instances.
//!
//! Nothing here knows of Redis or of tests. It takes an `Arc<dyn DistributedLock>`, and whoever makes
//! it decides what that is: a `Redlock` over servers in `main`, one over `MemoryNode`s in tests.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::tick::{Tick, TickJob};
use lock_core::{AcquireError, DistributedLock, DistributedLockExt, LockRequest, WithLockError};

/// How long others wait if this process crashes while it holds the lock.
const TTL: Duration = Duration::from_secs(10);

/// How long a person waits for one mail.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of a round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Round {
    AllSent,
    /// Another instance is sending, so this one has nothing to do.
    Skipped,
    /// The lock was lost half-way; perhaps another instance goes on with it now.
    StoppedAfter(usize),
}

#[derive(Debug)]
pub(crate) struct Reminders {
    locks: Arc<dyn DistributedLock>,
    mailbox: Mailbox,
}

impl Reminders {
    pub(crate) fn new(locks: Arc<dyn DistributedLock>, mailbox: Mailbox) -> Self {
        Self { locks, mailbox }
    }

    /// Sends a round, unless another instance does.
    pub(crate) async fn send_all(&self, customers: &[&str]) -> Result<Round, AcquireError> {
        let request = LockRequest::new("reminders").ttl(TTL).auto_extend(true);
        let Some(guard) = self.locks.try_lock(request).await? else {
            return Ok(Round::Skipped);
        };
        let mut lost = guard.lost();
        for (sent, customer) in customers.iter().enumerate() {
            tokio::select! {
                biased;
                _ = &mut lost => return Ok(Round::StoppedAfter(sent)),
                () = self.mailbox.send(customer) => {}
            }
        }
        // All is sent, whatever comes of the release: if it fails, the ttl ends the lock.
        guard.release().await.ok();
        Ok(Round::AllSent)
    }

    /// Notes each second how many mails were sent, on one of the instances, until the lock is shut down.
    pub(crate) async fn count_forever(&self, counts: &Counts) -> Result<(), Box<dyn Error>> {
        let job = TickJob::every("count", Duration::from_secs(1)).build()?;
        let count = async |tick| counts.note(tick, self.mailbox.sent().len());
        Ok(job.run_forever(&self.locks, count).await?)
    }

    /// Sends one mail at once, after a round that is under way.
    pub(crate) async fn send_now(&self, customer: &str) -> Result<(), WithLockError<()>> {
        let request = LockRequest::new("reminders").ttl(TTL).max_wait(PATIENCE);
        let send = async |_: &_| self.mailbox.send(customer).await;
        self.locks.with_lock(request, send).await
    }
}

/// A mail server that takes a second for each mail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox {
    sent: Arc<Mutex<Vec<String>>>,
}

impl Mailbox {
    async fn send(&self, customer: &str) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.push(customer.to_owned());
    }

    /// To whom mails were sent, in order.
    pub(crate) fn sent(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.clone()
    }
}

/// How many mails were sent by which second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<Vec<(Tick, usize)>>>);

impl Counts {
    fn note(&self, tick: Tick, count: usize) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.push((tick, count));
    }

    pub(crate) fn all(&self) -> Vec<(Tick, usize)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }
}
