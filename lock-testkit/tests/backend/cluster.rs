//! A whole cluster as one node.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use lock_core::backend::Credentials;
use lock_core::node::NodeErrorKind;
use lock_core::runtime::ambient;
use lock_core::{
    DistributedLockExt, LockGuard, LockRequest, RedisNode, Redlock, RedlockBuilder, Reply,
};
use lock_testkit::{RedisCluster, RedisServer};

use crate::backend::{Node, node};
use crate::support::*;

/// A failover takes seconds, on a busy machine more.
const FAILOVER: Duration = Duration::from_secs(60);

fn whole(cluster: &RedisCluster) -> Node {
    of(cluster.urls())
}

fn of(urls: impl IntoIterator<Item = String>) -> Node {
    Node::cluster(urls.into_iter().map(node)).unwrap()
}

fn builder(cluster: &RedisCluster) -> RedlockBuilder<Node> {
    let nodes = [whole(cluster)];
    Redlock::builder().nodes(nodes).node_timeout(LONG / 20)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("k{number}")).collect()
}

/// How many keys there are on all servers that run.
fn all_keys(cluster: &RedisCluster) -> i64 {
    let up = cluster.servers().iter();
    up.filter(|server| server.pid().is_some()).map(keys).sum()
}

async fn held(locks: &Redlock<Node>, names: &[String], ttl: Duration) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for name in names {
        let request = LockRequest::new(name).ttl(ttl).auto_extend(true);
        guards.push(locks.lock(request.max_wait(LONG)).await.unwrap());
    }
    guards
}

#[apply(async_test!)]
async fn locks_of_a_cluster_are_where_their_slots_are_and_each_command_is_sent_once() {
    let cluster = RedisCluster::start(3).unwrap();
    let locks = builder(&cluster).build().unwrap();
    let names = names(60);
    let guards = held(&locks, &names, TTL).await;
    let sets: u64 = cluster
        .servers()
        .iter()
        .map(|server| calls(server, "set"))
        .sum();
    assert_eq!(sets, 60);
    for (name, guard) in names.iter().zip(&guards) {
        let holder = cluster.server_of(name).unwrap().command(&["GET", name]);
        assert_eq!(holder.unwrap(), Reply::Bytes(guard.token().into()));
        assert!(locks.try_lock(name).await.unwrap().is_none(), "{name}");
    }
    let inspection = locks.inspect("k7").await.unwrap();
    assert!(inspection.holder().is_some(), "{inspection:?}");
    let listed = locks.list("", 100).await;
    assert_eq!(listed.locks.len(), 60, "{listed:?}");
    assert!(locks.force_release("k7").await.unwrap());
    assert_eq!(all_keys(&cluster), 59);
    for guard in guards {
        guard.release().await.ok();
    }
    assert_eq!(all_keys(&cluster), 0);
    for server in cluster.servers() {
        let moved = server.command(&["INFO", "errorstats"]).unwrap();
        assert!(!format!("{moved:?}").contains("MOVED"), "{moved:?}");
    }
}

#[apply(async_test!)]
async fn several_resources_of_a_cluster_are_held_all_or_none_and_a_batch_is_extended_slot_by_slot()
{
    let cluster = RedisCluster::start(3).unwrap();
    let locks = builder(&cluster).build().unwrap();
    let several = LockRequest::many(["a", "b", "c"]).max_wait(LONG);
    let guard = locks.lock(several.clone()).await.unwrap();
    assert_eq!(all_keys(&cluster), 3);
    assert!(locks.try_lock("b").await.unwrap().is_none());
    assert!(
        locks
            .try_lock(LockRequest::many(["c", "d"]))
            .await
            .unwrap()
            .is_none()
    );
    guard.release().await.unwrap();
    eventually("nothing is left", || all_keys(&cluster) == 0).await;

    let ttl = Duration::from_millis(1500);
    let names = names(50);
    let guards = held(&locks, &names, ttl).await;
    sleep(3 * ttl).await;
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();
    assert_eq!(lost, 0);
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[apply(async_test!)]
async fn a_thousand_locks_live_on_while_all_slots_of_their_master_move() {
    let cluster = Arc::new(RedisCluster::start(3).unwrap());
    let locks = builder(&cluster).build().unwrap();
    let slots = cluster.slots_of(0);
    let own = names(6000).into_iter();
    let own = own.filter(|name| slots.contains(&cluster_slot(name)));
    let names: Vec<_> = own.take(1000).collect();
    assert_eq!(names.len(), 1000);
    let ttl = Duration::from_secs(10);
    let guards = held(&locks, &names, ttl).await;
    assert_eq!(keys(&cluster.servers()[0]), 1000);
    let start = Instant::now();
    let mover = {
        let cluster = Arc::clone(&cluster);
        thread::spawn(move || cluster.move_slots(slots, 1))
    };
    // Others come and go meanwhile.
    let mut taken = 0;
    while !mover.is_finished() || start.elapsed() < ttl * 3 / 2 {
        let request = LockRequest::new(format!("other-{taken}")).max_wait(LONG);
        let other = locks.lock(request).await.unwrap();
        other.release().await.unwrap();
        taken += 1;
        sleep(Duration::from_millis(2)).await;
    }
    mover.join().unwrap().unwrap();
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();
    assert_eq!(lost, 0, "of 1000, in {:?}", start.elapsed());
    // The one that has lost all its slots may be a replica by now.
    let masters = &cluster.servers()[1..];
    eventually("no others", || {
        masters.iter().map(keys).sum::<i64>() == 1000
    })
    .await;
    for (name, guard) in names.iter().zip(&guards) {
        let holder = cluster.servers()[1].command(&["GET", name]).unwrap();
        assert_eq!(holder, Reply::Bytes(guard.token().into()));
    }
    println!("{taken} others, in {:?}", start.elapsed());
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_eq!(masters.iter().map(keys).sum::<i64>(), 0);
}

/// By the specification, so that no server has to be asked thousands of times.
fn cluster_slot(key: &str) -> u16 {
    let crc = key.bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 }
        })
    });
    crc % 16_384
}

#[apply(async_test!)]
async fn a_key_of_a_slot_that_is_being_moved_is_found_on_either_side() {
    let cluster = RedisCluster::start(2).unwrap();
    let locks = builder(&cluster).build().unwrap();
    // Of one slot.
    let names: Vec<_> = (0..20).map(|number| format!("{{tag}}{number}")).collect();
    let ttl = Duration::from_millis(1500);
    let slot = cluster.slot("{tag}").unwrap();
    let (from, to) = (cluster.owner(slot), 1 - cluster.owner(slot));
    let [source, target] = [from, to].map(|number| &cluster.servers()[number]);
    let guards = held(&locks, &names[..10], ttl).await;
    cluster.begin_move(slot, to).unwrap();
    let later = held(&locks, &names[10..], ttl).await;
    assert_eq!((keys(source), keys(target)), (10, 10));
    assert!(calls(target, "asking") >= 10);
    // Commands with keys of both sides are refused by TRYAGAIN.
    sleep(2 * ttl).await;
    let valid = |guards: &[LockGuard]| guards.iter().all(LockGuard::is_valid);
    assert!(valid(&guards) && valid(&later));
    for name in &names {
        assert!(locks.try_lock(name).await.unwrap().is_none(), "{name}");
    }
    cluster.move_keys(slot, to).unwrap();
    cluster.end_move(slot, to).unwrap();
    sleep(2 * ttl).await;
    assert!(valid(&guards) && valid(&later));
    for guard in guards.into_iter().chain(later) {
        guard.release().await.unwrap();
    }
    assert_eq!(all_keys(&cluster), 0);
}

#[apply(async_test!)]
async fn a_slot_that_nobody_has_is_an_outage_of_its_names_alone() {
    let cluster = RedisCluster::start(2).unwrap();
    let node = whole(&cluster);
    until_answered(&node).await;
    let slot = cluster.slot("k").unwrap().to_string();
    for server in cluster.servers() {
        server.command(&["CLUSTER", "DELSLOTS", &slot]).ok();
    }
    let start = Instant::now();
    loop {
        let error = node.execute(&acquire("k", token()), LONG).await;
        match error.map_err(|error| error.code().map(str::to_owned)) {
            Err(Some(code)) if code == "CLUSTERDOWN" => break,
            _ => assert!(start.elapsed() < LONG, "never told"),
        }
        sleep(SHORT / 10).await;
    }
    node.execute(&acquire("a", token()), LONG).await.unwrap();
    node.execute(&acquire("b", token()), LONG).await.unwrap();
}

#[apply(async_test!)]
async fn locks_live_on_when_a_master_dies_and_its_replica_takes_its_place() {
    let mut cluster = RedisCluster::start(3).unwrap();
    let replica = cluster.add_replica(0).unwrap();
    let locks = builder(&cluster).build().unwrap();
    let names = names(60);
    let ttl = Duration::from_secs(30);
    let guards = held(&locks, &names, ttl).await;
    let [master, replica] = [0, replica].map(|number| &cluster.servers()[number]);
    let own = keys(master);
    assert!(own > 0);
    eventually("copies", || keys(replica) == own).await;

    master.kill().unwrap();
    let killed = Instant::now();
    let slots = cluster.slots_of(0);
    let mut others = (0..).map(|number| format!("other-{number}"));
    // Those of other masters go on meanwhile.
    let elsewhere = others
        .find(|name| !slots.contains(&cluster_slot(name)))
        .unwrap();
    let request = LockRequest::new(elsewhere).max_wait(LONG);
    locks.lock(request).await.unwrap().release().await.unwrap();
    let there = others
        .find(|name| slots.contains(&cluster_slot(name)))
        .unwrap();
    let request = LockRequest::new(there).max_wait(FAILOVER);
    let guard = locks.lock(request).await.unwrap();
    println!("served again after {:?}", killed.elapsed());
    guard.release().await.unwrap();
    for guard in &guards {
        guard.extend(ttl).await.unwrap();
    }
    assert_eq!(keys(replica), own);
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_eq!(all_keys(&cluster), 0);
}

#[apply(async_test!)]
async fn a_master_that_dies_costs_no_lock_of_the_others_and_is_found_when_it_is_back() {
    let cluster = RedisCluster::start(3).unwrap();
    let locks = builder(&cluster).build().unwrap();
    let names = names(60);
    let ttl = Duration::from_millis(2500);
    let guards = held(&locks, &names, ttl).await;
    cluster.servers()[0].command(&["SAVE"]).unwrap();
    cluster.servers()[0].kill().unwrap();
    sleep(3 * ttl).await;
    let slots = cluster.slots_of(0);
    for (name, guard) in names.iter().zip(&guards) {
        let is_there = slots.contains(&cluster_slot(name));
        assert_eq!(guard.is_valid(), !is_there, "{name}");
    }
    cluster.servers()[0].restart_with_data().unwrap();
    let name = names
        .iter()
        .find(|name| slots.contains(&cluster_slot(name)));
    let request = LockRequest::new(name.unwrap()).max_wait(FAILOVER);
    locks.lock(request).await.unwrap().release().await.unwrap();
}

#[apply(async_test!)]
async fn a_master_that_hangs_costs_no_lock_of_the_others() {
    let cluster = RedisCluster::start(3).unwrap();
    let locks = builder(&cluster).build().unwrap();
    let names = names(60);
    let ttl = Duration::from_millis(4000);
    let guards = held(&locks, &names, ttl).await;
    cluster.servers()[0].pause().unwrap();
    sleep(3 * ttl).await;
    let slots = cluster.slots_of(0);
    for (name, guard) in names.iter().zip(&guards) {
        let is_there = slots.contains(&cluster_slot(name));
        assert_eq!(guard.is_valid(), !is_there, "{name}");
    }
    cluster.servers()[0].resume().unwrap();
}

#[apply(async_test!)]
async fn one_listed_server_is_enough_and_those_that_are_away_or_know_nothing_do_no_harm() {
    let cluster = RedisCluster::start(3).unwrap();
    let lonely = RedisServer::builder().arg("--cluster-enabled", "yes");
    let lonely = lonely.start().unwrap();
    let plain = RedisServer::start().unwrap();
    let gone = RedisServer::start().unwrap();
    gone.kill().unwrap();
    let hung = FakeServer::start_raw(|_, _| Act::Silence);
    let odd = [lonely.url(), plain.url(), gone.url(), hung.url()];
    let last = cluster.servers()[2].url();
    let node = of(odd.into_iter().chain([last]));
    let keys = ["a", "b", "k0", "k1"];
    for key in keys {
        node.execute(&acquire(key, token()), LONG).await.unwrap();
    }
    assert_eq!(all_keys(&cluster), 4);
    let used: BTreeSet<_> = keys.map(|key| cluster.owner(cluster_slot(key))).into();
    assert!(used.len() > 1, "{used:?}");
}

#[apply(async_test!)]
async fn a_server_without_a_cluster_is_told_as_such_and_gets_no_lock() {
    let plain = RedisServer::start().unwrap();
    let node = of([plain.url()]);
    let error = node
        .execute(&acquire("k", token()), LONG)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let told = chain(&error);
    let expected = format!("{} is not a server of a cluster", plain.addr());
    assert!(told.contains(&expected), "{told}");
    assert_eq!(calls(&plain, "set"), 0);
}

#[apply(async_test!)]
async fn all_servers_of_a_cluster_are_logged_in_to_as_the_first_one_is() {
    let builder = RedisServer::builder().arg("--requirepass", "s3cr3t/p@ss");
    let cluster = RedisCluster::start_with(&builder, 2).unwrap();
    let node = of(cluster.urls());
    for key in ["a", "b"] {
        node.execute(&acquire(key, token()), LONG).await.unwrap();
    }
    let slot = cluster.slot("a").unwrap();
    cluster.move_slot(slot, 1 - cluster.owner(slot)).unwrap();
    let refused = node.execute(&acquire("a", token()), LONG).await;
    assert_eq!(refused.unwrap(), Reply::Nil);
    assert!(!format!("{node:?} {}", node.label()).contains("s3cr3t"));
    let without = of(cluster
        .servers()
        .iter()
        .map(|server| format!("redis://{}", server.addr())));
    let error = without.execute(&acquire("a", token()), LONG).await;
    assert_eq!(error.unwrap_err().code(), Some("NOAUTH"));
}

#[apply(async_test!)]
async fn credentials_are_asked_for_at_each_connect_to_any_of_the_servers() {
    let builder = RedisServer::builder().arg("--requirepass", "pw");
    let cluster = RedisCluster::start_with(&builder, 2).unwrap();
    let addrs = cluster.servers().iter().map(|server| server.addr());
    let asked = Arc::new(AtomicUsize::new(0));
    let node = of(addrs.map(|addr| format!("redis://{addr}"))).credentials_at_connect({
        let asked = Arc::clone(&asked);
        move || {
            asked.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, std::io::Error>(Credentials::password_only("pw")) }
        }
    });
    for key in ["a", "b"] {
        node.execute(&acquire(key, token()), LONG).await.unwrap();
    }
    // Each server for the map, and then each for its slots.
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

#[apply(async_test!)]
async fn connections_end_with_the_slots_of_their_servers_and_with_the_node() {
    let cluster = RedisCluster::start(2).unwrap();
    let node = whole(&cluster);
    // No key is moved: a server keeps the connection for that for ten seconds.
    for key in ["a", "b"] {
        node.execute(&release(key, token()), LONG).await.unwrap();
    }
    let clients = |number: usize| -> usize {
        let list = cluster.servers()[number].command(&["CLIENT", "LIST", "TYPE", "normal"]);
        match list.unwrap() {
            // This one is among them.
            Reply::Bytes(list) => String::from_utf8(list).unwrap().lines().count() - 1,
            other => panic!("{other:?}"),
        }
    };
    eventually("a connection to each", || {
        (clients(0), clients(1)) == (1, 1)
    })
    .await;
    cluster.move_slots(cluster.slots_of(0), 1).unwrap();
    let key = if cluster_slot("a") < 8192 { "a" } else { "b" };
    node.execute(&release(key, token()), LONG).await.unwrap();
    eventually("one connection", || (clients(0), clients(1)) == (0, 1)).await;
    drop(node);
    eventually("none", || (clients(0), clients(1)) == (0, 0)).await;
}

#[apply(async_test!)]
async fn a_command_that_is_sent_on_by_ask_has_asking_right_before_it_whatever_else_is_sent() {
    let target = FakeServer::start(|_, words| match &*words[0] {
        b"EVAL" => Act::Answer(":0\r\n"),
        _ => Act::Answer("+OK\r\n"),
    });
    let port = Arc::new(OnceLock::<String>::new());
    let source = {
        let (port, to) = (Arc::clone(&port), target.port());
        let ask: &'static str = format!("-ASK 3300 127.0.0.1:{to}\r\n").leak();
        FakeServer::start(move |_, words| match &*words[0] {
            b"CLUSTER" if words[1] == b"SLOTS" => {
                let from = port.get().unwrap();
                let range = |range, port: &str| {
                    format!("*3\r\n{range}*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
                };
                let low = range(":0\r\n:8191\r\n", from);
                let high = range(":8192\r\n:16383\r\n", &to.to_string());
                Act::Answer(format!("*2\r\n{low}{high}").leak())
            }
            b"CLUSTER" => Act::Answer("+id\r\n"),
            _ => Act::Answer(ask),
        })
    };
    port.set(source.port().to_string()).unwrap();
    let node = Arc::new(of([source.url()]));
    // The slots of "a" and "b" are 15495 and 3300.
    let calls = (0..400).map(|number| {
        let node = Arc::clone(&node);
        async move {
            if number % 2 == 0 {
                let key = format!("{{b}}{number}");
                let set = node.execute(&acquire(key, token()), LONG).await;
                assert_eq!(set.unwrap(), Reply::ok());
            } else {
                let key = format!("{{a}}{number}");
                node.execute(&release(key, token()), LONG).await.unwrap();
            }
        }
    });
    all(calls).await;
    let received = target.received();
    let count = |name: &str| received.iter().filter(|word| **word == name).count();
    assert_eq!(
        (count("SET"), count("ASKING"), count("EVAL")),
        (200, 200, 200)
    );
    for pair in received.windows(2) {
        assert_eq!(pair[0] == "ASKING", pair[1] == "SET", "{received:?}");
    }
}

/// Runs them at the same time, each in a task of its own.
async fn all(calls: impl Iterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let runtime = ambient();
    let ends: Vec<_> = calls
        .map(|call| {
            let (end, ended) = oneshot::channel();
            runtime.spawn(Box::pin(async move {
                call.await;
                end.send(()).ok();
            }));
            ended
        })
        .collect();
    for ended in ends {
        ended.await.unwrap();
    }
}

#[apply(async_test!)]
async fn servers_that_say_only_their_ports_are_where_the_one_is_that_was_asked() {
    let cluster = RedisCluster::start(2).unwrap();
    for server in cluster.servers() {
        let words = [
            "CONFIG",
            "SET",
            "cluster-preferred-endpoint-type",
            "unknown-endpoint",
        ];
        if server.command(&words).is_err() {
            // Redis before 7.0 always says an address.
            return;
        }
    }
    let node = whole(&cluster);
    for key in ["a", "b"] {
        node.execute(&acquire(key, token()), LONG).await.unwrap();
    }
    let slot = cluster.slot("a").unwrap();
    cluster.move_slot(slot, 1 - cluster.owner(slot)).unwrap();
    let refused = node.execute(&acquire("a", token()), LONG).await;
    assert_eq!(refused.unwrap(), Reply::Nil);
}

#[test]
fn servers_that_make_no_cluster_are_refused_before_anything_is_sent() {
    let refused = |nodes: Vec<Node>| Node::cluster(nodes).unwrap_err().to_string();
    let one = || node("redis://u:s3cr3t@127.0.0.1:7000");
    let empty = refused(Vec::new());
    assert!(empty.contains("the list of servers is empty"), "{empty}");
    let twice = refused(vec![one(), one()]);
    assert!(twice.contains("127.0.0.1:7000 is listed twice"), "{twice}");
    assert!(!twice.contains("s3cr3t"), "{twice}");
    let whole = Node::cluster([one()]).unwrap();
    let again = refused(vec![whole]);
    assert!(
        again.contains("cluster@127.0.0.1:7000 is not the address"),
        "{again}"
    );
    let led = node("redis://mymaster").sentinels([node("redis://127.0.0.1:26379")]);
    let led = refused(vec![led.unwrap()]);
    assert!(led.contains("is led by sentinels"), "{led}");
    let whole = Node::cluster([one()]).unwrap();
    let error = whole.sentinels([one()]).unwrap_err().to_string();
    assert!(
        error.contains("is not the address of one server"),
        "{error}"
    );
}
