//! The second process of checks that need one: the program that runs now, started again.

use std::convert::Infallible;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use lock_core::{DistributedLock, DistributedLockExt, LockRequest};

use super::harness::LockHarness;
use crate::conformance::failure::chain;
use crate::conformance::{CheckResult, Failure, TestCase};

/// Tells a process that it is a child, and its part.
const PART: &str = "LOCK_TESTKIT_CHILD";

/// Where a child finds the world of its parent.
const WORLD: &str = "LOCK_TESTKIT_WORLD";

/// By which call of `run_all` the child was asked for.
const RUN: &str = "LOCK_TESTKIT_RUN";

/// What comes before the words that a child says: a test runner prints other things too.
const SAYS: &str = "lock-testkit child: ";

/// The name that children lock.
pub(crate) const NAME: &str = "shared by processes";

/// How a child is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Again {
    /// Not at all.
    Nothing,
    /// As this one test.
    Test(TestCase),
    /// As the whole program, which comes to the same call of `run_all`.
    Program(usize),
}

/// What a child does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Acquires the lock with this ttl, and keeps it until it is killed.
    Hold(Duration),
    /// Adds one to the number in a file, so many times, each time under the lock.
    Count(u32, PathBuf),
}

impl Part {
    fn to_text(&self) -> String {
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

    /// If this process is a child, plays its part and ends the process. Says whether it is a
    /// child that is meant for a later call.
    pub(crate) fn play_child(self, harness: &Arc<dyn LockHarness>) -> bool {
        let (Ok(part), Ok(world)) = (env::var(PART), env::var(WORLD)) else {
            return false;
        };
        if let Self::Program(run) = self
            && env::var(RUN) != Ok(run.to_string())
        {
            return true;
        }
        die_with_the_parent();
        let driver = harness.driver();
        let mut played = Err(Failure::new("an end", "none"));
        let slot = &mut played;
        driver.block_on(Box::pin(async move {
            *slot = match Part::from_text(&part) {
                Some(part) => play(&**harness, &world, part).await,
                None => Err(Failure::new("a part to play", part)),
            };
        }));
        let Err(failure) = played;
        say(&format!("failed: {failure}"));
        process::exit(1)
    }
}

/// Plays a part and waits for the end; returns only if that fails.
async fn play(harness: &dyn LockHarness, world: &str, part: Part) -> CheckResult<Infallible> {
    let lock = harness.join(world).await?;
    match part {
        Part::Hold(ttl) => {
            let _guard = acquired(&lock, LockRequest::new(NAME).ttl(ttl)).await?;
            say("held");
            std::future::pending().await
        }
        Part::Count(times, path) => {
            let runtime = harness.driver().runtime();
            for _ in 0..times {
                let guard = acquired(&lock, LockRequest::new(NAME)).await?;
                let count = read_count(&path)?;
                runtime.sleep(Duration::from_millis(1)).await;
                write_count(&path, count + 1)?;
                let released = guard.release().await;
                released.map_err(|error| Failure::new("a release", chain(&error)))?;
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

pub(crate) fn read_count(path: &PathBuf) -> CheckResult<u64> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::setup("read a counter", &error))?;
    let count = text.trim().parse();
    count.map_err(|error| Failure::setup("read a number", &error))
}

pub(crate) fn write_count(path: &PathBuf, count: u64) -> CheckResult {
    let written = std::fs::write(path, count.to_string());
    written.map_err(|error| Failure::setup("write a counter", &error))
}

/// A test runner may have printed half a line before.
fn say(words: &str) {
    let mut out = io::stdout().lock();
    let said = writeln!(out, "\n{SAYS}{words}").and_then(|()| out.flush());
    // Without a parent to speak to there is nothing to do here.
    if said.is_err() {
        process::exit(1);
    }
}

/// The parent keeps our input open for as long as it lives.
fn die_with_the_parent() {
    thread::spawn(|| {
        let ended = io::stdin().read_to_end(&mut Vec::new());
        process::exit(i32::from(ended.is_err()))
    });
}

/// A process that was started; killed when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    words: mpsc::UnboundedReceiver<String>,
}

impl Child {
    pub(crate) fn start(again: Again, world: &str, part: &Part) -> CheckResult<Self> {
        let program =
            env::current_exe().map_err(|error| Failure::setup("find this program", &error))?;
        let mut command = Command::new(program);
        match again {
            Again::Test(case) => {
                let path = match case.module.split_once("::") {
                    Some((_crate, module)) => format!("{module}::{}", case.name),
                    None => case.name.to_owned(),
                };
                command.args([&path, "--exact", "--include-ignored", "--nocapture"]);
            }
            Again::Nothing => {
                let error = io::Error::other("a check that is run by itself has none");
                return Err(Failure::setup("start a second process", &error));
            }
            Again::Program(run) => {
                command.env(RUN, run.to_string());
            }
        }
        command.env(PART, part.to_text()).env(WORLD, world);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = command.spawn();
        let mut process =
            spawned.map_err(|error| Failure::setup("start this program again", &error))?;
        let (sender, words) = mpsc::unbounded();
        if let Some(out) = process.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(Result::ok);
                for line in lines {
                    if let Some(words) = line.strip_prefix(SAYS)
                        && sender.unbounded_send(words.to_owned()).is_err()
                    {
                        return;
                    }
                }
            });
        }
        Ok(Self { process, words })
    }

    /// Waits until the child says something, which has to be this.
    pub(crate) async fn expect(&mut self, expected: &str) -> CheckResult {
        match self.words.next().await {
            Some(words) if words == expected => Ok(()),
            Some(words) => Err(Failure::new(
                format!("the other process to say {expected:?}"),
                format!("{words:?}"),
            )),
            None => Err(Failure::new(
                format!("the other process to say {expected:?}"),
                "its end, without a word: it has to come to the same test or `run_all` again",
            )),
        }
    }

    /// Kills it, with no chance to clean up.
    pub(crate) fn kill(&mut self) -> CheckResult {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        match killed {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::setup("kill a process", &error)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It ends by itself when its input does, so nothing depends on this.
        drop(self.kill());
    }
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
