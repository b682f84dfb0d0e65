//! What a server has to allow, and where commands go.

use std::sync::Arc;

use lock_core::node::Operation;
use lock_core::{Command, NodeError, RedisNode, Reply};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
use crate::support::*;

const PROTOCOLS: [&str; 2] = ["?protocol=resp2", "?protocol=resp3"];

fn at(server: &RedisServer, rest: &str) -> Node {
    node(format!("{}/{rest}", server.url()))
}

async fn ask(node: &Node, command: &Command) -> Result<Reply, NodeError> {
    node.execute(command, LONG).await
}

#[apply(async_test!)]
async fn all_commands_go_to_the_database_of_the_url() {
    let server = RedisServer::start().unwrap();
    for protocol in PROTOCOLS {
        let (node, mine) = (at(&server, &format!("5{protocol}")), token());
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

#[apply(async_test!)]
async fn a_user_with_the_documented_commands_can_lock() {
    let server = RedisServer::start().unwrap();
    let commands = "+set +get +pttl +pexpire +del +eval +evalsha";
    let mut rule = vec!["ACL", "SETUSER", "u", "on", ">p:w", "~lock:*"];
    rule.extend(commands.split(' '));
    server.command(&rule).unwrap();
    let url = format!("redis://u:p%3Aw@127.0.0.1:{}", server.port());
    for protocol in PROTOCOLS {
        let node = node(format!("{url}/{protocol}"));
        lock_and_unlock(&node, "lock:k").await;
        let error = ask(&node, &acquire("other", token())).await.unwrap_err();
        assert!(error.is_permission(), "{error}");
        assert_eq!(error.code(), Some("NOPERM"));
    }
}

#[apply(async_test!)]
async fn a_server_without_info_hello_config_client_and_script_can_be_locked_on() {
    let server = RedisServer::start().unwrap();
    let rule = "ACL SETUSER default -info -hello -config -client -script";
    server
        .command(&rule.split(' ').collect::<Vec<_>>())
        .unwrap();
    // Redis lets everybody say HELLO, whatever the ACL says.
    for protocol in PROTOCOLS {
        lock_and_unlock(&at(&server, protocol), "k").await;
    }
}

#[apply(async_test!)]
async fn a_server_or_a_proxy_without_hello_speaks_resp2_and_refuses_resp3_with_a_cause() {
    let server = FakeServer::start_raw(|_, words| match words[0].as_slice() {
        b"SET" | b"PING" => Act::Answer("+OK\r\n"),
        b"HELLO" => Act::Answer("-ERR unknown command `HELLO`, with args beginning with: \r\n"),
        _ => Act::Answer("-ERR unknown command\r\n"),
    });
    let [resp2, resp3] = PROTOCOLS.map(|rest| node(format!("{}/{rest}", server.url())));
    let granted = ask(&resp2, &acquire("k", token())).await;
    assert_eq!(granted.unwrap(), Reply::ok());
    let error = ask(&resp3, &acquire("k", token())).await.unwrap_err();
    assert!(chain(&error).contains("HELLO"), "{}", chain(&error));
    assert!(
        chain(&error).contains("older than Redis 6.2"),
        "{}",
        chain(&error)
    );
}

#[apply(async_test!)]
async fn an_older_server_is_told_by_what_it_lacks_and_the_lowest_version() {
    // Redis 5 knows no `SCAN .. TYPE`, and before that scripts could not write after they had read a time to live.
    let server = FakeServer::start(|_, words| match words[0].as_slice() {
        b"SCAN" => Act::Answer("-ERR syntax error\r\n"),
        _ => Act::Answer(
            "-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: Write commands \
             not allowed after non deterministic commands \r\n",
        ),
    });
    let scan = Command::from(Operation::Scan {
        prefix: Arc::from(*b"lock:"),
        cursor: 0,
    });
    let node = node(server.url());
    for (command, lacks) in [
        (scan, "syntax error"),
        (extend(&[(b"k", token())]), "non deterministic commands"),
    ] {
        let error = ask(&node, &command).await.unwrap_err().to_string();
        assert!(error.contains(lacks), "{error}");
        assert!(error.contains("older than Redis 6.2"), "{error}");
    }
}

async fn lock_and_unlock(node: &Node, key: &str) {
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
