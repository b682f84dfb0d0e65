//! What a `FaultProxy` passes on.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use common::wire::{
    Wire, connections_of, request, start, wait_for, wait_for_clients, wait_for_requests,
};
use common::{eventually, millis};
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
    wire.expect_up_to("modules\r\n*0\r\n");
    // Its second confirmation and a message come while the reply to BLPOP is awaited.
    server.pause().unwrap();
    wire.send(&["SUBSCRIBE", "news", "sports"]);
    wait_for_requests(&proxy, 2);
    proxy.set_fault(ProxyFault::CutBeforeReply);
    wire.send(&["BLPOP", "list", "0"]);
    wait_for_requests(&proxy, 3);
    server.resume().unwrap();
    eventually("it is subscribed", || {
        server.command(&["PUBLISH", "sports", "goal"]).unwrap() == Reply::Int(1)
    });
    wire.expect(">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    wire.expect(">3\r\n$9\r\nsubscribe\r\n$6\r\nsports\r\n:2\r\n");
    wire.expect(">3\r\n$7\r\nmessage\r\n$6\r\nsports\r\n$4\r\ngoal\r\n");
    server.command(&["RPUSH", "list", "1"]).unwrap();
    assert_eq!(wire.rest(), "");
}

#[test]
fn a_subscription_is_confirmed_by_its_reply_in_both_protocols() {
    let (server, proxy) = start();
    for (protocol, mark) in [("2", '*'), ("3", '>')] {
        let mut wire = Wire::to(proxy.addr());
        wire.send(&["HELLO", protocol]);
        wire.expect_up_to("modules\r\n*0\r\n");
        wire.send(&["SUBSCRIBE", "news"]);
        wire.expect(&format!(
            "{mark}3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"
        ));
        server.command(&["PUBLISH", "news", "hot"]).unwrap();
        wire.expect(&format!(
            "{mark}3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$3\r\nhot\r\n"
        ));
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
    // The first bytes back could be the beginning of a reply.
    for text in ["+", "ello *1\r\n$", "\u{0}\u{1}", "*1\r\n$4\r\nPING\r\n"] {
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
fn a_client_that_does_not_read_holds_up_its_server() {
    const TOO_MUCH: usize = 100 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).unwrap();
    let wire = Wire::to(proxy.addr());
    let (mut server, _) = listener.accept().unwrap();
    server.set_write_timeout(Some(millis(500))).unwrap();
    let mut taken = 0;
    while taken < TOO_MUCH {
        match server.write(&[0; 1 << 16]) {
            Ok(written) => taken += written,
            Err(_full) => break,
        }
    }
    assert!(taken < TOO_MUCH, "the proxy has to keep it all");
    server.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(wire.rest().len(), taken);
}
