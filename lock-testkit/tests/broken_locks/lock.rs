//! A lock with a bug: Redlock, and what is wrong around it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::custom;
use lock_core::{
    AcquireError, Contended, DistributedLock, LockGuard, LockRequest, Redlock, Runtime, Unavailable,
};
use lock_testkit::MemoryNode;
use tokio::runtime::{Handle, Id};

use crate::guard::{self, BrokenHeld};
use crate::mutants::Bug;
use crate::node::BrokenNode;
use crate::{errors, requests};

#[derive(Debug)]
pub(crate) struct BrokenLock {
    bug: Bug,
    inner: Redlock<BrokenNode>,
    nodes: Vec<MemoryNode>,
    runtime: Arc<dyn Runtime>,
    instance: usize,
    tries: AtomicUsize,
    had_an_outage: AtomicBool,
    /// What this instance has locked, for the bug that lets it in again.
    held: Arc<Mutex<HashSet<Vec<u8>>>>,
    first_runtime: OnceLock<Option<Id>>,
}

impl BrokenLock {
    pub(crate) fn new(
        bug: Bug,
        inner: Redlock<BrokenNode>,
        nodes: &[MemoryNode],
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        static INSTANCES: AtomicUsize = AtomicUsize::new(0);
        Self {
            bug,
            inner,
            nodes: nodes.to_vec(),
            runtime,
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            tries: AtomicUsize::new(0),
            had_an_outage: AtomicBool::new(false),
            held: Arc::default(),
            first_runtime: OnceLock::new(),
        }
    }

    /// What goes wrong before the nodes are asked.
    async fn before(&self) -> Result<(), AcquireError> {
        let outage = || Err(AcquireError::Unavailable(Unavailable::default()));
        if self.bug == Bug::OneRuntimeOnly {
            let current = Handle::try_current().ok().map(|handle| handle.id());
            if *self.first_runtime.get_or_init(|| current) != current {
                return outage();
            }
        }
        if self.bug == Bug::BrokenForGood && self.had_an_outage.load(Ordering::SeqCst) {
            return outage();
        }
        if self.bug == Bug::InputCheckedLate {
            drop(self.inner.try_acquire(&LockRequest::new("probe")).await?);
        }
        Ok(())
    }

    /// What goes wrong after they have answered.
    async fn after(
        &self,
        asked: &LockRequest,
        made: &LockRequest,
        acquired: Result<LockGuard, AcquireError>,
    ) -> Result<LockGuard, AcquireError> {
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) => {
                if matches!(error, AcquireError::Unavailable(_)) {
                    self.had_an_outage.store(true, Ordering::SeqCst);
                    if self.bug == Bug::FailedStays {
                        guard::plant(&self.nodes, made.resource());
                    }
                }
                return Err(errors::acquire(self.bug, error));
            }
        };
        if self.bug == Bug::WaitsForAllNodes {
            while guard.votes().granted < guard.votes().nodes {
                self.runtime.sleep(Duration::from_millis(5)).await;
            }
        }
        if self.bug == Bug::Reentrant {
            self.held.lock().unwrap().insert(made.resource().to_vec());
        }
        Ok(self.guard(asked, made, guard))
    }

    fn guard(&self, asked: &LockRequest, made: &LockRequest, guard: LockGuard) -> LockGuard {
        let (bug, nodes, runtime) = (self.bug, self.nodes.clone(), Arc::clone(&self.runtime));
        let mut held = BrokenHeld::new(bug, nodes, runtime, asked, made, guard);
        held.of_instance = Arc::clone(&self.held);
        custom::guard(held)
    }

    /// Takes several one after the other as they come.
    async fn in_the_order_given(&self, asked: &LockRequest) -> Result<LockGuard, AcquireError> {
        let mut guards = Vec::new();
        for name in asked.resources() {
            let request = LockRequest::new(name).max_wait(None);
            guards.push(self.inner.acquire(&request).await?);
            self.runtime.sleep(Duration::from_millis(1)).await;
        }
        let first = guards.swap_remove(0);
        let (bug, nodes, runtime) = (self.bug, self.nodes.clone(), Arc::clone(&self.runtime));
        let held = BrokenHeld::new(bug, nodes, runtime, asked, asked, first);
        held.others.lock().unwrap().extend(guards);
        Ok(custom::guard(held))
    }

    /// A second guard for who has the lock already.
    async fn again(&self, asked: &LockRequest, made: &LockRequest) -> Option<LockGuard> {
        let is_held = self.held.lock().unwrap().contains(made.resource());
        if self.bug != Bug::Reentrant || !is_held {
            return None;
        }
        let fresh = LockRequest::new(format!("again {:?}", made.resource()));
        let guard = self.inner.acquire(&fresh).await.ok()?;
        Some(self.guard(asked, made, guard))
    }
}

#[async_trait]
impl DistributedLock for BrokenLock {
    async fn try_acquire(&self, asked: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        self.before().await?;
        let made = requests::request(self.bug, asked, self.instance);
        if let Some(guard) = self.again(asked, &made).await {
            return Ok(Some(guard));
        }
        let tries = self.tries.fetch_add(1, Ordering::SeqCst);
        if self.bug == Bug::FreeRefused && tries % 4 == 3 {
            return Ok(None);
        }
        let started = self.runtime.now();
        let is_held = |node: &MemoryNode| node.get(made.resource()).is_some();
        if self.bug == Bug::OneRefusalDecides && self.nodes.iter().any(is_held) {
            return Ok(None);
        }
        let tried = if self.bug == Bug::TryWaits {
            let waiting = made.clone().max_wait(Duration::from_secs(60));
            match self.inner.acquire(&waiting).await {
                Err(AcquireError::Contended(_)) => Ok(None),
                other => other.map(Some),
            }
        } else {
            self.inner.try_acquire(&made).await
        };
        match tried {
            Ok(None) if self.bug == Bug::TryIsContended => {
                Err(AcquireError::Contended(Contended::default()))
            }
            Ok(None)
                if self.bug == Bug::ContentionIsOutage
                    || self.bug == Bug::SlowIsOutage && self.runtime.now() > started =>
            {
                Err(AcquireError::Unavailable(Unavailable::default()))
            }
            Ok(None) => {
                if self.bug == Bug::SeveralPartly && asked.resources().count() > 1 {
                    // The one that was free.
                    let free = asked.resources().filter(|name| *name != b"b");
                    free.for_each(|name| guard::plant(&self.nodes, name));
                }
                Ok(None)
            }
            Err(AcquireError::Unavailable(_)) if self.bug == Bug::OutageIsNone => Ok(None),
            Ok(Some(guard)) => self.after(asked, &made, Ok(guard)).await.map(Some),
            Err(error) => self.after(asked, &made, Err(error)).await.map(Some),
        }
    }

    async fn acquire(&self, asked: &LockRequest) -> Result<LockGuard, AcquireError> {
        self.before().await?;
        let made = requests::request(self.bug, asked, self.instance);
        if let Some(guard) = self.again(asked, &made).await {
            return Ok(guard);
        }
        if self.bug == Bug::SeveralAsGiven && asked.resources().count() > 1 {
            return self.in_the_order_given(asked).await;
        }
        let mut cancelled = Cancelled {
            lock: self,
            key: made.resource(),
            is_over: false,
        };
        if self.bug == Bug::CancelledStays {
            // It has asked the first node and waits for its answer.
            tokio::task::yield_now().await;
        }
        let acquired = if self.bug == Bug::ReleaseNotNoticed {
            loop {
                if let Some(guard) = self.inner.try_acquire(&made).await? {
                    break Ok(guard);
                }
                self.runtime.sleep(Duration::from_secs(600)).await;
            }
        } else {
            self.inner.acquire(&made).await
        };
        cancelled.is_over = true;
        drop(cancelled);
        self.after(asked, &made, acquired).await
    }
}

/// What a call does when it is dropped.
struct Cancelled<'a> {
    lock: &'a BrokenLock,
    key: &'a [u8],
    is_over: bool,
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        match self.lock.bug {
            _ if self.is_over => {}
            Bug::CancelledStays => guard::plant(&self.lock.nodes, self.key),
            Bug::CancelledTakesHolders => guard::remove(&self.lock.nodes, self.key),
            _ => {}
        }
    }
}
