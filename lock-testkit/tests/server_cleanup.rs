//! A `RedisServer` leaves nothing behind, however its test ends.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::eventually;
use lock_testkit::RedisServer;
use rustix::process::{Pid, test_kill_process};

/// What is there while a server lives.
#[derive(Debug)]
struct Traces {
    pid: Pid,
    addr: SocketAddr,
    dir: PathBuf,
}

impl Traces {
    fn of(server: &RedisServer) -> Self {
        let traces = Self {
            pid: Pid::from_raw(server.pid().unwrap().try_into().unwrap()).unwrap(),
            addr: server.addr(),
            dir: server.dir().to_owned(),
        };
        assert!(traces.process_runs() && traces.dir.is_dir());
        traces
    }

    /// Whether the process is there, and not only waits for a parent to take notice of its end.
    fn process_runs(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        let ended = stat.is_ok_and(|stat| stat.contains(") Z "));
        test_kill_process(self.pid).is_ok() && !ended
    }

    fn are_gone(&self) -> bool {
        let listens = TcpStream::connect(self.addr).is_ok();
        !self.process_runs() && !listens && !self.dir.exists()
    }
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_directory() {
    let server = RedisServer::start().unwrap();
    let traces = Traces::of(&server);
    drop(server);
    assert!(traces.are_gone(), "{traces:?}");
}

#[test]
fn a_dropped_server_leaves_nothing_when_paused_killed_or_restarted() {
    let server = RedisServer::start().unwrap();
    let first = Traces::of(&server);
    server.restart().unwrap();
    let traces = Traces::of(&server);
    server.pause().unwrap();
    drop(server);
    assert!(
        traces.are_gone() && first.are_gone(),
        "{first:?} {traces:?}"
    );

    let server = RedisServer::start().unwrap();
    let traces = Traces::of(&server);
    server.kill().unwrap();
    assert!(traces.dir.is_dir());
    drop(server);
    assert!(traces.are_gone(), "{traces:?}");
}

#[test]
fn a_panic_in_a_test_leaves_nothing() {
    let mut traces = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let server = RedisServer::start().unwrap();
        traces = Some(Traces::of(&server));
        panic!("a test that fails");
    }));
    assert!(panicked.is_err());
    assert!(traces.unwrap().are_gone());
}

/// How the other process ends.
const HOW: &str = "LOCK_TESTKIT_TEST_END";

/// Runs in a process of its own, see [`other_process_that_ends`]; alone it does nothing.
#[test]
fn other_process() {
    let Ok(how) = std::env::var(HOW) else {
        return;
    };
    if how == "no start" {
        let failing = RedisServer::builder().arg("--no-such-setting", "1");
        drop(failing.start().unwrap_err());
        return;
    }
    let server = RedisServer::start().unwrap();
    let traces = Traces::of(&server);
    if how != "kill running" {
        server.pause().unwrap();
    }
    let dir = traces.dir.display();
    println!("\nserver {} {} {dir}", traces.pid, traces.addr);
    match how.as_str() {
        "abort" => std::process::abort(),
        "exit" => std::process::exit(0),
        // Until it is killed; the end of the input means that nobody is left to do it.
        _ => drop(std::io::stdin().read(&mut [0])),
    }
}

/// Runs this test binary again.
fn other_process_that_ends(how: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "other_process", "--nocapture"])
        .env(HOW, how)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Starts a process that starts a server and tells its traces.
fn start_other_process(how: &str) -> (Child, Traces) {
    let mut process = other_process_that_ends(how).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let told = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("server "))
        .unwrap();
    let mut words = told.splitn(4, ' ').skip(1);
    let pid = words.next().unwrap().parse().unwrap();
    let traces = Traces {
        pid: Pid::from_raw(pid).unwrap(),
        addr: words.next().unwrap().parse().unwrap(),
        dir: words.next().unwrap().into(),
    };
    (process, traces)
}

#[test]
fn a_killed_test_process_leaves_no_server() {
    for how in ["kill running", "kill paused"] {
        let (mut process, traces) = start_other_process(how);
        assert!(traces.process_runs() && traces.dir.is_dir());
        process.kill().unwrap();
        process.wait().unwrap();
        eventually("the server and its directory are gone", || {
            traces.are_gone()
        });
    }
}

#[test]
fn a_test_process_that_aborts_or_exits_leaves_no_server() {
    for how in ["abort", "exit"] {
        let (mut process, traces) = start_other_process(how);
        process.wait().unwrap();
        eventually("the server and its directory are gone", || {
            traces.are_gone()
        });
    }
}

#[test]
fn a_server_that_does_not_come_up_leaves_no_directory() {
    let temp = tempfile::tempdir().unwrap();
    let output = other_process_that_ends("no start")
        .env("TMPDIR", temp.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(temp.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_watchdog_spares_a_process_that_is_not_its_server() {
    // As it were, the server has ended by itself, and its process id went to somebody else.
    let mut bystander = Command::new("sleep")
        .arg("60")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut watchdog = Command::new("sh")
        .args(["-c", include_str!("../src/server/watchdog.sh"), "watchdog"])
        .arg(dir.path())
        .arg("12345")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = watchdog.stdin.take().unwrap();
    writeln!(input, "{}", bystander.id()).unwrap();
    drop(input);
    let status = watchdog.wait().unwrap();
    let ended = bystander.try_wait().unwrap();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(status.success() && ended.is_none() && !dir.path().exists());
}
