//! What a call through the node costs over the same command sent with redis-rs alone.
//!
//! `cargo bench -p lock-redis-rs` runs it. It starts a redis-server of its own and prints the
//! pairs of SET and EVALSHA per second and the CPU time of this process for each command, in
//! turns, since a busy machine changes from one second to the next. `--features bb8` adds a node that
//! connects by a pool's manager.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::node::Operation;
use lock_core::{Command, RedisNode};
use lock_redis_rs::RedisRsNode;
use redis::IntoConnectionInfo;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use support::{RedisServer, TTL, acquire, release, token};
use tokio::runtime::{Builder, Runtime};

/// Long enough for a busy machine.
const WITHIN: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 10;

#[derive(Clone)]
enum Way {
    Raw(MultiplexedConnection),
    Node(Arc<RedisRsNode>),
}

fn main() {
    // `cargo test --all-targets` runs benches too, without this argument.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let current = || Builder::new_current_thread().enable_all().build();
    let multi = || {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
    };
    for (name, runtime, tasks) in [
        ("current-thread, 64 tasks", current(), 64),
        ("multi-thread,   64 tasks", multi(), 64),
        ("current-thread,  1 task ", current(), 1),
    ] {
        compare(name, &runtime.expect("a runtime"), tasks);
    }
}

fn compare(name: &str, runtime: &Runtime, tasks: usize) {
    let server = RedisServer::start().expect("redis-server in PATH");
    let ways = runtime.block_on(ways(&server));
    let mut results = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((_, way), results) in ways.iter().zip(&mut results) {
            results.push(runtime.block_on(run(way.clone(), tasks)));
        }
    }
    let mut raw = None;
    for ((way, _), results) in ways.iter().zip(results) {
        let (pairs, cpu) = median(results);
        let (raw_pairs, raw_cpu) = *raw.get_or_insert((pairs, cpu));
        println!(
            "{name}: {way} {pairs:.0} pairs/s, {cpu:.2} us CPU a command: {:+.1} % pairs, {:+.2} us",
            (pairs / raw_pairs - 1.0) * 100.0,
            cpu - raw_cpu,
        );
    }
}

/// redis-rs alone, which the others are compared with, and nodes over it.
async fn ways(server: &RedisServer) -> Vec<(&'static str, Way)> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    // As the node has it.
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let info = server.url().into_connection_info().expect("a URL");
    let client = redis::Client::open(info.set_tcp_settings(tcp)).expect("a URL");
    let raw = client.get_multiplexed_async_connection_with_config(&config);
    let raw = Way::Raw(raw.await.expect("a server"));
    let nodes = [
        ("node", RedisRsNode::from_client(client.clone())),
        #[cfg(feature = "bb8")]
        ("pool", {
            let pool = bb8::Pool::builder().build_unchecked(client);
            RedisRsNode::from_pool("pool", pool)
        }),
    ];
    let mut ways = vec![("raw ", raw)];
    for (name, node) in nodes {
        node.execute(&release("k", token()), Duration::from_secs(5))
            .await
            .expect("the script gets loaded");
        ways.push((name, Way::Node(Arc::new(node))));
    }
    ways
}

fn median(mut results: Vec<(f64, f64)>) -> (f64, f64) {
    let middle = results.len() / 2;
    results.sort_by(|a, b| a.0.total_cmp(&b.0));
    let pairs = results[middle].0;
    results.sort_by(|a, b| a.1.total_cmp(&b.1));
    (pairs, results[middle].1)
}

async fn run(way: Way, tasks: usize) -> (f64, f64) {
    let start = Instant::now();
    let cpu = cpu_seconds();
    let workers: Vec<_> = (0..tasks)
        .map(|task| tokio::spawn(work(way.clone(), task, start + ROUND)))
        .collect();
    let mut pairs = 0.0;
    for worker in workers {
        pairs += worker.await.expect("no panic");
    }
    let cpu = (cpu_seconds() - cpu) * 1e6 / (2.0 * pairs);
    (pairs / start.elapsed().as_secs_f64(), cpu)
}

async fn work(way: Way, task: usize, end: Instant) -> f64 {
    let key = format!("bench:{task}");
    // By digest, as locks send it; the script is loaded.
    let by_digest = |token| Command::from(Operation::clone(release(&key, token).operation()));
    let digest = String::from_utf8_lossy(&by_digest(token()).args()[1]).into_owned();
    let mut pairs = 0.0;
    while Instant::now() < end {
        let token = token();
        match &way {
            Way::Raw(connection) => {
                let mut connection = connection.clone();
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(token.as_str()).arg("NX").arg("PX");
                set.arg(TTL.as_millis() as u64);
                connection.req_packed_command(&set).await.expect("a reply");
                let mut del = redis::cmd("EVALSHA");
                del.arg(&digest).arg(1).arg(&key).arg(token.as_str()).arg(0);
                connection.req_packed_command(&del).await.expect("a reply");
            }
            Way::Node(node) => {
                let set = acquire(&key, token);
                node.execute(&set, WITHIN).await.expect("a reply");
                let del = by_digest(token);
                node.execute(&del, WITHIN).await.expect("a reply");
            }
        }
        pairs += 1.0;
    }
    pairs
}

/// User and system time of this process, in ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    fields.get(11..13).map_or(0.0, |times| times[0] + times[1]) / 100.0
}
