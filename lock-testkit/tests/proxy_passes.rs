//! What a `FaultProxy` passes on, and what it leaves behind: nothing.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use common::wire::{
    Wire, connections_of, exists, request, start, wait_for, wait_for_clients, wait_for_requests,
};
use common::{LONG, eventually, millis};
use lock_core::Reply;
use lock_testkit::{FaultProxy, ProxyFault};

#[test]
fn requests_in_one_write_are_answered_in_order() {
    let (_server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    let pipeline: Vec<u8> = (0..1000).flat_map(|_| request(&["INCR", "k"])).collect();
    wire.send_bytes(&pipeline);
    for number in 1..=1000 {
        wire.expect(&format!(":{number}\r\n"));
    }
    assert_eq!(proxy.request_count(), 1000);
}

#[test]
fn requests_in_pieces_of_one_byte_are_whole() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    for (value, fault) in [
        ("a\r\n*1\r\n", None),
        ("b", Some(ProxyFault::CutBeforeReply)),
    ] {
        if let Some(fault) = fault {
            proxy.set_fault(fault);
        }
        for byte in request(&["SET", "k", value]) {
            wire.send_bytes(&[byte]);
            // It gives the proxy the time to read it by itself.
            assert_eq!(proxy.accepted(), 1);
        }
        eventually("it is done", || {
            server.command(&["GET", "k"]).unwrap() == Reply::Bytes(value.into())
        });
    }
    assert_eq!(wire.rest(), "+OK\r\n");
    let requests = proxy.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], [&b"SET"[..], b"k", b"a\r\n*1\r\n"]);
}

#[test]
fn large_requests_and_replies_pass_unchanged() {
    let (_server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    let text = "lock".repeat(2 << 20);
    wire.send(&["SET", "k", &text]);
    wire.expect("+OK\r\n");
    // More than the proxy wants to keep, so that it has to wait for the reader.
    for _ in 0..6 {
        wire.send(&["GET", "k"]);
    }
    for _ in 0..6 {
        wire.expect(&format!("${}\r\n{text}\r\n", text.len()));
    }
}

#[test]
fn messages_and_confirmations_are_not_taken_for_replies() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    wire.send(&["HELLO", "3"]);
    wire.send(&["SUBSCRIBE", "news", "sports"]);
    wire.send(&["ECHO", "there"]);
    let mut seen = String::new();
    while !seen.ends_with("$5\r\nthere\r\n") {
        seen += &wire.read_some();
    }
    // A message is on its way before the reply.
    server.pause().unwrap();
    let mut publisher = Wire::to(server.addr());
    publisher.send(&["PUBLISH", "news", "hot"]);
    proxy.set_fault(ProxyFault::CutBeforeReply);
    wire.send(&["SET", "k", "1"]);
    wait_for_requests(&proxy, 4);
    server.resume().unwrap();
    wait_for(&server, "k");
    // Which the server does first is its own affair.
    let message = ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nhot\r\n";
    let rest = wire.rest();
    assert!(rest.is_empty() || rest == message, "{rest}");
}

#[test]
fn a_message_comes_through_while_a_reply_is_awaited() {
    let (server, proxy) = start();
    for (index, hello, mark) in [(0, "2", '*'), (1, "3", '>')] {
        let key = format!("k{index}");
        let mut wire = Wire::to(proxy.addr());
        let confirmed = format!("{mark}3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let message = format!("{mark}3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nhot\r\n");
        wire.send(&["HELLO", hello]);
        let mut seen = String::new();
        while !seen.ends_with("modules\r\n*0\r\n") {
            seen += &wire.read_some();
        }
        wire.send(&["SET", &key, "1"]);
        wire.send(&["SUBSCRIBE", "news"]);
        wait_for(&server, &key);
        wire.expect(&format!("+OK\r\n{confirmed}"));
        server.command(&["PUBLISH", "news", "hot"]).unwrap();
        wire.expect(&message);
        // The confirmation of a subscription is the reply that is lost with the connection.
        proxy.set_fault(ProxyFault::CutBeforeReply);
        wire.send(&["PUNSUBSCRIBE"]);
        assert_eq!(wire.rest(), "");
    }
}

/// Sends back each byte until its client ends.
fn echo() -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 100];
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return,
                read => stream.write_all(&buffer[..read]).unwrap(),
            }
        }
    };
    (addr, thread::spawn(serve))
}

#[test]
fn what_is_no_resp_passes_both_ways_and_ends_when_the_client_ends() {
    let (addr, server) = echo();
    let proxy = FaultProxy::start(addr).unwrap();
    proxy.set_fault(ProxyFault::Answer(b"-NO\r\n".to_vec()));
    let mut wire = Wire::to(proxy.addr());
    for text in ["h", "ello *1\r\n$", "\u{0}\u{1}", "*1\r\n$4\r\nPING\r\n"] {
        wire.send_bytes(text.as_bytes());
        wire.expect(text);
    }
    drop(wire);
    server.join().unwrap();
    assert_eq!(proxy.request_count(), 0);
}

#[test]
fn a_request_that_its_client_did_not_finish_is_passed_as_it_is() {
    let (addr, server) = echo();
    let proxy = FaultProxy::start(addr).unwrap();
    let mut wire = Wire::to(proxy.addr());
    wire.send_bytes(b"*1\r\n$4\r\nPI");
    wire.finish();
    assert_eq!(wire.rest(), "*1\r\n$4\r\nPI");
    server.join().unwrap();
}

#[test]
fn what_a_client_sends_and_leaves_is_done() {
    let (server, proxy) = start();
    for round in 0..50 {
        let key = format!("k{round}");
        Wire::to(proxy.addr()).send(&["SET", &key, "1"]);
        wait_for(&server, &key);
    }
    eventually("the server hears that they have left", || {
        connections_of(&server) == 0
    });
}

#[test]
fn a_server_that_is_down_ends_connections_and_may_come_back() {
    let (server, proxy) = start();
    let old = Wire::to(proxy.addr());
    server.kill().unwrap();
    assert_eq!(old.rest(), "");
    assert_eq!(Wire::to(proxy.addr()).rest(), "");
    server.restart().unwrap();
    let mut wire = Wire::to(proxy.addr());
    wire.send(&["PING"]);
    wire.expect("+PONG\r\n");
    assert_eq!((proxy.accepted(), proxy.open_connections()), (3, 1));
}

#[test]
fn a_paused_server_with_a_full_backlog_stops_nobody_else() {
    let backlog_full = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start(backlog_full.local_addr().unwrap()).unwrap();
    // Nobody accepts there: from the 130th on, connecting has no end.
    let wires: Vec<_> = (0..300).map(|_| Wire::to(proxy.addr())).collect();
    wait_for_clients(&proxy, 300);
    drop(wires);
    wait_for_clients(&proxy, 0);
}

#[test]
fn a_dropped_proxy_closes_connections_and_its_port_under_every_fault() {
    let faults = [
        ProxyFault::Delay(LONG),
        ProxyFault::BlackHole,
        ProxyFault::HalfOpen,
        ProxyFault::Hold,
        ProxyFault::Refuse,
    ];
    for fault in faults {
        let (server, proxy) = start();
        let addr = proxy.addr();
        let mut wire = Wire::to(addr);
        wire.send(&["SET", "k", "1"]);
        wire.expect("+OK\r\n");
        proxy.set_fault(fault.clone());
        if fault != ProxyFault::Refuse {
            wire.send(&["GET", "k"]);
        }
        drop(proxy);
        assert_eq!(wire.rest(), "", "{fault:?}");
        assert!(TcpStream::connect(addr).is_err(), "{fault:?}");
        eventually("the server has no connection", || {
            connections_of(&server) == 0
        });
        assert!(exists(&server, "k"));
        #[cfg(target_os = "linux")]
        eventually("the thread is gone", || linux::thread_of(addr).is_none());
    }
}

#[test]
fn thousands_of_connections_leave_nothing_behind() {
    let (server, proxy) = start();
    let set = request(&["SET", "k", "1"]);
    for _ in 0..30 {
        let mut wires: Vec<_> = (0..100).map(|_| Wire::to(proxy.addr())).collect();
        wires.iter_mut().for_each(|wire| wire.send_bytes(&set));
        wires
            .iter_mut()
            .take(50)
            .for_each(|wire| wire.expect("+OK\r\n"));
    }
    wait_for_requests(&proxy, 3000);
    assert_eq!(proxy.accepted(), 3000);
    wait_for_clients(&proxy, 0);
    eventually("the server has no connection", || {
        connections_of(&server) == 0
    });
    #[cfg(target_os = "linux")]
    eventually("only the listener is left", || {
        linux::sockets_of(proxy.addr()) == 1
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_proxy_that_waits_takes_no_time_of_a_processor() {
    let (server, proxy) = start();
    // It names itself when it first runs.
    eventually("the thread is there", || {
        linux::thread_of(proxy.addr()).is_some()
    });
    let thread = linux::thread_of(proxy.addr()).unwrap();
    // Each in a state in which a socket has ended, or holds what cannot be delivered.
    let mut held = Wire::to(proxy.addr());
    proxy.set_fault(ProxyFault::Hold);
    held.send(&["SET", "held", "1"]);
    wait_for(&server, "held");
    let mut gone = Wire::to(proxy.addr());
    gone.send(&["SET", "gone", "1"]);
    wait_for(&server, "gone");
    drop(gone);
    let dead = Wire::to(proxy.addr());
    wait_for_clients(&proxy, 2);
    proxy.set_fault(ProxyFault::HalfOpen);
    drop(dead);
    server.pause().unwrap();
    let mut late = Wire::to(proxy.addr());
    late.send(&["SET", "late", "1"]);
    proxy.set_fault(ProxyFault::Delay(LONG * 100));
    drop(late);
    wait_for_clients(&proxy, 1);

    let before = linux::busy_nanos(&thread);
    thread::sleep(millis(500));
    let busy = linux::busy_nanos(&thread) - before;
    assert!(busy < 50_000_000, "{busy} ns of 500 ms");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::net::SocketAddr;
    use std::path::PathBuf;

    /// The proxy's thread, by its name.
    pub(crate) fn thread_of(proxy: SocketAddr) -> Option<PathBuf> {
        let name = format!("proxy-{}\n", proxy.port());
        let threads = fs::read_dir("/proc/self/task").unwrap();
        let mut dirs = threads.map(|thread| thread.unwrap().path());
        // A thread of another test may end meanwhile.
        dirs.find(|dir| fs::read_to_string(dir.join("comm")).is_ok_and(|comm| comm == name))
    }

    pub(crate) fn busy_nanos(thread: &std::path::Path) -> u64 {
        let stat = fs::read_to_string(thread.join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse().unwrap()
    }

    /// How many sockets somebody holds that have the proxy's port on this side.
    pub(crate) fn sockets_of(proxy: SocketAddr) -> usize {
        let port = format!(":{:04X}", proxy.port());
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let mut held = 0;
        for line in table.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            // What the system alone still remembers has no inode.
            held += usize::from(fields[1].ends_with(&port) && fields[9] != "0");
        }
        held
    }
}
