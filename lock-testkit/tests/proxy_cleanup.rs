//! A `FaultProxy` leaves nothing behind, and takes no time while it waits.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::net::TcpStream;
use std::thread;

use common::wire::{
    Wire, connections_of, exists, request, start, wait_for, wait_for_clients, wait_for_requests,
};
use common::{LONG, eventually, millis};
use lock_testkit::ProxyFault;

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
    // That it leaves without reading its reply resets the connection.
    let mut late = Wire::to(proxy.addr());
    late.send(&["PING"]);
    late.wait_readable();
    server.pause().unwrap();
    late.send(&["SET", "late", "1"]);
    wait_for_requests(&proxy, 4);
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
