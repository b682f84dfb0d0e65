//! `FileLock`: the lock itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::custom::{self, MaxWait};
use lock_core::runtime::{Runtime, ambient};
use lock_core::{
    AcquireError, Contended, DistributedLock, LockGuard, LockRequest, NodeError, NodeReport,
    NodeReports, NodeVote, Token, Unavailable,
};

use crate::held::HeldFile;
use crate::lease::{Lease, LeaseFile, now};

const TTL: Duration = Duration::from_secs(30);
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A file is locked for microseconds, unless a process was stopped just then.
const MAX_BUSY: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Locks for the processes that share a directory on one machine.
#[derive(Debug)]
pub(crate) struct FileLock {
    dir: PathBuf,
}

/// What one attempt came to, if nothing went wrong.
enum Attempt {
    Granted(LockGuard),
    Held(Lease),
}

impl FileLock {
    /// Makes the directory, if there is none yet.
    pub(crate) fn new(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// A file for each resource, whatever its bytes and its length.
    fn path(&self, resource: &[u8]) -> PathBuf {
        self.dir
            .join(sha1_smol::Sha1::from(resource).digest().to_string())
    }

    async fn attempt(
        &self,
        request: &LockRequest,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<Attempt, AcquireError> {
        let ttl = custom::validate(request, TTL)?;
        let path = self.path(request.resource());
        let mut file = open(&path, &**runtime)
            .await
            .map_err(|error| self.failed(error))?;
        // There is no `await` from here on: a dropped call has either set nothing or is complete.
        let now = now();
        if let Some(lease) = file.read(now).map_err(|error| self.failed(error))? {
            return Ok(Attempt::Held(lease));
        }
        let lease = Lease {
            token: Token::generate(&**runtime).to_string(),
            until: now + ttl.as_duration(),
            ttl: ttl.as_duration(),
        };
        file.write(Some(&lease))
            .map_err(|error| self.failed(error))?;
        let keep_until = now + request.options().hold_at_least;
        let held = HeldFile::new(path, request.resource(), lease, keep_until);
        let guard = custom::guard_with_auto_extend(held, request, ttl, runtime)?;
        Ok(Attempt::Granted(guard))
    }

    /// One resource, without waiting for a holder.
    async fn try_one(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        match self.attempt(request, &ambient()).await? {
            Attempt::Granted(guard) => Ok(Some(guard)),
            Attempt::Held(_) => Ok(None),
        }
    }

    /// The directory is out of order: that is an outage, and no sign of a holder.
    fn failed(&self, error: io::Error) -> AcquireError {
        let mut unavailable = Unavailable::default();
        unavailable.attempts = 1;
        unavailable.quorum = 1;
        unavailable.nodes = reports(&self.dir.display().to_string(), error);
        AcquireError::Unavailable(unavailable)
    }

    /// One resource, waiting for its holder.
    async fn one(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        let runtime = ambient();
        let start = runtime.now();
        let max_wait = request.options().max_wait;
        let max_wait = max_wait.map_or(Some(MAX_WAIT), MaxWait::limit);
        let retry = request.options().retry.unwrap_or_default();
        let mut attempts = 0;
        loop {
            let attempt = self.attempt(request, &runtime).await;
            attempts += 1;
            let waited = runtime.now().saturating_sub(start);
            let left = max_wait.map(|max_wait| max_wait.saturating_sub(waited));
            let is_over = left.is_some_and(|left| left.is_zero());
            match attempt {
                Ok(Attempt::Granted(guard)) => return Ok(guard),
                Ok(Attempt::Held(lease)) if is_over || request.options().fail_if_held => {
                    return Err(contended(&lease, waited, attempts));
                }
                Err(error @ AcquireError::Invalid(_)) => return Err(error),
                Err(error) if is_over || request.options().fail_if_unavailable => {
                    return Err(error);
                }
                Ok(Attempt::Held(_)) | Err(_) => {}
            }
            let chance = f64::from(runtime.random()[0]) / 256.0;
            let pause = custom::pause(&retry, attempts, chance);
            runtime
                .sleep(left.map_or(pause, |left| pause.min(left)))
                .await;
        }
    }
}

#[async_trait]
impl DistributedLock for FileLock {
    async fn try_acquire(&self, request: &LockRequest) -> Result<Option<LockGuard>, AcquireError> {
        custom::validate(request, TTL)?;
        let mut guards = Vec::new();
        for request in custom::one_by_one(request) {
            match self.try_one(&request).await? {
                Some(guard) => guards.push(guard),
                // Those that were acquired are released as they are dropped.
                None => return Ok(None),
            }
        }
        Ok(Some(custom::join(guards)))
    }

    async fn acquire(&self, request: &LockRequest) -> Result<LockGuard, AcquireError> {
        custom::validate(request, TTL)?;
        let (runtime, mut guards) = (ambient(), Vec::new());
        let start = runtime.now();
        let max_wait = request.options().max_wait;
        let max_wait = max_wait.map_or(Some(MAX_WAIT), MaxWait::limit);
        for request in custom::one_by_one(request) {
            let waited = runtime.now().saturating_sub(start);
            let left = max_wait.map(|max_wait| max_wait.saturating_sub(waited));
            guards.push(self.one(&request.max_wait(left)).await?);
        }
        Ok(custom::join(guards))
    }
}

/// Opens and locks a file; another process that has it locked is waited for, for a while.
pub(crate) async fn open(path: &Path, runtime: &dyn Runtime) -> io::Result<LeaseFile> {
    let end = runtime.now() + MAX_BUSY;
    loop {
        if let Some(file) = LeaseFile::try_open(path)? {
            return Ok(file);
        }
        if runtime.now() >= end {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the file stays locked",
            ));
        }
        runtime.sleep(BUSY_PAUSE).await;
    }
}

fn contended(lease: &Lease, waited: Duration, attempts: u32) -> AcquireError {
    let mut contended = Contended::default();
    contended.waited = waited;
    contended.attempts = attempts;
    contended.holder = Some(lease.token.clone().into_bytes());
    contended.holder_ttl = Some(lease.until.saturating_sub(now()));
    AcquireError::Contended(contended)
}

/// What went wrong, in the form that all locks use: the directory stands for the one node.
pub(crate) fn reports(label: &str, error: io::Error) -> NodeReports {
    let failed = NodeError::connection("the lease file cannot be used").with_source(error);
    NodeReports::from(vec![NodeReport::new(label, NodeVote::Failed(failed))])
}
