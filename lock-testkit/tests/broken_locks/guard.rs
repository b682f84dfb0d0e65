//! A held lock with a bug.

use std::collections::HashSet;
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::custom::HeldLock;
use lock_core::runtime::BoxFuture;
use lock_core::{
    ExtendError, FencingToken, Lease, LockGuard, LockRequest, Loss, ReleaseError, Runtime, Votes,
};
use lock_testkit::MemoryNode;
use tokio::runtime::Handle;

use crate::mutants::Bug;
use crate::{errors, requests};

/// Leaves a key behind that nobody will remove.
pub(crate) fn plant(nodes: &[MemoryNode], key: &[u8]) {
    for node in nodes {
        node.set_foreign(key, "left behind");
    }
}

/// Removes a key, whoever has it.
pub(crate) fn remove(nodes: &[MemoryNode], key: &[u8]) {
    for node in nodes {
        node.remove(key);
    }
}

fn expire(nodes: &[MemoryNode], key: &[u8], ttl: Duration) {
    for node in nodes {
        node.expire(key, ttl);
    }
}

#[derive(Debug)]
pub(crate) struct BrokenHeld {
    bug: Bug,
    nodes: Vec<MemoryNode>,
    runtime: Arc<dyn Runtime>,
    inner: Arc<LockGuard>,
    resource: Vec<u8>,
    key: Vec<u8>,
    ttl: Duration,
    hold: Duration,
    /// When the lock was acquired, and when that was noticed by a wrong clock.
    acquired: Duration,
    /// A validity that was made up.
    claimed_until: Mutex<Duration>,
    is_over: AtomicBool,
    was_released: Arc<AtomicBool>,
    /// Gone when the runtime has ended.
    pulse: Weak<()>,
    pub(crate) of_instance: Arc<Mutex<HashSet<Vec<u8>>>>,
    /// What is held along with it.
    pub(crate) others: Mutex<Vec<LockGuard>>,
}

impl BrokenHeld {
    pub(crate) fn new(
        bug: Bug,
        nodes: Vec<MemoryNode>,
        runtime: Arc<dyn Runtime>,
        asked: &LockRequest,
        made: &LockRequest,
        inner: LockGuard,
    ) -> Self {
        let ttl = made.options().ttl.unwrap_or(Duration::from_secs(30));
        let key = made.resource().to_vec();
        match bug {
            Bug::KeysForEver => nodes
                .iter()
                .for_each(|node| node.set_foreign(&key, inner.token())),
            Bug::KeysTooShort => expire(&nodes, &key, ttl / 4),
            _ => {}
        }
        let mut pulse = Weak::new();
        if bug == Bug::DropNeedsLiveRuntime
            && let Ok(handle) = Handle::try_current()
        {
            let beat = Arc::new(());
            pulse = Arc::downgrade(&beat);
            handle.spawn(async move {
                std::future::pending::<()>().await;
                drop(beat);
            });
        }
        Self {
            bug,
            nodes,
            acquired: runtime.now(),
            runtime,
            inner: Arc::new(inner),
            resource: asked.resource().to_vec(),
            key,
            ttl,
            hold: made.options().hold_at_least,
            claimed_until: Mutex::default(),
            is_over: AtomicBool::new(false),
            was_released: Arc::default(),
            pulse,
            of_instance: Arc::default(),
            others: Mutex::default(),
        }
    }

    fn claim(&self, ttl: Duration) {
        *self.claimed_until.lock().unwrap() = self.runtime.now() + ttl;
    }

    /// A release that never happens.
    fn forget(&self) {
        mem::forget(Arc::clone(&self.inner));
    }

    async fn extend_inner(&self, ttl: Duration) -> Result<(), ExtendError> {
        let extended = self.inner.extend(requests::ttl(self.bug, ttl)).await;
        extended.map_err(|error| errors::extend(self.bug, error))
    }
}

#[async_trait]
impl HeldLock for BrokenHeld {
    fn resource(&self) -> &[u8] {
        match self.bug {
            Bug::ResourceForgotten => b"lock",
            _ => &self.resource,
        }
    }

    fn token(&self) -> &str {
        match self.bug {
            Bug::TokenReused => "token",
            _ => self.inner.token(),
        }
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        match self.bug {
            Bug::FencingForgotten => None,
            Bug::FencingStandsStill => self.inner.fencing_token().map(|_| FencingToken::new(7)),
            _ => self.inner.fencing_token(),
        }
    }

    fn remaining(&self) -> Duration {
        let now = self.runtime.now();
        if self.is_over.load(Ordering::SeqCst) {
            return Duration::ZERO;
        }
        let claimed = *self.claimed_until.lock().unwrap();
        let inner = self.inner.remaining().max(claimed.saturating_sub(now));
        let since = now.saturating_sub(self.acquired);
        let was_released = self.was_released.load(Ordering::SeqCst);
        match self.bug {
            Bug::NeverInvalid if !was_released => self.ttl,
            Bug::ValidTooLong if !was_released => (2 * self.ttl).saturating_sub(since),
            Bug::ValidFromReply if !was_released => self.ttl.saturating_sub(since),
            Bug::ValidTooShort => (self.ttl / 4).saturating_sub(since),
            Bug::ValidDuringRelease if !was_released => self.ttl.saturating_sub(since),
            Bug::ExtendShortens if !claimed.is_zero() => claimed.saturating_sub(now),
            _ => inner,
        }
    }

    fn votes(&self) -> Votes {
        self.inner.votes()
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        let inner = self.inner.lost();
        let sleep = self.runtime.sleep(self.ttl);
        match self.bug {
            Bug::LostNeverEnds => Box::pin(std::future::pending()),
            Bug::LostAtFirstTtl | Bug::LostWhenReleased => Box::pin(async move {
                sleep.await;
                Loss::Expired
            }),
            Bug::LateReleaseIsNoLoss => {
                let (is_released, mut inner) = (Arc::clone(&self.was_released), inner);
                Box::pin(poll_fn(move |cx| {
                    if is_released.load(Ordering::SeqCst) {
                        return Poll::Pending;
                    }
                    inner.as_mut().poll(cx)
                }))
            }
            _ => inner,
        }
    }

    fn hand_over(&self) -> Option<Lease> {
        None
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        match self.bug {
            Bug::ExtendsNothing => return Ok(()),
            Bug::ExtendsGuardAlone => {
                self.claim(ttl);
                return Ok(());
            }
            Bug::ExtendIsAlwaysLost => return Err(ExtendError::Lost),
            _ => {}
        }
        let extended = self.extend_inner(ttl).await;
        match (self.bug, extended) {
            (Bug::BadTtlReleases, Err(error @ ExtendError::Invalid(_))) => {
                drop(self.inner.release().await);
                Err(error)
            }
            (Bug::ExtendShortens, Ok(())) => {
                expire(&self.nodes, &self.key, ttl);
                self.claim(ttl);
                Ok(())
            }
            (Bug::ExtendIsAlwaysOk, Err(ExtendError::Lost)) => Ok(()),
            (Bug::ExtendRevives, Err(ExtendError::Lost)) => {
                plant(&self.nodes, &self.key);
                self.claim(ttl);
                Ok(())
            }
            (Bug::ExtendTakesSuccessors, Err(ExtendError::Lost)) => {
                plant(&self.nodes, &self.key);
                expire(&self.nodes, &self.key, ttl);
                Err(ExtendError::Lost)
            }
            (Bug::OutageEndsValidity, Err(error @ ExtendError::Unavailable { .. })) => {
                self.is_over.store(true, Ordering::SeqCst);
                Err(error)
            }
            (Bug::OutageExtends, Err(error @ ExtendError::Unavailable { .. })) => {
                self.claim(ttl);
                Err(error)
            }
            (_, extended) => extended,
        }
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        let is_first = match self.bug {
            Bug::DroppedReleaseEnds => {
                self.is_over.store(true, Ordering::SeqCst);
                tokio::task::yield_now().await;
                true
            }
            Bug::ValidDuringRelease => {
                tokio::task::yield_now().await;
                !self.was_released.swap(true, Ordering::SeqCst)
            }
            _ => !self.was_released.swap(true, Ordering::SeqCst),
        };
        self.of_instance.lock().unwrap().remove(&self.key);
        self.others.lock().unwrap().clear();
        let now = self.runtime.now();
        let released = match self.bug {
            Bug::ReleasesNothing | Bug::ExtendedForEver => {
                self.is_over.store(true, Ordering::SeqCst);
                self.forget();
                return Ok(());
            }
            Bug::HoldFromRelease => {
                self.is_over.store(true, Ordering::SeqCst);
                expire(&self.nodes, &self.key, self.hold);
                self.forget();
                return Ok(());
            }
            _ => self.inner.release().await,
        };
        match (self.bug, released) {
            (Bug::SecondIsNotHeld, Ok(())) if !is_first => Err(ReleaseError::NotHeld),
            (Bug::ReleaseIsAlwaysOk, _) => Ok(()),
            (Bug::ReleaseTakesSuccessors, Err(ReleaseError::NotHeld)) => {
                remove(&self.nodes, &self.key);
                Err(ReleaseError::NotHeld)
            }
            (Bug::HoldNeverEnds, released) => {
                if now < self.acquired + self.hold {
                    plant(&self.nodes, &self.key);
                }
                released
            }
            (Bug::OutageReleases, Err(ReleaseError::Unavailable { .. })) => Ok(()),
            (Bug::ReleaseNotRepeated, Err(error @ ReleaseError::Unavailable { .. })) => {
                plant(&self.nodes, &self.key);
                Err(error)
            }
            (bug, released) => released.map_err(|error| errors::release(bug, error)),
        }
    }

    fn set_scoped(&self, _is_scoped: bool) {}

    fn release_in_background(&self) {
        let is_on_thread = Handle::try_current().is_err();
        match self.bug {
            Bug::DropsNothing => self.forget(),
            Bug::DropForgetsOnThread if is_on_thread => self.forget(),
            Bug::ExtendedForEver => self.forget(),
            Bug::DropForgetsInPanic if std::thread::panicking() => self.forget(),
            Bug::DropNeedsRuntime if is_on_thread => panic!("there is no runtime"),
            Bug::DropNeedsLiveRuntime if self.pulse.strong_count() == 0 => {
                panic!("the runtime has ended")
            }
            Bug::DropTakesSuccessors | Bug::HoldIgnoredByDrop => {
                remove(&self.nodes, &self.key);
            }
            _ => {}
        }
        self.of_instance.lock().unwrap().remove(&self.key);
        // The inner guard is dropped next, and releases.
    }
}
