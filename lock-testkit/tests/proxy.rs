//! What each fault of a `FaultProxy` does.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::wire::{
    Wire, connections_of, exists, request, start, wait_for, wait_for_clients, wait_for_requests,
};
use common::{eventually, millis};
use lock_testkit::ProxyFault;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn replies_are_delayed_in_order_and_a_heal_delivers_them_at_once() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    proxy.set_fault(ProxyFault::Delay(millis(200)));
    let start = Instant::now();
    wire.send(&["SET", "k", "1"]);
    wire.send(&["GET", "k"]);
    wait_for(&server, "k");
    wire.expect("+OK\r\n$1\r\n1\r\n");
    assert!(start.elapsed() >= millis(200), "{:?}", start.elapsed());

    proxy.set_fault(ProxyFault::Delay(HOUR));
    wire.send(&["SET", "late", "1"]);
    wire.send(&["GET", "late"]);
    wait_for(&server, "late");
    assert_eq!(proxy.open_connections(), 1);
    wire.assert_silent();
    proxy.heal();
    wire.expect("+OK\r\n$1\r\n1\r\n");
}

#[test]
fn replies_on_hold_come_in_order_after_the_heal() {
    let (server, proxy) = start();
    let (mut one, mut other) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    proxy.set_fault(ProxyFault::Hold);
    one.send(&["SET", "k", "1"]);
    one.send(&["INCR", "k"]);
    one.send(&["INCR", "k"]);
    other.send(&["SET", "other", "1"]);
    wait_for(&server, "k");
    wait_for(&server, "other");
    wait_for_requests(&proxy, 4);
    one.assert_silent();
    other.assert_silent();
    proxy.heal();
    one.expect("+OK\r\n:2\r\n:3\r\n");
    other.expect("+OK\r\n");
}

#[test]
fn what_is_on_hold_when_the_server_dies_still_comes() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    proxy.set_fault(ProxyFault::Hold);
    wire.send(&["SET", "k", "1"]);
    wait_for(&server, "k");
    server.kill().unwrap();
    assert_eq!(proxy.open_connections(), 1);
    wire.assert_silent();
    proxy.heal();
    assert_eq!(wire.rest(), "+OK\r\n");
}

#[test]
fn in_a_black_hole_both_directions_vanish_and_nothing_is_closed() {
    let (server, proxy) = start();
    let (mut old, mut idle) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    old.send(&["PING"]);
    old.expect("+PONG\r\n");
    server.pause().unwrap();
    old.send(&["SET", "before", "1"]);
    wait_for_requests(&proxy, 2);
    wait_for_clients(&proxy, 2);
    proxy.set_fault(ProxyFault::BlackHole);
    server.resume().unwrap();
    old.send(&["SET", "k", "1"]);
    let mut new = Wire::to(proxy.addr());
    new.send(&["SET", "k", "1"]);
    wait_for_requests(&proxy, 4);
    // The reply to what was sent before vanishes too.
    wait_for(&server, "before");
    assert!(!exists(&server, "k"));
    assert_eq!(proxy.open_connections(), 3);

    proxy.heal();
    // Were they to go on, the reply to this would be taken for the one that is missing.
    for wire in [&mut old, &mut new] {
        wire.send(&["SET", "k", "1"]);
    }
    idle.send(&["GET", "k"]);
    idle.expect("$-1\r\n");
    Wire::to(proxy.addr()).send(&["SET", "new", "1"]);
    wait_for(&server, "new");
    assert!(!exists(&server, "k"));
    proxy.cut();
    assert_eq!((old.rest(), new.rest()), (String::new(), String::new()));
}

#[test]
fn what_is_on_hold_vanishes_in_a_black_hole() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    proxy.set_fault(ProxyFault::Hold);
    wire.send(&["SET", "k", "1"]);
    wait_for(&server, "k");
    proxy.set_fault(ProxyFault::BlackHole);
    proxy.heal();
    assert_eq!(proxy.open_connections(), 1);
    proxy.cut();
    assert_eq!(wire.rest(), "");
}

#[test]
fn closes_do_not_pass_a_black_hole_before_the_heal() {
    let (server, proxy) = start();
    let (stays, goes) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    eventually("both are connected", || connections_of(&server) == 2);
    proxy.set_fault(ProxyFault::BlackHole);
    drop(goes);
    wait_for_clients(&proxy, 1);
    assert_eq!(connections_of(&server), 2);
    server.restart().unwrap();
    assert_eq!(proxy.open_connections(), 1);
    stays.assert_silent();
    proxy.heal();
    assert_eq!(stays.rest(), "");
}

#[test]
fn half_open_connections_are_dead_for_good_and_new_ones_pass() {
    let (server, proxy) = start();
    let (mut dead, mut gone) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    wait_for_clients(&proxy, 2);
    proxy.set_fault(ProxyFault::HalfOpen);
    let mut new = Wire::to(proxy.addr());
    dead.send(&["SET", "k", "1"]);
    gone.send(&["SET", "k", "1"]);
    new.send(&["SET", "new", "1"]);
    new.expect("+OK\r\n");
    wait_for_requests(&proxy, 3);
    assert!(!exists(&server, "k"));

    drop(gone);
    wait_for_clients(&proxy, 2);
    assert_eq!(connections_of(&server), 3);
    proxy.heal();
    eventually("the server hears of it", || connections_of(&server) == 2);
    dead.send(&["SET", "k", "1"]);
    new.send(&["GET", "k"]);
    new.expect("$-1\r\n");
    server.kill().unwrap();
    assert_eq!(new.rest(), "");
    assert_eq!(proxy.open_connections(), 1);
    dead.assert_silent();
    proxy.cut();
    assert_eq!(dead.rest(), "");
}

#[test]
fn a_connection_cut_after_its_request_leaves_the_server_without_it() {
    let (server, proxy) = start();
    let (mut wire, mut idle) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    proxy.set_fault(ProxyFault::CutAfterRequest);
    wire.send(&["client", "setname", "me"]);
    wire.send(&["ping"]);
    wire.expect("+OK\r\n+PONG\r\n");
    // The request is whole only with its last byte.
    let set = request(&["SET", "k", "1"]);
    wire.send_bytes(&set[..set.len() - 1]);
    wait_for_clients(&proxy, 2);
    wire.send_bytes(&set[set.len() - 1..]);
    assert_eq!(wire.rest(), "");
    idle.send(&["GET", "k"]);
    idle.expect("$-1\r\n");
    assert!(!exists(&server, "k"));
    let last = &proxy.requests()[2];
    assert_eq!(last[..2], [b"SET".to_vec(), b"k".to_vec()]);
}

#[test]
fn what_follows_a_swallowed_request_in_one_write_is_lost_with_it() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    proxy.set_fault(ProxyFault::CutAfterRequest);
    let writes = [
        request(&["PING"]),
        request(&["SET", "k", "1"]),
        request(&["SET", "next", "1"]),
    ];
    wire.send_bytes(&writes.concat());
    wire.rest();
    assert!(!exists(&server, "k") && !exists(&server, "next"));
}

#[test]
fn a_connection_cut_before_the_reply_leaves_the_request_done() {
    let (server, proxy) = start();
    let (mut wire, mut idle) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    // Two replies are under way when the request comes: they are not taken for its own.
    server.pause().unwrap();
    wire.send(&["SET", "a", "1"]);
    wire.send(&["INCR", "a"]);
    wait_for_requests(&proxy, 2);
    proxy.set_fault(ProxyFault::CutBeforeReply);
    wire.send(&["SET", "k", "1"]);
    wait_for_requests(&proxy, 3);
    wire.assert_silent();
    server.resume().unwrap();
    assert_eq!(wire.rest(), "+OK\r\n:2\r\n");
    assert!(exists(&server, "k"));
    idle.send(&["GET", "k"]);
    idle.expect("$1\r\n1\r\n");
}

#[test]
fn a_heal_spares_a_request_that_waits_for_its_reply() {
    for fault in [ProxyFault::CutBeforeReply, ProxyFault::LoseReply] {
        let (server, proxy) = start();
        let mut wire = Wire::to(proxy.addr());
        proxy.set_fault(fault);
        server.pause().unwrap();
        wire.send(&["SET", "k", "1"]);
        wait_for_requests(&proxy, 1);
        proxy.heal();
        server.resume().unwrap();
        wire.expect("+OK\r\n");
    }
}

#[test]
fn after_a_lost_reply_a_connection_takes_requests_and_answers_none() {
    let (server, proxy) = start();
    let (mut wire, mut idle) = (Wire::to(proxy.addr()), Wire::to(proxy.addr()));
    proxy.set_fault(ProxyFault::LoseReply);
    wire.send(&["PING"]);
    wire.expect("+PONG\r\n");
    wire.send(&["SET", "k", "1"]);
    wait_for(&server, "k");
    wire.send(&["SET", "next", "1"]);
    wait_for(&server, "next");
    idle.send(&["SET", "other", "1"]);
    idle.expect("+OK\r\n");
    proxy.heal();
    wire.send(&["SET", "last", "1"]);
    wait_for(&server, "last");
    assert_eq!(proxy.open_connections(), 2);
    proxy.cut();
    assert_eq!(wire.rest(), "");
}

#[test]
fn refused_is_refused_until_the_heal_which_keeps_the_port() {
    let (_server, proxy) = start();
    let addr = proxy.addr();
    for _ in 0..20 {
        let mut wire = Wire::to(addr);
        wire.send(&["PING"]);
        wire.expect("+PONG\r\n");
        proxy.set_fault(ProxyFault::Refuse);
        assert_eq!(wire.rest(), "");
        let refused = TcpStream::connect(addr).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.set_fault(ProxyFault::Refuse);
        assert_eq!(proxy.open_connections(), 0);
        proxy.heal();
        assert_eq!(proxy.addr(), addr);
    }
    assert_eq!(proxy.accepted(), 20);
    proxy.set_fault(ProxyFault::Refuse);
    proxy.set_fault(ProxyFault::Hold);
    Wire::to(addr).send(&["PING"]);
}

#[test]
fn answers_of_the_proxy_come_in_their_turn_and_the_server_sees_nothing() {
    let (server, proxy) = start();
    let mut wire = Wire::to(proxy.addr());
    proxy.set_fault(ProxyFault::Answer(b"-LOADING a while\r\n".to_vec()));
    // The replies of the server are late: its own answers have to wait for them.
    server.pause().unwrap();
    let set = request(&["SET", "k", "1"]);
    let ping = request(&["PING"]);
    wire.send_bytes(&[&set[..], &ping, &set, &set, &ping].concat());
    wire.expect("-LOADING a while\r\n");
    wait_for_requests(&proxy, 5);
    wire.assert_silent();
    server.resume().unwrap();
    wire.expect("+PONG\r\n-LOADING a while\r\n-LOADING a while\r\n+PONG\r\n");
    assert!(!exists(&server, "k"));
    proxy.heal();
    wire.send_bytes(&set);
    wire.expect("+OK\r\n");
}

#[test]
fn a_cut_closes_what_is_open_and_lets_new_connections_pass() {
    let (server, proxy) = start();
    let mut wires: Vec<_> = (0..3).map(|_| Wire::to(proxy.addr())).collect();
    for wire in &mut wires[..2] {
        wire.send(&["PING"]);
        wire.expect("+PONG\r\n");
    }
    // What reached the proxy before the cut arrives.
    wires[1].send(&["SET", "k", "1"]);
    wait_for_requests(&proxy, 3);
    wait_for_clients(&proxy, 3);
    proxy.cut();
    assert_eq!(proxy.open_connections(), 0);
    wait_for(&server, "k");
    for wire in wires {
        wire.rest();
    }
    let mut new = Wire::to(proxy.addr());
    new.send(&["GET", "k"]);
    new.expect("$1\r\n1\r\n");
    assert_eq!((proxy.open_connections(), proxy.accepted()), (1, 4));
}
