//! A lock and a runtime that tests script.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::error::{AcquireError, Contended, ExtendError, Loss, ReleaseError};
use crate::guard::LockGuard;
use crate::held::{HeldLock, Votes};
use crate::lease::Lease;
use crate::lock::DistributedLock;
use crate::request::LockRequest;
use crate::runtime::{BoxFuture, Runtime};

/// A wall clock that stands still until a test sets it or somebody sleeps.
#[derive(Debug, Default)]
pub(super) struct FakeClock {
    /// Since the epoch.
    wall: Mutex<Duration>,
    monotonic: Mutex<Duration>,
    sleeps: Mutex<Vec<Duration>>,
    random: Mutex<u32>,
    /// Where the next sleeps leave the clock. Without a script they end in time.
    wakes: Mutex<VecDeque<Duration>>,
}

impl FakeClock {
    pub(super) fn at(millis: u64) -> Arc<Self> {
        let clock = Self::default();
        clock.set(millis);
        Arc::new(clock)
    }

    /// So much time passes; if the clock shows more already, it is set back.
    pub(super) fn set(&self, millis: u64) {
        let to = Duration::from_millis(millis);
        let passed = to.saturating_sub(self.wall());
        *self.monotonic.lock().unwrap() += passed;
        *self.wall.lock().unwrap() = to;
    }

    /// The wall clock is set, and no time passes.
    pub(super) fn jump(&self, millis: u64) {
        *self.wall.lock().unwrap() = Duration::from_millis(millis);
    }

    pub(super) fn set_random(&self, random: u32) {
        *self.random.lock().unwrap() = random;
    }

    fn wall(&self) -> Duration {
        *self.wall.lock().unwrap()
    }

    pub(super) fn wake_at(&self, millis: u64) {
        let mut wakes = self.wakes.lock().unwrap();
        wakes.push_back(Duration::from_millis(millis));
    }

    pub(super) fn sleeps(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.sleeps.lock().unwrap())
    }
}

impl Runtime for FakeClock {
    fn now(&self) -> Duration {
        *self.monotonic.lock().unwrap()
    }

    fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + self.wall()
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.random.lock().unwrap().to_le_bytes());
        bytes
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleeps.lock().unwrap().push(duration);
        let mut wall = self.wall.lock().unwrap();
        let scripted = self.wakes.lock().unwrap().pop_front();
        let wakes = scripted.unwrap_or(*wall + duration);
        *self.monotonic.lock().unwrap() += wakes.saturating_sub(*wall).min(duration);
        *wall = wakes;
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}
}

/// How a [`FakeLock`] answers.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Granted,
    Failed(AcquireError),
    /// Granted, with the clock at so many milliseconds by then.
    GrantedAt(u64, Arc<FakeClock>),
}

/// Gives scripted answers and remembers what it was asked.
#[derive(Debug, Default)]
pub(super) struct FakeLock {
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<LockRequest>>,
    releases: Arc<AtomicUsize>,
}

impl FakeLock {
    pub(super) fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            ..Self::default()
        }
    }

    pub(super) fn failing(error: AcquireError) -> Self {
        Self::answering([Answer::Failed(error)])
    }

    pub(super) fn held_by(holder: Option<&str>) -> Self {
        Self::failing(AcquireError::Contended(Contended {
            holder: holder.map(|holder| holder.as_bytes().to_vec()),
            ..Contended::default()
        }))
    }

    pub(super) fn requests(&self) -> Vec<LockRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn releases(&self) -> usize {
        self.releases.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl DistributedLock for FakeLock {
    async fn try_acquire(&self, _: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        panic!("a claim waits, it does not try")
    }

    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        match answer.expect("no answer scripted") {
            Answer::Failed(error) => return Err(error),
            Answer::GrantedAt(millis, clock) => clock.set(millis),
            Answer::Granted => {}
        }
        Ok(LockGuard::new(FakeHeld {
            resource: request.resource().to_vec(),
            releases: Arc::clone(&self.releases),
        }))
    }
}

#[derive(Debug)]
struct FakeHeld {
    resource: Vec<u8>,
    releases: Arc<AtomicUsize>,
}

#[async_trait]
impl HeldLock for FakeHeld {
    fn resource(&self) -> &[u8] {
        &self.resource
    }

    fn token(&self) -> &str {
        "ours"
    }

    fn fencing_token(&self) -> Option<crate::FencingToken> {
        None
    }

    fn remaining(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn votes(&self) -> Votes {
        Votes::new(1, 1)
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(std::future::pending())
    }

    fn hand_over(&self) -> Option<Lease> {
        None
    }

    async fn extend(&self, _: Duration) -> Result<(), ExtendError> {
        panic!("a claim is never extended")
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        Ok(())
    }

    fn set_scoped(&self, _is_scoped: bool) {}

    fn release_in_background(&self) {
        self.releases.fetch_add(1, Ordering::SeqCst);
    }
}
