//! Other processes: this test binary again, each in a part of its own.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use lock_core::{DistributedLockExt, LockGuard, LockRequest, Redlock};
use lock_testkit::RedisServer;

use super::support::*;
use crate::backend::Node;

/// What the other process is to do.
const PART: &str = "LOCK_TEST_PART";
/// Its servers.
const URLS: &str = "LOCK_TEST_URLS";

/// Runs in a process of its own, see [`OtherProcess::start`]; alone it does nothing.
#[test]
fn other_process() {
    let Ok(part) = env::var(PART) else {
        return;
    };
    // The end of the input means that nobody is left who wants it. And nobody waits for ever.
    std::thread::spawn(|| {
        drop(std::io::stdin().read(&mut [0]));
        std::process::exit(1);
    });
    std::thread::spawn(|| {
        std::thread::sleep(4 * LONG);
        std::process::exit(1);
    });
    let urls = env::var(URLS).unwrap();
    let urls = urls.split(' ').map(String::from).collect::<Vec<_>>();
    block_on(async {
        let locks = builder(urls).build().unwrap();
        match part.as_str() {
            "extend" => hold_extended(&locks).await,
            "take over" => take_over(&locks).await,
            "stall" => tell_after_stall(&locks).await,
            "make tokens" => make_tokens(&locks).await,
            "end on a signal" => end_on_a_signal(&locks).await,
            other => match other.strip_prefix("answer and ") {
                Some(end) => answer_and(&locks, end).await,
                None => panic!("{other}"),
            },
        }
    });
}

/// On a line of its own: the test harness writes to the same output.
fn tell(text: &str) {
    println!("\ntold: {text}");
    std::io::stdout().flush().unwrap();
}

async fn hold_extended(locks: &Redlock<Node>) {
    let _guard = locks.lock(extended(KEY, 2 * SECOND)).await.unwrap();
    tell("held");
    std::future::pending().await
}

async fn take_over(locks: &Redlock<Node>) {
    // It is extended often, so that nodes which refused it at first have it soon.
    let request = extended(KEY, 60 * SECOND).extend_interval(100 * MS);
    let guard = locks.lock(request).await.unwrap();
    granted_everywhere(&guard).await;
    tell(guard.token());
    std::future::pending().await
}

/// Notices that the process was stopped, and tells first of all whether the lock is valid.
async fn tell_after_stall(locks: &Redlock<Node>) {
    let ttl = 2 * SECOND;
    let guard = locks.lock(extended(KEY, ttl)).await.unwrap();
    granted_everywhere(&guard).await;
    let watch = std::thread::spawn(move || {
        // From before anybody is told, and without a gap: else a stop might fall into one.
        let mut before = std::time::Instant::now();
        tell(word(&guard));
        loop {
            let now = std::time::Instant::now();
            if now - before > ttl {
                tell(word(&guard));
                break guard;
            }
            before = now;
            std::thread::sleep(MS);
        }
    });
    let guard = watch.join().unwrap();
    // From now on nothing revives it.
    while !guard.is_valid() {
        sleep(MS).await;
    }
    tell("revived");
}

fn word(guard: &LockGuard) -> &'static str {
    match guard.is_valid() {
        true => "valid",
        false => "not valid",
    }
}

async fn make_tokens(locks: &Redlock<Node>) {
    for round in 0..super::tokens::EACH {
        let guard = locks
            .lock(format!("{}-{round}", std::process::id()))
            .await
            .unwrap();
        tell(guard.token());
    }
    tell("done");
}

/// A service as it should be: it ends its locks when it is told to end.
async fn end_on_a_signal(locks: &Redlock<Node>) {
    let told_to_end = told_to_end();
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        let guard = locks.lock(extended(key, 60 * SECOND)).await.unwrap();
        granted_everywhere(&guard).await;
        guards.push(guard);
    }
    tell("held");
    told_to_end.await;
    locks.shutdown().await.unwrap();
    tell("ended");
    // As a program that ends without dropping anything.
    std::process::exit(0);
}

/// A function that has a lock, and whose process is stopped as soon as it has answered.
async fn answer_and(locks: &Redlock<Node>, end: &str) {
    let request = LockRequest::new(KEY).ttl(60 * SECOND).max_wait(LONG);
    let held = async || {
        let guard = locks.lock(request.clone()).await.unwrap();
        granted_everywhere(&guard).await;
        guard
    };
    match end {
        "release" => held().await.release().await.unwrap(),
        "scope" => {
            let body = async |guard: &LockGuard| granted_everywhere(guard).await;
            locks.with_lock(request.clone(), body).await.unwrap();
        }
        "flush" => {
            drop(held().await);
            locks.flush(LONG).await.unwrap();
        }
        "error" => {
            let failing = async {
                let _guard = held().await;
                Err::<(), _>("no money")
            };
            failing.await.unwrap_err();
            locks.flush(LONG).await.unwrap();
        }
        other => panic!("{other}"),
    }
    tell("answered");
    // It might as well be frozen: nothing that it has not sent is sent any more.
    std::process::exit(0);
}

/// A process that plays a part. Dropped, it is killed.
pub(crate) struct OtherProcess {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl OtherProcess {
    pub(crate) fn start(part: &str, servers: &[RedisServer]) -> Self {
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::other_process")])
            .arg("--nocapture")
            .env(PART, part)
            .env(URLS, urls(servers).join(" "))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// What it tells next. Blocks.
    pub(crate) fn next(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the other process ended");
            if let Some(told) = line.trim_end().strip_prefix("told: ") {
                return told.to_owned();
            }
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn terminate(&self) {
        shell(&format!("kill -TERM {}", self.child.id()));
    }

    /// Whether it ended by itself, without an error.
    pub(crate) fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().unwrap();
        status.is_some_and(|status| {
            assert!(status.success(), "{status}");
            true
        })
    }

    /// Stops the process until what is returned is dropped.
    pub(crate) fn stop(&self) -> Stopped {
        let pid = self.child.id();
        // It goes on also if this process dies meanwhile.
        let script = format!("kill -STOP {pid}; echo; read -r line; kill -CONT {pid}");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut done = [0];
        shell.stdout.take().unwrap().read_exact(&mut done).unwrap();
        let input = shell.stdin.take();
        Stopped { shell, input }
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A process is stopped as long as this lives.
pub(crate) struct Stopped {
    shell: Child,
    input: Option<ChildStdin>,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        drop(self.input.take());
        self.shell.wait().ok();
    }
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// Reads in a thread of its own, so that other tasks go on.
pub(crate) async fn told(mut process: OtherProcess) -> (OtherProcess, String) {
    let reading = spawn_blocking(move || {
        let told = process.next();
        (process, told)
    });
    timeout(Duration::from_secs(60), reading)
        .await
        .unwrap()
        .unwrap()
}
