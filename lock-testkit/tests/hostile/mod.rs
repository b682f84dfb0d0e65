//! One node of three is a server that means harm, or that is broken as if it did: no acquire is late for
//! that, and no memory fills.
//!
//! A backend's crate takes this in as it does `tests/backend`, in a test of its own, since what the whole
//! process needs is measured.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use lock_core::{DistributedLockExt, Redlock};
use lock_testkit::RedisServer;

use crate::backend::{LOOKS_AT_REPLIES, node};
use crate::support::*;

const NODE_TIMEOUT: Duration = Duration::from_millis(500);
const ACQUIRES: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);
const MOST_MEMORY: usize = 64 << 20;

/// What the server does, whether a client has to look at replies to stand it, and how it is done.
type Harm = (&'static str, bool, fn(&TcpStream));

const HARMS: [Harm; 13] = [
    ("says nothing", false, |_| thread::sleep(LONG)),
    ("hangs up at once", false, |_| {}),
    ("speaks something else", false, |stream| {
        say(stream, "HTTP/1.1 400 Bad Request\r\n\r\n")
    }),
    ("sends garbage", false, |stream| {
        after_handshake(stream, "$-7\r\n", "")
    }),
    ("answers what makes no sense", false, |stream| {
        after_handshake(stream, "*1\r\n*1\r\n:7\r\n", "")
    }),
    ("sends a byte now and then", false, |stream| {
        after_handshake(stream, "$100\r\n", "");
        while { stream }.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    }),
    ("sends errors of many lines", false, |stream| {
        let line = format!("-OOM {}\r\n", "\x1b[2J\n".repeat(10_000));
        after_handshake(stream, &line, "");
        thread::sleep(LONG);
    }),
    ("sends replies that nobody asked for", true, |stream| {
        after_handshake(stream, "", "+OK\r\n")
    }),
    ("sends a string without an end", true, |stream| {
        after_handshake(stream, "$6000000000\r\n", "x")
    }),
    ("sends an array without an end", true, |stream| {
        after_handshake(stream, "*2147483647\r\n", ":1\r\n")
    }),
    ("sends a line without an end", true, |stream| {
        after_handshake(stream, "-", "x")
    }),
    ("sends arrays in arrays", true, |stream| {
        after_handshake(stream, "", "*1\r\n")
    }),
    ("sends arrays in arrays at once", true, |stream| {
        send_endlessly(stream, "", "*1\r\n")
    }),
];

fn say(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).ok();
}

fn after_handshake(stream: &TcpStream, begin: &str, then: &str) {
    if answer_handshake(stream).is_err() {
        return;
    }
    match then {
        "" => say(stream, begin),
        _ => send_endlessly(stream, begin, then),
    }
}

#[apply(async_test!)]
async fn a_minority_of_hostile_servers_makes_no_acquire_late_and_fills_no_memory() {
    let servers = [RedisServer::start().unwrap(), RedisServer::start().unwrap()];
    for (what, has_to_look, harm) in HARMS {
        if has_to_look && !LOOKS_AT_REPLIES {
            continue;
        }
        let hostile = RawServer::start(move |_, stream| harm(stream));
        let urls = [hostile.url(), servers[0].url(), servers[1].url()];
        let builder = Redlock::builder().node_timeout(NODE_TIMEOUT);
        let locks = builder.nodes(urls.map(node)).build().unwrap();
        // Connected, and measured without what everything needs.
        drop(locks.lock("warm").await.unwrap());
        let before = memory();
        forget_peak();
        for round in 0..ACQUIRES {
            let start = Instant::now();
            let guard = locks.try_lock(format!("k{round}")).await;
            let took = start.elapsed();
            let guard = guard.unwrap();
            assert!(guard.is_some(), "the server {what}: not acquired");
            assert!(took <= 2 * NODE_TIMEOUT, "the server {what}: {took:?}");
            guard.unwrap().release().await.unwrap();
            // The server has time for its harm.
            sleep(PAUSE).await;
        }
        let grown = peak().saturating_sub(before);
        assert!(grown < MOST_MEMORY, "the server {what}: {grown} bytes more");
    }
}

fn memory() -> usize {
    status("VmRSS:")
}

fn peak() -> usize {
    status("VmHWM:")
}

/// Bytes of this process, where the system is one that tells.
fn status(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Has the peak count from now on.
fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").ok();
}
