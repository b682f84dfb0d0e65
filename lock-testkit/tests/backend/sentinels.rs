//! A node that is led to its master by sentinels.

use std::time::{Duration, Instant};

use lock_core::node::NodeErrorKind;
use lock_core::{DistributedLockExt, LockRequest, RedisNode, Redlock, Reply};
use lock_testkit::RedisServer;

use crate::backend::{Node, node};
use crate::support::*;

/// Sentinels take names as they are written.
const MASTER: &str = "myMaster";

/// A failover takes seconds, on a busy machine more.
const FAILOVER: Duration = Duration::from_secs(60);

/// A master, its replica and three sentinels who know each other.
struct Group {
    master: RedisServer,
    replica: RedisServer,
    sentinels: Vec<RedisServer>,
}

impl Group {
    async fn start() -> Self {
        let server = || {
            let builder = RedisServer::builder().arg("--repl-diskless-sync-delay", "0");
            builder.start().unwrap()
        };
        let (master, replica) = (server(), server());
        let port = master.port().to_string();
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
        eventually("a replica", || role(&replica, 3) == "connected").await;
        let sentinels = RedisServer::builder().sentinel(MASTER, &master, 2);
        let sentinels = sentinels.start_many(3).unwrap();
        for sentinel in &sentinels {
            let knows = |what| field(sentinel, &["SENTINEL", "MASTER", MASTER], what);
            within(FAILOVER, "acquaintance", || {
                knows("num-slaves") == "1" && knows("num-other-sentinels") == "2"
            })
            .await;
        }
        Self {
            master,
            replica,
            sentinels,
        }
    }

    fn node(&self) -> Node {
        led_by(self.sentinels.iter().map(RedisServer::url))
    }
}

fn led_by(sentinels: impl IntoIterator<Item = String>) -> Node {
    let sentinels = sentinels.into_iter().map(node);
    let master = node(format!("redis://{MASTER}"));
    master.sentinels(sentinels).unwrap()
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}

/// A part of what a server says of its role.
fn role(server: &RedisServer, part: usize) -> String {
    match server.command(&["ROLE"]).unwrap() {
        Reply::Array(parts) => parts.get(part).map(text).unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

/// A value of a reply that is a list of names and values.
fn field(server: &RedisServer, words: &[&str], name: &str) -> String {
    let Ok(Reply::Array(items)) = server.command(words) else {
        return String::new();
    };
    let pair = items.chunks(2).find(|pair| text(&pair[0]) == name);
    pair.map(|pair| text(&pair[1])).unwrap_or_default()
}

async fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn has(server: &RedisServer, key: &str) -> bool {
    server.command(&["EXISTS", key]).unwrap() == Reply::Int(1)
}

#[apply(async_test!)]
async fn a_lock_is_taken_where_sentinels_lead_and_goes_on_after_its_master_was_killed() {
    let group = Group::start().await;
    let node = group.node();
    assert!(
        node.label().starts_with("myMaster@127.0.0.1:"),
        "{}",
        node.label()
    );
    let locks = Redlock::builder().nodes([node]).node_timeout(LONG / 20);
    let locks = locks.build().unwrap();
    let guard = locks.lock(LockRequest::new("k").ttl(TTL)).await.unwrap();
    assert_eq!(calls(&group.master, "set"), 1);
    eventually("a copy", || keys(&group.replica) == 1).await;

    group.master.kill().unwrap();
    let other = LockRequest::new("other").ttl(TTL).max_wait(FAILOVER);
    let other = locks.lock(other).await.unwrap();
    assert!(has(&group.replica, "other"));
    // It was copied in time.
    guard.extend(TTL).await.unwrap();
    guard.release().await.unwrap();
    other.release().await.unwrap();
    assert_eq!(keys(&group.replica), 0);
}

#[apply(async_test!)]
async fn a_planned_failover_moves_a_node_while_the_old_master_still_takes_writes() {
    let group = Group::start().await;
    let node = group.node();
    until_answered(&node).await;
    let locks = Redlock::builder().nodes([group.node()]);
    let locks = locks.node_timeout(LONG / 20).build().unwrap();
    let ttl = Duration::from_millis(1500);
    let request = LockRequest::new("held").ttl(ttl).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    let failover = ["SENTINEL", "FAILOVER", MASTER];
    within(FAILOVER, "a failover", || {
        group.sentinels[0].command(&failover).is_ok()
    })
    .await;
    let start = Instant::now();
    let set = async |key: &str| node.execute(&acquire(key, token()), SHORT).await.is_ok();
    // What the old master has is copied, as long as it is one.
    let mut keys = (0..).map(|number| format!("k{number}"));
    loop {
        let key = keys.next().unwrap();
        if set(&key).await && !has(&group.master, &key) {
            break;
        }
        assert!(start.elapsed() < FAILOVER, "it never moved");
        sleep(Duration::from_millis(10)).await;
    }
    // Nobody has told it by READONLY.
    assert_eq!(role(&group.master, 0), "master");
    for key in ["a", "b", "c"] {
        node.execute(&acquire(key, token()), LONG).await.unwrap();
        assert!(has(&group.replica, key));
    }
    sleep(2 * ttl).await;
    let holder = group.replica.command(&["GET", "held"]).unwrap();
    match guard.is_valid() {
        true => assert_eq!(holder, Reply::Bytes(guard.token().into())),
        // On a busy machine there was no time left.
        false => {
            timeout(LONG, guard.lost()).await.unwrap();
            assert_eq!(holder, Reply::Nil);
        }
    }
}

/// A sentinel that names this server, or nobody.
fn fake(server: Option<&RedisServer>) -> FakeServer {
    let answer = match server.map(|server| server.port().to_string()) {
        Some(port) => format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len()),
        None => "*-1\r\n".to_owned(),
    };
    let answer: &'static str = answer.leak();
    FakeServer::start(move |_, words| match &*words[0] {
        b"SENTINEL" if words[2] == MASTER.as_bytes() => Act::Answer(answer),
        _ => Act::Answer("-ERR unknown command\r\n"),
    })
}

fn hung() -> FakeServer {
    FakeServer::start_raw(|_, _| Act::Silence)
}

#[apply(async_test!)]
async fn a_sentinel_that_lies_or_hangs_is_outvoted_wherever_it_is_listed() {
    let servers = RedisServer::start_many(2).unwrap();
    let [master, other] = [&servers[0], &servers[1]];
    for outvoted in [fake(Some(other)), fake(None), hung()] {
        let honest = [fake(Some(master)), fake(Some(master))];
        let mut urls = vec![outvoted.url(), honest[0].url(), honest[1].url()];
        for _ in 0..3 {
            urls.rotate_left(1);
            let node = led_by(urls.clone());
            node.execute(&acquire("k", token()), LONG).await.unwrap();
        }
    }
    assert_eq!((calls(master, "set"), calls(other, "set")), (9, 0));
}

#[apply(async_test!)]
async fn sentinels_that_disagree_are_quoted_and_nothing_is_sent_to_either_master() {
    let servers = RedisServer::start_many(2).unwrap();
    let [one, other] = [&servers[0], &servers[1]];
    let sentinels = [fake(Some(one)), fake(Some(other)), fake(None)];
    let node = led_by(sentinels.iter().map(FakeServer::url));
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let chain = chain(&error);
    let said = [
        "no majority of the sentinels names a master myMaster".to_owned(),
        one.addr().to_string(),
        other.addr().to_string(),
        "knows no such master".to_owned(),
    ];
    for said in said {
        assert!(chain.contains(&said), "{chain}");
    }
    assert_eq!(calls(one, "set") + calls(other, "set"), 0);
}

#[apply(async_test!)]
async fn a_majority_of_sentinels_that_hang_is_not_waited_for_longer_than_a_connect_may_take() {
    let sentinels = [hung(), hung(), fake(None)];
    let node = led_by(sentinels.iter().map(FakeServer::url));
    let node = node.connect_timeout(2 * SHORT);
    let error = node.execute(&acquire("k", token()), 6 * LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let chain = chain(&error);
    for hung in &sentinels[..2] {
        let named = hung.url().replace("redis://", "") + ": ";
        assert!(chain.contains(&named), "{chain}");
    }
}

#[apply(async_test!)]
async fn a_replica_that_sentinels_take_for_the_master_is_refused_by_its_role() {
    let (master, replica) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let port = master.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let sentinel = fake(Some(&replica));
    let node = led_by([sentinel.url()]);
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let chain = chain(&error);
    assert!(chain.contains(&replica.addr().to_string()), "{chain}");
    assert!(chain.contains("\"slave\", and not \"master\""), "{chain}");
    assert_eq!(calls(&replica, "set"), 0);
}

#[apply(async_test!)]
async fn sentinels_that_are_away_are_named_and_the_node_works_when_they_are_back() {
    let master = RedisServer::start().unwrap();
    let sentinels = RedisServer::builder().sentinel(MASTER, &master, 2);
    let sentinels = sentinels.start_many(3).unwrap();
    for sentinel in &sentinels {
        sentinel.kill().unwrap();
    }
    let node = led_by(sentinels.iter().map(RedisServer::url));
    // Long enough for a connect to fail by itself.
    let node = node.connect_timeout(6 * LONG);
    let error = node.execute(&acquire("k", token()), LONG).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let chain = chain(&error);
    for sentinel in &sentinels {
        let refused = format!("{}: ", sentinel.addr());
        assert!(chain.contains(&refused), "{chain}");
    }
    assert!(chain.to_lowercase().contains("refused"), "{chain}");
    for sentinel in &sentinels[..2] {
        sentinel.restart().unwrap();
    }
    until_answered(&node).await;
}

#[apply(async_test!)]
async fn sentinels_have_a_password_of_their_own() {
    let master = RedisServer::builder().arg("--requirepass", "of-the-master");
    let master = master.start().unwrap();
    let sentinels = RedisServer::builder().sentinel(MASTER, &master, 1);
    let sentinel = sentinels
        .arg("--requirepass", "of-sentinels")
        .start()
        .unwrap();
    let led = |password: &str| {
        let sentinel = format!("redis://:{password}@{}", sentinel.addr());
        let master = node(format!("redis://:of-the-master@{MASTER}"));
        master.sentinels([node(sentinel)]).unwrap()
    };
    until_answered(&led("of-sentinels")).await;
    let error = led("of-the-master")
        .execute(&acquire("k", token()), LONG)
        .await;
    let error = chain(&error.unwrap_err());
    assert!(error.contains("WRONGPASS"), "{error}");
    assert!(!error.contains("of-the-master"), "{error}");
}

/// How many clients of a sentinel listen to it.
fn listeners(sentinel: &RedisServer) -> usize {
    text(&sentinel.command(&["CLIENT", "LIST"]).unwrap())
        .matches("sub=1")
        .count()
}

#[apply(async_test!)]
async fn a_sentinel_is_listened_to_again_when_that_connection_broke() {
    let master = RedisServer::start().unwrap();
    let sentinel = RedisServer::builder().sentinel(MASTER, &master, 1);
    let sentinel = sentinel.start().unwrap();
    let node = led_by([sentinel.url()]);
    until_answered(&node).await;
    for _ in 0..2 {
        eventually("one that listens", || listeners(&sentinel) == 1).await;
        let killed = sentinel.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_eq!(killed.unwrap(), Reply::Int(1));
    }
    drop(node);
    eventually("nobody listens", || listeners(&sentinel) == 0).await;
}

#[apply(async_test!)]
async fn the_documented_permissions_are_enough_at_sentinels_and_at_their_master() {
    let master = RedisServer::start().unwrap();
    let sentinel = RedisServer::builder().sentinel(MASTER, &master, 1);
    let sentinel = sentinel.start().unwrap();
    let allow = |server: &RedisServer, rules: &str| {
        let words: Vec<_> = "ACL SETUSER locks reset on >pw"
            .split(' ')
            .chain(rules.split(' '))
            .collect();
        server.command(&words).unwrap();
    };
    let led = || {
        let sentinel = node(format!("redis://locks:pw@{}", sentinel.addr()));
        let master = node(format!("redis://locks:pw@{MASTER}"));
        master.sentinels([sentinel]).unwrap()
    };
    let locks = "~* +set +get +pttl +pexpire +del +eval +evalsha";
    allow(
        &sentinel,
        "+sentinel|get-master-addr-by-name +subscribe resetchannels &+switch-master",
    );
    allow(&master, &format!("{locks} +role"));
    let node = led();
    until_answered(&node).await;
    eventually("it listens", || listeners(&sentinel) == 1).await;

    allow(&master, locks);
    let denied = led().execute(&acquire("k", token()), LONG).await;
    let denied = denied.unwrap_err();
    assert!(denied.is_permission(), "{denied}");
    assert!(denied.to_string().contains("role"), "{denied}");
}

on_tokio! {
    #[test]
    fn a_runtime_ends_whose_node_listens_to_sentinels() {
        let master = RedisServer::start().unwrap();
        let sentinel = RedisServer::builder().sentinel(MASTER, &master, 1);
        let sentinel = sentinel.start().unwrap();
        let node = led_by([sentinel.url()]);
        for _ in 0..2 {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                until_answered(&node).await;
                eventually("it listens", || listeners(&sentinel) == 1).await;
            });
            drop(runtime);
            assert!((0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                listeners(&sentinel) == 0
            }));
        }
    }
}

#[test]
fn sentinels_that_make_no_sense_are_refused_before_anything_is_sent() {
    let master = || node(format!("redis://{MASTER}"));
    let sentinel = || node("redis://127.0.0.1:26379");
    for (built, fault) in [
        (master().sentinels([]), "the list of sentinels is empty"),
        (
            master().sentinels([sentinel(), sentinel()]),
            "127.0.0.1:26379 is listed twice",
        ),
        (
            node("redis://my~master").sentinels([sentinel()]),
            "the name of the master is \"my~master\"",
        ),
        (
            master().sentinels([master().sentinels([sentinel()]).unwrap()]),
            "myMaster@127.0.0.1:26379 is not the address of one server",
        ),
    ] {
        let error = built.unwrap_err().to_string();
        assert!(error.contains(fault), "{error}");
    }
}
