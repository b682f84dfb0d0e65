//! What a server must not do, and what a node makes of it.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::node::NodeErrorKind;
use lock_core::{NodeError, RedisNode, Reply};
use lock_testkit::RedisServer;

use crate::backend::{LOOKS_AT_REPLIES, node};
use crate::support::*;

const PROTOCOLS: [&str; 2] = ["", "/?protocol=resp3"];

#[apply(async_test!)]
async fn a_reply_of_garbage_is_an_error_and_no_refusal() {
    let for_all: &[&str] = &[
        "$-2\r\n",
        "$-7\r\n",
        "$-9223372036854775808\r\n",
        "*-2\r\n",
        "*-9223372036854775808\r\n",
        "$x\r\n",
        "*x\r\n",
        "$\r\n",
        ":x\r\n",
        "*2\r\n$-3\r\n:1\r\n",
        "?\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    ];
    let looked_at: &[&str] = &[
        "$-01\r\n",
        "$ -1\r\n",
        "$+1\r\nx\r\n",
        "_x\r\n",
        "%-1\r\n",
        "!-1\r\n",
        "=-4\r\n",
    ];
    let looked_at = looked_at.iter().filter(|_| LOOKS_AT_REPLIES);
    for garbage in for_all.iter().chain(looked_at) {
        let server = FakeServer::start(|connection, _| match connection {
            0 => Act::Answer(garbage),
            _ => Act::Answer("+OK\r\n"),
        });
        let node = node(server.url());
        let result = node.execute(&acquire("k", token()), LONG).await;
        let kind = result.as_ref().err().map(NodeError::kind);
        let expected = [NodeErrorKind::Connection, NodeErrorKind::UnexpectedReply].map(Some);
        assert!(expected.contains(&kind), "{garbage:?} read as {result:?}");
        assert_eq!(until_answered(&node).await, Reply::ok(), "{garbage:?}");
    }
}

#[apply(async_test!)]
async fn what_a_server_says_before_it_hangs_up_is_the_cause() {
    for said in [
        "ERR max number of clients reached",
        "DENIED Redis is running in protected mode",
    ] {
        for protocol in PROTOCOLS {
            let server = RawServer::start(move |_, mut stream| {
                write!(stream, "-{said}\r\n").ok();
            });
            let node = node(format!("{}{protocol}", server.url()));
            let error = node.execute(&acquire("k", token()), LONG).await;
            assert_eq!(error.unwrap_err().to_string(), said, "{protocol}");
        }
    }
}

#[apply(async_test!)]
async fn a_server_that_has_all_its_clients_says_so() {
    let server = RedisServer::start().unwrap();
    let first = node(server.url());
    until_answered(&first).await;
    server
        .command(&["CONFIG", "SET", "maxclients", "1"])
        .unwrap();
    let error = node(server.url())
        .execute(&acquire("k", token()), LONG)
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "ERR max number of clients reached");
    assert_eq!(error.kind(), NodeErrorKind::Server);
}

#[apply(async_test!)]
async fn a_database_or_a_password_that_is_denied_is_an_error_of_permission() {
    let server = RedisServer::start().unwrap();
    let rule = "ACL SETUSER u on >p ~* +@all -select";
    server
        .command(&rule.split(' ').collect::<Vec<_>>())
        .unwrap();
    for (user, code) in [("u:p", "NOPERM"), ("u:x", "WRONGPASS")] {
        for protocol in PROTOCOLS {
            let protocol = protocol.trim_start_matches('/');
            let node = node(format!(
                "redis://{user}@127.0.0.1:{}/1{protocol}",
                server.port()
            ));
            let error = node
                .execute(&acquire("k", token()), LONG)
                .await
                .unwrap_err();
            assert_eq!(error.code(), Some(code), "{error}");
            assert!(error.is_permission(), "{error}");
        }
    }
}

#[apply(async_test!)]
async fn a_server_without_users_says_that_a_password_is_wrong() {
    // As Redis 5 does.
    let server = FakeServer::start_raw(|_, words| match (words[0].as_slice(), words.len()) {
        (b"AUTH", 3) => Act::Answer("-ERR wrong number of arguments for 'auth' command\r\n"),
        (b"AUTH", _) => Act::Answer("-ERR invalid password\r\n"),
        _ => Act::Answer("-NOAUTH Authentication required.\r\n"),
    });
    // fred does not try again without the user.
    let users = ["", "u"]
        .into_iter()
        .filter(|user| user.is_empty() || LOOKS_AT_REPLIES);
    for user in users {
        let url = server.url().replace("//", &format!("//{user}:p@"));
        let error = node(url).execute(&acquire("k", token()), LONG).await;
        assert_eq!(error.unwrap_err().to_string(), "WRONGPASS invalid password");
    }
}

#[apply(async_test!)]
async fn what_nobody_asked_for_answers_nobody() {
    let server = FakeServer::start(|connection, _| match connection {
        0 => Act::Answer("+OK\r\n$-1\r\n"),
        _ => Act::Answer("+OK\r\n"),
    });
    let node = node(server.url());
    for _ in 0..3 {
        let reply = node.execute(&acquire("k", token()), LONG).await;
        assert!(!matches!(reply, Ok(Reply::Nil)), "it was for nobody");
    }
}

#[apply(async_test!)]
async fn what_nobody_asked_for_ends_the_connection() {
    if !LOOKS_AT_REPLIES {
        return;
    }
    for endless in ["+OK\r\n", ">1\r\n+x\r\n", "-ERR no\r\n"] {
        let ended = Arc::new(AtomicUsize::new(0));
        let ends = Arc::clone(&ended);
        let server = RawServer::start(move |_, stream| {
            if answer_handshake(stream).is_ok() {
                send_endlessly(stream, "", endless);
                ends.fetch_add(1, Ordering::SeqCst);
            }
        });
        let node = node(server.url());
        let answer = node.execute(&acquire("k", token()), LONG).await;
        assert!(!matches!(answer, Ok(Reply::Nil)), "{endless:?}");
        let has_ended = || ended.load(Ordering::SeqCst) > 0;
        eventually("the connection ends", has_ended).await;
    }
}

#[apply(async_test!)]
async fn a_reply_of_more_than_its_command_can_have_ends_the_connection() {
    let endless = [
        ("$6000000000\r\n", "x"),
        ("*2147483647\r\n", ":1\r\n"),
        ("%9223372036854775807\r\n", ":1\r\n"),
        ("+", "x"),
        ("-", "x"),
        ("*2\r\n$65536\r\n", "x"),
        (">1\r\n+x\r\n", ">1\r\n+x\r\n"),
    ];
    for (begin, then) in endless.into_iter().filter(|_| LOOKS_AT_REPLIES) {
        let server = RawServer::start(move |_, stream| {
            if answer_handshake(stream).is_ok() {
                send_endlessly(stream, begin, then);
            }
        });
        let error = node(server.url())
            .execute(&acquire("k", token()), LONG)
            .await;
        let error = error.unwrap_err();
        assert_eq!(
            error.kind(),
            NodeErrorKind::Connection,
            "{begin:?}: {error}"
        );
        let told = chain(&error);
        assert!(told.contains("more than"), "{begin:?}: {told}");
    }
}

#[apply(async_test!)]
async fn a_long_reply_to_a_long_command_is_no_garbage() {
    let server = RedisServer::start().unwrap();
    let node = node(server.url());
    let keys: Vec<_> = (0..30_000).map(|n| format!("k{n}").into_bytes()).collect();
    let entries: Vec<_> = keys.iter().map(|key| (&key[..], token())).collect();
    for _ in 0..2 {
        let reply = node.execute(&extend(&entries), LONG).await;
        let Reply::Array(items) = reply.unwrap() else {
            panic!("no array");
        };
        assert_eq!(items.len(), keys.len());
    }
    let reply = node.execute(&release("k", token()), LONG).await;
    assert_eq!(reply.unwrap(), Reply::Int(0));
}

#[apply(async_test!)]
async fn arrays_in_arrays_are_refused_and_end_no_process() {
    // fred's parser overflows its stack, and that ends the process: the docs of `lock-fred` say so.
    if !LOOKS_AT_REPLIES {
        return;
    }
    for in_handshake in [true, false] {
        let server = RawServer::start(move |_, mut stream| {
            if in_handshake || answer_handshake(stream).is_ok() {
                stream.write_all("*1\r\n".repeat(8_000).as_bytes()).ok();
                stream.read_to_end(&mut Vec::new()).ok();
            }
        });
        let error = node(server.url())
            .execute(&acquire("k", token()), LONG)
            .await;
        let kind = error.unwrap_err().kind();
        let expected = [NodeErrorKind::NotSent, NodeErrorKind::Connection];
        assert_eq!(kind, expected[usize::from(!in_handshake)]);
    }
}
