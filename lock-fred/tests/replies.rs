//! What a server answers arrives as it was answered, over RESP2 and RESP3.

// Helpers of tests unwrap too, and clippy takes only the tests themselves for tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use lock_core::{Command, NodeError, RedisNode, Reply, Token};
use lock_fred::FredNode;
use support::*;

const PROTOCOLS: [&str; 2] = ["?protocol=resp2", "?protocol=resp3"];

async fn ask(node: &FredNode, command: &Command) -> Result<Reply, NodeError> {
    node.execute(command, LONG).await
}

fn node(server: &RedisServer, rest: &str) -> FredNode {
    FredNode::new(format!("{}/{rest}", server.url())).unwrap()
}

fn text(token: Token) -> Reply {
    Reply::Bytes(token.as_bytes().to_vec())
}

#[tokio::test]
async fn an_acquire_is_granted_once_and_refused_from_then_on() {
    let server = RedisServer::start().unwrap();
    for (key, protocol) in ["a", "b"].iter().zip(PROTOCOLS) {
        let node = node(&server, protocol);
        let granted = ask(&node, &acquire(key, token())).await.unwrap();
        assert_eq!(granted, Reply::ok());
        let refused = ask(&node, &acquire(key, token())).await.unwrap();
        assert_eq!(refused, Reply::Nil);
    }
}

#[tokio::test]
async fn an_acquire_by_script_tells_who_holds_and_for_how_long() {
    let server = RedisServer::start().unwrap();
    for (key, protocol) in ["a", "b"].iter().zip(PROTOCOLS) {
        let (node, holder) = (node(&server, protocol), token());
        for _ in 0..2 {
            let granted = ask(&node, &acquire_or_report(key, holder)).await.unwrap();
            assert_eq!(granted, Reply::Int(1), "its own token counts as granted");
        }
        let refused = ask(&node, &acquire_or_report(key, token())).await.unwrap();
        let Reply::Array(parts) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(parts[0], text(holder));
        assert!(matches!(parts[1], Reply::Int(left) if 0 < left && left <= 60_000));
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_held_by_nobody_known_and_for_ever() {
    let server = RedisServer::start().unwrap();
    server.command(&["HSET", "hash", "f", "v"]).unwrap();
    for protocol in PROTOCOLS {
        let node = node(&server, protocol);
        let set = ask(&node, &acquire("hash", token())).await.unwrap();
        assert_eq!(set, Reply::Nil);
        let told = ask(&node, &acquire_or_report("hash", token()))
            .await
            .unwrap();
        assert_eq!(told, Reply::Array(vec![Reply::Nil, Reply::Int(-1)]));
        let extended = ask(&node, &extend(&[(b"hash", token())])).await.unwrap();
        assert_eq!(extended, Reply::Array(vec![Reply::Int(-1)]));
        let released = ask(&node, &release("hash", token())).await.unwrap();
        assert_eq!(released, Reply::Int(-1));
    }
}

#[tokio::test]
async fn an_extend_answers_for_each_key() {
    let server = RedisServer::start().unwrap();
    for (n, protocol) in PROTOCOLS.into_iter().enumerate() {
        let (node, mine) = (node(&server, protocol), token());
        let (held, other) = (format!("held{n}"), format!("other{n}"));
        ask(&node, &acquire(&held, mine)).await.unwrap();
        ask(&node, &acquire(&other, token())).await.unwrap();
        let entries = [
            (held.as_bytes(), mine),
            (b"missing".as_slice(), mine),
            (other.as_bytes(), mine),
        ];
        let answers = [1, 0, -1].map(Reply::Int).to_vec();
        assert_eq!(
            ask(&node, &extend(&entries)).await.unwrap(),
            Reply::Array(answers)
        );
    }
}

#[tokio::test]
async fn a_release_deletes_only_its_own_key_or_cuts_its_life() {
    let server = RedisServer::start().unwrap();
    for protocol in PROTOCOLS {
        let (node, mine) = (node(&server, protocol), token());
        ask(&node, &acquire("k", mine)).await.unwrap();
        let foreign = ask(&node, &release("k", token())).await.unwrap();
        assert_eq!(foreign, Reply::Int(-1));
        let keep = release_keeping("k", mine, Duration::from_secs(5));
        assert_eq!(ask(&node, &keep).await.unwrap(), Reply::Int(1));
        let left = server.command(&["PTTL", "k"]).unwrap();
        assert!(matches!(left, Reply::Int(left) if 0 < left && left <= 5_000));
        assert_eq!(
            ask(&node, &release("k", mine)).await.unwrap(),
            Reply::Int(1)
        );
        assert_eq!(
            ask(&node, &release("k", mine)).await.unwrap(),
            Reply::Int(0)
        );
    }
}

#[tokio::test]
async fn a_script_that_the_server_does_not_know_is_noscript() {
    let server = RedisServer::start().unwrap();
    for protocol in PROTOCOLS {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        let node = node(&server, protocol);
        let by_source = release("k", token());
        let by_digest = Command::from(by_source.operation().clone());
        let error = ask(&node, &by_digest).await.unwrap_err();
        assert_eq!(error.code(), Some("NOSCRIPT"));
        assert_eq!(ask(&node, &by_source).await.unwrap(), Reply::Int(0));
        assert_eq!(ask(&node, &by_digest).await.unwrap(), Reply::Int(0));
    }
}

#[tokio::test]
async fn keys_are_bytes() {
    let server = RedisServer::start().unwrap();
    let keys: [&[u8]; 5] = [
        b"\xff\xfe\x00\r\n",
        b"\xff",
        b"\xfe",
        "🔒".as_bytes(),
        &[b'k'; 60_000],
    ];
    for protocol in PROTOCOLS {
        let (node, mine) = (node(&server, protocol), token());
        for key in keys {
            assert_eq!(ask(&node, &acquire(key, mine)).await.unwrap(), Reply::ok());
            let stored = server.command(&[b"GET".as_slice(), key]).unwrap();
            assert_eq!(stored, text(mine));
        }
        let entries: Vec<_> = keys.iter().map(|&key| (key, mine)).collect();
        let extended = ask(&node, &extend(&entries)).await.unwrap();
        assert_eq!(extended, Reply::Array(vec![Reply::Int(1); keys.len()]));
        for key in keys {
            assert_eq!(
                ask(&node, &release(key, mine)).await.unwrap(),
                Reply::Int(1)
            );
        }
    }
}

#[tokio::test]
async fn all_commands_go_to_the_database_of_the_url() {
    let server = RedisServer::start().unwrap();
    for protocol in PROTOCOLS {
        let (node, mine) = (node(&server, &format!("5{protocol}")), token());
        ask(&node, &acquire("k", mine)).await.unwrap();
        assert_eq!(keys(&server), 0, "nothing in database 0");
        let info = server.command(&["INFO", "keyspace"]).unwrap();
        assert!(matches!(info, Reply::Bytes(info)
            if String::from_utf8_lossy(&info).contains("db5:keys=1,")));
        assert_eq!(
            ask(&node, &release("k", mine)).await.unwrap(),
            Reply::Int(1)
        );
    }
}

#[tokio::test]
async fn a_user_with_the_documented_commands_can_lock() {
    let server = RedisServer::start().unwrap();
    let commands = "+set +get +pttl +pexpire +del +eval +evalsha";
    let mut rule = vec!["ACL", "SETUSER", "u", "on", ">p:w", "~lock:*"];
    rule.extend(commands.split(' '));
    server.command(&rule).unwrap();
    let url = format!("redis://u:p%3Aw@127.0.0.1:{}", server.port());
    for protocol in PROTOCOLS {
        let node = FredNode::new(format!("{url}/{protocol}")).unwrap();
        lock_and_unlock(&node, "lock:k").await;
        let error = ask(&node, &acquire("other", token())).await.unwrap_err();
        assert!(error.is_permission(), "{error}");
        assert_eq!(error.code(), Some("NOPERM"));
    }
}

#[tokio::test]
async fn a_server_without_info_hello_config_client_and_script_can_be_locked_on() {
    let server = RedisServer::start().unwrap();
    let rule = "ACL SETUSER default -info -hello -config -client -script";
    server
        .command(&rule.split(' ').collect::<Vec<_>>())
        .unwrap();
    // Redis lets everybody say HELLO, whatever the ACL says.
    for protocol in PROTOCOLS {
        lock_and_unlock(&node(&server, protocol), "k").await;
    }
}

#[tokio::test]
async fn a_server_or_a_proxy_without_hello_speaks_resp2_and_refuses_resp3_with_a_cause() {
    let server = FakeServer::start_raw(|_, words| match words[0].as_slice() {
        b"SET" | b"PING" => Act::Answer("+OK\r\n"),
        b"HELLO" => Act::Answer("-ERR unknown command `HELLO`, with args beginning with: \r\n"),
        _ => Act::Answer("-ERR unknown command\r\n"),
    })
    .await;
    let node = |rest| FredNode::new(format!("{}/{rest}", server.url())).unwrap();
    let granted = ask(&node("?protocol=resp2"), &acquire("k", token())).await;
    assert_eq!(granted.unwrap(), Reply::ok());
    let error = ask(&node("?protocol=resp3"), &acquire("k", token())).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), Some("ERR"), "{}", chain(&error));
    assert!(error.to_string().contains("HELLO"), "{error}");
}

async fn lock_and_unlock(node: &FredNode, key: &str) {
    let mine = token();
    let granted = ask(node, &acquire(key, mine)).await.unwrap();
    assert_eq!(granted, Reply::ok());
    let told = ask(node, &acquire_or_report(key, token())).await.unwrap();
    assert!(matches!(told, Reply::Array(_)));
    let extended = ask(node, &extend(&[(key.as_bytes(), mine)])).await.unwrap();
    assert_eq!(extended, Reply::Array(vec![Reply::Int(1)]));
    let released = ask(node, &release(key, mine)).await.unwrap();
    assert_eq!(released, Reply::Int(1));
}
