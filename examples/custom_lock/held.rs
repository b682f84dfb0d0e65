//! A lease that is held.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use lock_core::custom::HeldLock;
use lock_core::runtime::{BoxFuture, Runtime, ThreadRuntime};
use lock_core::{ExtendError, FencingToken, Loss, ReleaseError, Ttl, Votes};

use crate::file_lock::{open, reports};
use crate::lease::{Lease, LeaseFile, now};

/// What stands behind the guard.
#[derive(Debug)]
pub(crate) struct HeldFile {
    resource: Vec<u8>,
    token: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    token: String,
    keep_until: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    until: Duration,
    /// It was released while it was held.
    released: bool,
    /// What the release came to, once that is certain.
    outcome: Option<Result<(), ReleaseError>>,
}

impl HeldFile {
    pub(crate) fn new(path: PathBuf, resource: &[u8], lease: Lease, keep_until: Duration) -> Self {
        Self {
            resource: resource.to_vec(),
            token: lease.token.clone(),
            shared: Arc::new(Shared {
                path,
                token: lease.token,
                keep_until,
                state: Mutex::new(State {
                    until: lease.until,
                    released: false,
                    outcome: None,
                }),
            }),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remaining(&self) -> Duration {
        let state = self.state();
        if state.released {
            return Duration::ZERO;
        }
        state.until.saturating_sub(now())
    }

    /// Writes a longer lease, if it is still ours; `false` if not.
    fn extend(&self, file: &mut LeaseFile, ttl: Duration) -> io::Result<bool> {
        let now = now();
        let Some(lease) = file.read(now)?.filter(|lease| lease.token == self.token) else {
            return Ok(false);
        };
        let until = lease.until.max(now + ttl);
        let ttl = lease.ttl.max(ttl);
        file.write(Some(&Lease {
            until,
            ttl,
            ..lease
        }))?;
        self.state().until = until;
        Ok(true)
    }

    /// Ends the lease, or shortens it to what `hold_at_least` asks for; `false` if it is not ours.
    fn release(&self, file: &mut LeaseFile) -> io::Result<bool> {
        let now = now();
        let Some(lease) = file.read(now)?.filter(|lease| lease.token == self.token) else {
            return Ok(false);
        };
        let kept = (self.keep_until > now).then(|| Lease {
            until: lease.until.min(self.keep_until),
            ..lease
        });
        file.write(kept.as_ref())?;
        Ok(true)
    }

    async fn release_once(&self, runtime: &dyn Runtime) -> Result<(), ReleaseError> {
        let released = {
            let mut file = match open(&self.path, runtime).await {
                Ok(file) => file,
                Err(error) => return Err(self.unavailable(error)),
            };
            // Of two releases at a time the second finds the answer of the first.
            if let Some(outcome) = self.state().outcome.clone() {
                return outcome;
            }
            self.release(&mut file)
        };
        let outcome = match released {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReleaseError::NotHeld),
            Err(error) => return Err(self.unavailable(error)),
        };
        self.state().outcome = Some(outcome.clone());
        outcome
    }

    fn unavailable(&self, error: io::Error) -> ReleaseError {
        ReleaseError::Unavailable {
            quorum: 1,
            nodes: reports(&self.path.display().to_string(), error),
        }
    }

    /// Releases on a thread of its own, whatever becomes of the caller and of his runtime.
    fn start_release(self: &Arc<Self>) -> oneshot::Receiver<Result<(), ReleaseError>> {
        {
            let mut state = self.state();
            state.released |= state.until > now();
            state.until = state.until.min(now());
        }
        let (sender, receiver) = oneshot::channel();
        let (shared, runtime) = (Arc::clone(self), ThreadRuntime::shared());
        let on = Arc::clone(&runtime);
        runtime.spawn(Box::pin(async move {
            // Nobody listens if the guard was dropped.
            sender.send(shared.release_once(&*on).await).ok();
        }));
        receiver
    }
}

#[async_trait]
impl HeldLock for HeldFile {
    fn resource(&self) -> &[u8] {
        &self.resource
    }

    fn token(&self) -> &str {
        &self.token
    }

    /// `custom::validate` has refused requests for one.
    fn fencing_token(&self) -> Option<FencingToken> {
        None
    }

    fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    fn votes(&self) -> Votes {
        Votes::new(1, 1)
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            loop {
                let left = shared.remaining();
                if shared.state().released {
                    return pending().await;
                }
                if left.is_zero() {
                    return Loss::Expired;
                }
                // It may have been extended when this time is over.
                ThreadRuntime::shared().sleep(left).await;
            }
        })
    }

    fn hand_over(&self) -> Option<lock_core::Lease> {
        // Nobody could make a guard of it again: that takes a method of the lock's own.
        None
    }

    async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        let ttl = Ttl::new(ttl)?.as_duration();
        let opened = open(&self.shared.path, &*ThreadRuntime::shared()).await;
        if self.shared.remaining().is_zero() {
            return Err(ExtendError::Lost);
        }
        match opened.and_then(|mut file| self.shared.extend(&mut file, ttl)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ExtendError::Lost),
            Err(error) => Err(ExtendError::Unavailable {
                quorum: 1,
                nodes: reports(&self.shared.path.display().to_string(), error),
            }),
        }
    }

    async fn release(&self) -> Result<(), ReleaseError> {
        match self.shared.start_release().await {
            Ok(outcome) => outcome,
            Err(_) => Err(self
                .shared
                .unavailable(io::Error::other("the release was given up"))),
        }
    }

    fn set_scoped(&self, _is_scoped: bool) {
        // It cannot be shut down.
    }

    fn release_in_background(&self) {
        if !self.shared.state().released {
            drop(self.shared.start_release());
        }
    }
}
