//! The second process of a check, seen from inside: the same program, started again to play a part.

use std::convert::Infallible;
use std::env;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use lock_core::{DistributedLock, DistributedLockExt, LockRequest, ReleaseError};

use super::harness::LockHarness;
use crate::conformance::failure::chain;
use crate::conformance::{CheckResult, Failure, TestCase};

/// The variable that tells a process that it is a child, and its part.
pub(super) const PART: &str = "LOCK_TESTKIT_CHILD";

/// The variable with the address of the parent's world.
pub(super) const WORLD: &str = "LOCK_TESTKIT_WORLD";

/// The variable with the number of the call of `run_all` that asked for the child.
pub(super) const RUN: &str = "LOCK_TESTKIT_RUN";

/// The mark before the words of a child: a test runner prints other things too.
pub(super) const SAYS: &str = "lock-testkit child: ";

/// The name that children lock.
pub(crate) const NAME: &str = "shared by processes";

/// How a child is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Again {
    /// It cannot be started.
    Nothing,
    /// As this one test.
    Test(TestCase),
    /// As the whole program, which comes to the same call of `run_all`.
    Program(usize),
}

/// The part that a child plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Acquires the lock with this ttl, and keeps it until it is killed.
    Hold(Duration),
    /// Says that it is ready, waits for a word, and then adds one to the number in a file, this many
    /// times, each time under the lock.
    Count(u32, PathBuf),
}

impl Part {
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Hold(ttl) => format!("hold {}", ttl.as_millis()),
            Self::Count(times, path) => format!("count {times} {}", path.display()),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        let (verb, rest) = text.split_once(' ')?;
        match verb {
            "hold" => Some(Self::Hold(Duration::from_millis(rest.parse().ok()?))),
            "count" => {
                let (times, path) = rest.split_once(' ')?;
                Some(Self::Count(times.parse().ok()?, PathBuf::from(path)))
            }
            _ => None,
        }
    }
}

impl Again {
    /// For the next call of `run_all`.
    pub(crate) fn program() -> Self {
        static RUNS: AtomicUsize = AtomicUsize::new(1);
        Self::Program(RUNS.fetch_add(1, Ordering::SeqCst))
    }

    /// If this process is a child, plays its part and ends the process. Returns whether it is a child
    /// that is meant for a later call.
    pub(crate) fn play_child(self, harness: &Arc<dyn LockHarness>) -> bool {
        let (Ok(part), Ok(world)) = (env::var(PART), env::var(WORLD)) else {
            return false;
        };
        if let Self::Program(run) = self
            && env::var(RUN) != Ok(run.to_string())
        {
            return true;
        }
        let go = listen_to_the_parent();
        let driver = harness.driver();
        let mut played = Err(Failure::new("an end", "none"));
        let slot = &mut played;
        driver.block_on(Box::pin(async move {
            *slot = match Part::from_text(&part) {
                Some(part) => play(&**harness, &world, part, go).await,
                None => Err(Failure::new("a part to play", part)),
            };
        }));
        let Err(failure) = played;
        say(&format!("failed: {failure}"));
        process::exit(1)
    }
}

/// Plays a part and waits for the end; returns only if that fails.
async fn play(
    harness: &dyn LockHarness,
    world: &str,
    part: Part,
    go: oneshot::Receiver<()>,
) -> CheckResult<Infallible> {
    let lock = harness.join(world).await?;
    match part {
        Part::Hold(ttl) => {
            let _guard = acquired(&lock, LockRequest::new(NAME).ttl(ttl)).await?;
            say("held");
            std::future::pending().await
        }
        Part::Count(times, path) => {
            let runtime = harness.driver().runtime();
            say("ready");
            go.await
                .map_err(|error| Failure::setup("wait for the parent", &error))?;
            for _ in 0..times {
                let guard = acquired(&lock, LockRequest::new(NAME)).await?;
                let count = read_count(&path)?;
                // Long enough for two processes to meet, although one of them starts later.
                runtime.sleep(Duration::from_millis(5)).await;
                write_count(&path, count + 1)?;
                // An outage, which a busy machine is enough for, is made up for when the guard is dropped.
                if let Err(error @ ReleaseError::NotHeld) = guard.release().await {
                    return Err(Failure::new("a release", chain(&error)));
                }
            }
            say("done");
            std::future::pending().await
        }
    }
}

async fn acquired(
    lock: &Arc<dyn DistributedLock>,
    request: LockRequest,
) -> CheckResult<lock_core::LockGuard> {
    let guard = lock.lock(request.max_wait(None)).await;
    guard.map_err(|error| Failure::new("a guard", chain(&error)))
}

pub(crate) fn read_count(path: &Path) -> CheckResult<u64> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Failure::setup("read a counter", &error))?;
    let count = text.trim().parse();
    count.map_err(|error| Failure::setup("read a number", &error))
}

/// Writes a fixed number of digits over those in the file, so that a broken lock makes the count
/// wrong, but does not break the file.
pub(crate) fn write_count(path: &Path, count: u64) -> CheckResult {
    let options = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let written = options.and_then(|mut file| file.write_all(format!("{count:020}").as_bytes()));
    written.map_err(|error| Failure::setup("write a counter", &error))
}

/// Says something to the parent. A test runner may have printed half a line before.
fn say(words: &str) {
    let mut out = io::stdout().lock();
    let said = writeln!(out, "\n{SAYS}{words}").and_then(|()| out.flush());
    // Without a parent there is nothing to do here.
    if said.is_err() {
        process::exit(1);
    }
}

/// Waits for the word of the parent, and ends the process when the parent is gone, which keeps our
/// input open for as long as it lives.
fn listen_to_the_parent() -> oneshot::Receiver<()> {
    let (sender, go) = oneshot::channel();
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        let heard = input.read_line(&mut String::new());
        if matches!(heard, Ok(read) if read > 0) {
            // Not every part waits for the word.
            sender.send(()).ok();
        }
        let ended = input.read_to_end(&mut Vec::new());
        process::exit(i32::from(ended.is_err()))
    });
    go
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_survives_the_way_to_the_child() {
        let parts = [
            Part::Hold(Duration::from_millis(1500)),
            Part::Count(7, PathBuf::from("/a folder/a file")),
        ];
        for part in parts {
            assert_eq!(Part::from_text(&part.to_text()), Some(part));
        }
        assert_eq!(Part::from_text("dance 7"), None);
    }
}
