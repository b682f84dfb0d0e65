//! What a server has to allow, as `docs/acl.md` says.

use std::fmt::Display;
use std::time::SystemTime;

use lock_core::check::Finding;
use lock_core::tick::{Tick, TickJob};
use lock_core::{DistributedLockExt, LockRequest, Redlock, Reply};
use lock_testkit::{RedisCluster, RedisServer};

use super::support::*;
use crate::backend::{NAME, Node, node};

const DOCS: &str = include_str!("../../../docs/acl.md");

/// The name of the master in the docs.
const MASTER: &str = "mymaster";

/// What Redis 7.0 does not know, and so refuses in a line.
const NAMING: &str = "+client|setinfo";

/// The rules of the line that follows this part of this section, for this server.
fn documented(server: &RedisServer, heading: &str, part: &str) -> Vec<&'static str> {
    let knows = server.command(&["ACL", "SETUSER", "probe", NAMING]).is_ok();
    let after = |text: &'static str, what: &str| {
        let at = text.find(what);
        &text[at.unwrap_or_else(|| panic!("no {what} in the docs"))..]
    };
    let text = after(after(DOCS, heading), part);
    let line = text.lines().find(|line| line.starts_with("ACL SETUSER "));
    let rules = line.unwrap().split(' ').skip(2);
    rules.filter(|&rule| knows || rule != NAMING).collect()
}

/// Makes a user by a documented line, with a part of it left out. Its name is in the place of `locks`.
fn allow(server: &RedisServer, user: &str, line: &[&str], without: Option<&str>) {
    let rules = line[1..].iter().filter(|&&rule| Some(rule) != without);
    let words: Vec<_> = ["ACL", "SETUSER", user, "reset"]
        .into_iter()
        .chain(rules.copied())
        .collect();
    ask(server, &words);
    // Else nobody would need EVAL any more, and locks of the last user would be in the way. Sentinels have neither.
    server.command(&["SCRIPT", "FLUSH"]).ok();
    server.command(&["FLUSHALL"]).ok();
}

/// What was denied to a user.
fn denied(server: &RedisServer, user: &str) -> Vec<String> {
    let Reply::Array(entries) = ask(server, &["ACL", "LOG"]) else {
        panic!("no log");
    };
    let text = |reply: &Reply| match reply {
        Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let field = |entry: &Reply, name: &str| {
        let Reply::Array(fields) = entry else {
            panic!("{entry:?}");
        };
        let pair = fields.chunks(2).find(|pair| text(&pair[0]) == name);
        text(&pair.unwrap()[1])
    };
    let mine = entries.iter().filter(|it| field(it, "username") == user);
    mine.map(|it| field(it, "object")).collect()
}

/// What went wrong.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn note<T>(&mut self, what: &str, result: Result<T, impl Display>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.push(format!("{what}: {error}"));
                None
            }
        }
    }
}

/// Nobody waits for long: much of this fails on purpose.
fn locks_of(node: Node) -> Redlock<Node> {
    let builder = Redlock::builder().nodes([node]).prefix("lock:");
    let builder = builder.node_timeout(100 * MS).connect_timeout(LONG);
    builder.max_wait(200 * MS).build().unwrap()
}

/// Whatever applications do.
async fn all_of_a_lock(locks: &Redlock<Node>) -> Failures {
    let mut failures = Failures::default();
    if let Some(guard) = failures.note("lock", locks.lock("plain").await) {
        // It finds out who holds it.
        let other = LockRequest::new("plain").fail_if_held(true);
        locks.lock(other).await.err();
        failures.note("try", locks.try_lock("plain").await);
        failures.note("extend", guard.extend(60_000 * MS).await);
        failures.note("release", guard.release().await);
    }
    let kept = LockRequest::new("kept").hold_at_least(1_000 * MS);
    if let Some(guard) = failures.note("lock that is kept", locks.lock(kept).await) {
        failures.note("release that keeps", guard.release().await);
    }
    let several = LockRequest::many(["a", "b"]);
    if let Some(guard) = failures.note("several", locks.lock(several.clone()).await) {
        locks.lock(several.fail_if_held(true)).await.err();
        failures.note("release of several", guard.release().await);
    }
    let extended = LockRequest::new("extended").ttl(2_000 * MS);
    let extended = extended.auto_extend(true).extend_interval(10 * MS);
    if let Some(guard) = failures.note("extended", locks.lock(extended).await) {
        sleep(50 * MS).await;
        drop(guard);
    }
    if let Some(guard) = failures.note("handed over", locks.lock("lease").await) {
        let lease = guard.into_lease().unwrap();
        failures.note("resume", locks.resume(&lease).await);
    }
    let job = TickJob::at_instants("job").allow_fractions(true);
    let tick = Tick::at(SystemTime::now()).unwrap();
    let ran = job.build().unwrap().run(locks, tick, async |_| ()).await;
    failures.note("tick", ran);
    failures
}

/// What operators do.
async fn all_of_an_operator(locks: &Redlock<Node>, failures: &mut Failures) {
    let Some(_held) = failures.note("lock", locks.lock("looked at").await) else {
        return;
    };
    let inspection = locks.inspect("looked at").await.unwrap();
    for node in inspection.nodes() {
        failures.note("inspect", node.found.clone());
    }
    for (label, error) in locks.list("", 10).await.failures {
        failures.0.push(format!("list: {label}: {error}"));
    }
    failures.note("force", locks.force_release("looked at").await);
    let fenced = LockRequest::new("fenced").fencing(true);
    failures.note("fenced", locks.lock(fenced).await);
    let report = locks.check().await;
    for (_, finding) in report.findings() {
        // A server that keeps nothing on disk is as it is meant to be here.
        if !matches!(finding, Finding::Forgets) {
            failures.0.push(format!("check: {finding}"));
        }
    }
}

/// C41, C42.
#[apply(async_test!)]
async fn the_documented_line_for_locks_is_enough_and_each_part_of_it_is_needed() {
    let server = RedisServer::start().unwrap();
    let line = documented(&server, "## Locks", "ACL SETUSER");
    let tried = async |user: &str, without: Option<&str>| {
        allow(&server, user, &line, without);
        let url = format!("redis://{user}:password@{}", server.addr());
        let locks = locks_of(node(url));
        let failures = all_of_a_lock(&locks).await;
        (failures.0, denied(&server, user))
    };
    let (failures, denied) = tried("locks", None).await;
    assert_eq!(failures, Vec::<String>::new());
    assert!(pttl(&server, "lock:kept") <= 1_000);
    // What a client tries on its own account.
    let tries = match NAME {
        "lock-fred" => &["client|id", "client", "info"][..],
        _ => &["client|setinfo", "client"],
    };
    assert!(denied.iter().all(|it| tries.contains(&&**it)), "{denied:?}");
    for part in parts(&line) {
        let (failures, denied) = tried(&without(part), Some(part)).await;
        assert!(!failures.is_empty(), "{part}");
        assert!(is_denied(&denied, part), "{part}: {denied:?}");
    }
}

#[apply(async_test!)]
async fn the_documented_lines_for_everything_leave_the_log_empty_and_each_part_of_them_is_needed() {
    let master = RedisServer::start().unwrap();
    let sentinel = RedisServer::builder().sentinel(MASTER, &master, 1);
    let sentinel = sentinel.start().unwrap();
    let line = documented(&master, "## Everything", NAME);
    let of_sentinels = documented(&sentinel, "## Sentinels", NAME);
    let tried = async |user: &str, without: Option<&str>, at_sentinel: Option<&str>| {
        allow(&master, user, &line, without);
        allow(&sentinel, user, &of_sentinels, at_sentinel);
        let led_by = node(format!("redis://{user}:password@{}", sentinel.addr()));
        let led = node(format!("redis://{user}:password@{MASTER}/1"));
        let locks = locks_of(led.sentinels([led_by]).unwrap());
        let mut failures = all_of_a_lock(&locks).await;
        all_of_an_operator(&locks, &mut failures).await;
        (failures.0, denied(&master, user), denied(&sentinel, user))
    };
    let (failures, at_master, at_sentinel) = tried("locks", None, None).await;
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!((at_master, at_sentinel), (Vec::new(), Vec::new()));
    for part in parts(&line) {
        let (_, denied, _) = tried(&without(part), Some(part), None).await;
        assert!(is_denied(&denied, part), "{part}: {denied:?}");
    }
    for part in parts(&of_sentinels) {
        let user = format!("sentinel-{}", without(part));
        let (_, _, denied) = tried(&user, None, Some(part)).await;
        assert!(is_denied(&denied, part), "{part}: {denied:?}");
    }
}

#[apply(async_test!)]
async fn the_documented_lines_for_clusters_leave_the_log_empty_and_each_part_of_them_is_needed() {
    let cluster = RedisCluster::start(3).unwrap();
    let line = documented(&cluster.servers()[0], "## Clusters", NAME);
    let tried = async |user: &str, without: Option<&str>| {
        for server in cluster.servers() {
            allow(server, user, &line, without);
        }
        let url = |server: &RedisServer| format!("redis://{user}:password@{}", server.addr());
        let whole = Node::cluster(cluster.servers().iter().map(url).map(node)).unwrap();
        let locks = locks_of(whole);
        let mut failures = all_of_a_lock(&locks).await;
        all_of_an_operator(&locks, &mut failures).await;
        // A slot on its way: its new server has to be told that this is known.
        let slot = cluster.slot("lock:moving").unwrap();
        let to = (cluster.owner(slot) + 1) % 3;
        cluster.begin_move(slot, to).unwrap();
        failures.note("moving", locks.lock("moving").await);
        cluster.move_slot(slot, to).unwrap();
        let servers = cluster.servers().iter();
        let denied: Vec<_> = servers.flat_map(|server| denied(server, user)).collect();
        (failures.0, denied)
    };
    let (failures, denied) = tried("locks", None).await;
    assert_eq!((failures, denied), (Vec::new(), Vec::new()));
    for part in parts(&line) {
        let (_, denied) = tried(&without(part), Some(part)).await;
        assert!(is_denied(&denied, part), "{part}: {denied:?}");
    }
}

/// A user's name that can stand in a URL.
fn without(part: &str) -> String {
    let name = part.chars().filter(char::is_ascii_alphanumeric);
    format!("without-{}", name.collect::<String>())
}

/// The parts of a line that allow something.
fn parts<'a>(line: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let allows = |part: &&str| part.starts_with(['+', '~', '&']);
    line.iter().copied().filter(allows)
}

/// Whether the log says that it was this part that was missing. A key or a channel stands for its pattern.
fn is_denied(denied: &[String], part: &str) -> bool {
    let (kind, what) = part.split_at(1);
    // Redis 6.2 names the whole command.
    let command = what.split('|').next().unwrap_or(what);
    denied.iter().any(|denied| match kind {
        "~" => denied.starts_with(what.trim_end_matches('*')),
        _ => denied == what || denied == command,
    })
}
