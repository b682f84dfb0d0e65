//! What a `RedisServer` does while its test lives.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::collections::HashSet;
use std::error::Error;
use std::process::{Child, Command, Stdio};

use common::millis;
use lock_core::Reply;
use lock_testkit::{RedisCluster, RedisServer, ServerError};

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("no text: {other:?}"),
    }
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.command(&["EXISTS", key]).unwrap() == Reply::Int(1)
}

#[test]
fn a_started_server_answers_with_the_process_id_of_our_child() {
    let server = RedisServer::start().unwrap();
    let info = text(server.command(&["INFO", "server"]).unwrap());
    let line = format!("process_id:{}\r\n", server.pid().unwrap());
    assert!(info.contains(&line), "{info}");
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    assert_eq!(server.addr().to_string(), server.url()["redis://".len()..]);
    assert!(server.log().contains("Ready to accept connections"));
}

#[test]
fn servers_started_together_are_independent() {
    let servers = RedisServer::start_many(3).unwrap();
    let ports: HashSet<_> = servers.iter().map(RedisServer::port).collect();
    let dirs: HashSet<_> = servers.iter().map(RedisServer::dir).collect();
    assert_eq!((ports.len(), dirs.len()), (3, 3));
    servers[0].command(&["SET", "k", "v"]).unwrap();
    let there: Vec<_> = servers.iter().map(|server| exists(server, "k")).collect();
    assert_eq!(there, [true, false, false]);
}

#[test]
fn a_server_listens_on_loopback_alone_and_does_not_persist() {
    let server = RedisServer::start().unwrap();
    for (setting, value) in [("bind", "127.0.0.1"), ("save", ""), ("appendonly", "no")] {
        let words = [setting, value].map(|word| Reply::Bytes(word.into()));
        let answer = server.command(&["CONFIG", "GET", setting]).unwrap();
        assert_eq!(answer, Reply::Array(words.to_vec()));
    }
    assert_eq!(
        server.command(&["DEBUG", "SLEEP", "0"]).unwrap(),
        Reply::ok()
    );
}

#[test]
fn a_paused_server_takes_commands_and_answers_them_when_it_resumes() {
    let server = RedisServer::start().unwrap();
    let mut connection = server.connect().unwrap();
    for round in ["1", "2"] {
        server.pause().unwrap();
        let mut late = server.connect().unwrap();
        late.set_timeout(millis(200)).unwrap();
        let unanswered = late.command(&["SET", "late", round]).unwrap_err();
        assert!(
            matches!(unanswered, ServerError::NoAnswer { .. }),
            "{unanswered}"
        );
        let unusable = late.command(&["PING"]).unwrap_err();
        assert!(
            matches!(unusable, ServerError::Connection { .. }),
            "{unusable}"
        );

        connection.send(&["SET", "k", round]).unwrap();
        server.resume().unwrap();
        assert_eq!(connection.receive().unwrap(), Reply::ok());
        common::eventually("the command of the caller who gave up runs", || {
            server.command(&["GET", "late"]).unwrap() == Reply::Bytes(round.into())
        });
    }
}

#[test]
fn a_killed_server_refuses_and_restarts_empty_on_its_port() {
    let server = RedisServer::start().unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.command(&["SET", "k", "v"]).unwrap();
    server.command(&["SAVE"]).unwrap();
    server.kill().unwrap();
    server.kill().unwrap();
    assert_eq!(server.pid(), None);
    let refused = server.command(&["PING"]).unwrap_err();
    assert!(matches!(refused, ServerError::Connect { .. }), "{refused}");
    let gone = server.pause().unwrap_err();
    assert!(matches!(gone, ServerError::NotRunning { .. }), "{gone}");

    server.restart().unwrap();
    assert!(!exists(&server, "k"));
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
}

#[test]
fn a_paused_server_can_be_killed_and_restarted() {
    let server = RedisServer::start().unwrap();
    server.pause().unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    server.command(&["SET", "k", "v"]).unwrap();
    server.pause().unwrap();
    server.restart().unwrap();
    assert!(!exists(&server, "k"));
}

#[test]
fn a_restart_with_data_keeps_keys_and_their_lifetimes() {
    let server = RedisServer::start().unwrap();
    let pid = server.pid();
    server.command(&["SET", "k", "v", "PX", "3600000"]).unwrap();
    server.pause().unwrap();
    server.restart_with_data().unwrap();
    assert_ne!(server.pid(), pid);
    assert_eq!(
        server.command(&["GET", "k"]).unwrap(),
        Reply::Bytes(b"v".to_vec())
    );
    let Reply::Int(pttl) = server.command(&["PTTL", "k"]).unwrap() else {
        panic!("no number");
    };
    assert!((1..=3_600_000).contains(&pttl), "{pttl}");
}

#[test]
fn a_killed_server_comes_back_with_what_it_saved() {
    let server = RedisServer::start().unwrap();
    server.command(&["SET", "saved", "v"]).unwrap();
    server.command(&["SAVE"]).unwrap();
    server.command(&["SET", "unsaved", "v"]).unwrap();
    server.kill().unwrap();
    server.restart_with_data().unwrap();
    assert!(exists(&server, "saved") && !exists(&server, "unsaved"));
}

#[test]
fn a_password_is_used_and_stands_in_the_url_but_not_in_debug() {
    let builder = RedisServer::builder().arg("--requirepass", "pass word");
    let server = builder.start().unwrap();
    assert_eq!(
        server.command(&["PING"]).unwrap(),
        Reply::Bytes(b"PONG".to_vec())
    );
    assert_eq!(
        server.url(),
        format!("redis://:pass%20word@{}", server.addr())
    );
    let shown = format!("{builder:?} {server:?}");
    assert!(!shown.contains("pass word"), "{shown}");
    server.restart().unwrap();
    server.restart_with_data().unwrap();
}

#[test]
fn an_error_of_the_server_leaves_the_connection_usable() {
    let server = RedisServer::start().unwrap();
    let mut connection = server.connect().unwrap();
    let script = "return {1, {err = 'OOPS in an array'}, 'after it'}";
    let failed = connection.command(&["EVAL", script, "0"]).unwrap_err();
    assert_eq!(failed.to_string(), "the server answered: OOPS in an array");
    let failed = connection.command(&["NOSUCH"]).unwrap_err();
    assert!(
        failed.to_string().contains("ERR unknown command"),
        "{failed}"
    );
    let nested = connection.command(&["EVAL", "return {1, {false, 'x'}}", "0"]);
    let inner = Reply::Array(vec![Reply::Nil, Reply::Bytes(b"x".to_vec())]);
    assert_eq!(nested.unwrap(), Reply::Array(vec![Reply::Int(1), inner]));
}

#[test]
fn a_missing_program_error_says_how_to_install_it() {
    let builder = RedisServer::builder().program("no-such-redis-server");
    let error = builder.start().unwrap_err();
    let shown = error.to_string();
    for hint in [
        "no-such-redis-server",
        "apt-get install",
        "dnf install",
        "brew install",
    ] {
        assert!(shown.contains(hint), "{shown}");
    }
    assert!(error.source().is_some());
}

#[test]
fn a_server_that_does_not_start_shows_the_end_of_its_log() {
    let error = RedisServer::builder().arg("--no-such-setting", "1").start();
    let shown = error.unwrap_err().to_string();
    assert!(shown.contains("no-such-setting"), "{shown}");
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn somebody_elses_server_on_the_port_is_not_taken_for_ours() {
    let server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let other = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--port"])
        .arg(server.port().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let other = KilledOnDrop(other);
    let other_answers = || server.command(&["PING"]).is_ok();
    common::eventually("the other server answers", other_answers);
    let restarted = server.restart();
    let answers = other_answers();
    drop(other);
    assert!(answers);
    assert_eq!(server.pid(), None);
    let taken = restarted.unwrap_err();
    assert!(matches!(taken, ServerError::PortTaken { .. }), "{taken}");
    server.restart().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_has_stopped_when_pause_returns() {
    let server = RedisServer::start().unwrap();
    for _ in 0..200 {
        server.pause().unwrap();
        let pid = server.pid().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") T "), "{stat}");
        server.resume().unwrap();
        server.command(&["PING"]).unwrap();
    }
}

#[test]
fn a_cluster_shares_its_slots_and_moves_them_with_their_keys() {
    let mut cluster = RedisCluster::start(2).unwrap();
    // The slots of "a" and "b" are 15495 and 3300.
    assert_eq!(
        (cluster.slot("a").unwrap(), cluster.owner(15495)),
        (15495, 1)
    );
    assert_eq!(cluster.slots_of(0), 0..=8191);
    let server = cluster.server_of("a").unwrap();
    server.command(&["SET", "a", "v"]).unwrap();
    let elsewhere = server.command(&["GET", "b"]).unwrap_err().to_string();
    assert!(elsewhere.contains("MOVED 3300"), "{elsewhere}");

    cluster.begin_move(15495, 0).unwrap();
    let server = &cluster.servers()[1];
    assert!(exists(server, "a"));
    let asked = server.command(&["GET", "{a}2"]).unwrap_err().to_string();
    assert!(asked.contains("ASK 15495"), "{asked}");
    cluster.move_keys(15495, 0).unwrap();
    assert!(server.command(&["GET", "a"]).is_err(), "it is elsewhere");
    cluster.end_move(15495, 0).unwrap();
    assert!(exists(cluster.server_of("a").unwrap(), "a"));
    assert_eq!(cluster.owner(15495), 0);

    let replica = cluster.add_replica(1).unwrap();
    assert_eq!((replica, cluster.urls().len()), (2, 3));
    cluster.move_slots(cluster.slots_of(1), 0).unwrap();
    assert_eq!(cluster.slots_of(0), 0..=16383);
}
