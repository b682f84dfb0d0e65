//! What a call through the node costs over the same command sent with redis-rs alone.
//!
//! `cargo bench -p lock-redis-rs` runs it. It starts a redis-server of its own and prints the
//! pairs of SET and EVALSHA per second and the CPU time of this process for each command, in
//! turns, since a busy machine changes from one second to the next.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::node::Operation;
use lock_core::{Command, RedisNode};
use lock_redis_rs::RedisRsNode;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use support::{RedisServer, TTL, acquire, release, token};
use tokio::runtime::{Builder, Runtime};

const WITHIN: Duration = Duration::from_millis(100);
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
    let ways = runtime.block_on(async {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(server.url()).expect("a URL");
        let raw = client.get_multiplexed_async_connection_with_config(&config);
        let node = Arc::new(RedisRsNode::new(server.url()).expect("a URL"));
        node.execute(&release("k", token()), Duration::from_secs(5))
            .await
            .expect("the script gets loaded");
        [Way::Raw(raw.await.expect("a server")), Way::Node(node)]
    });
    let mut results = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        let which = round % 2;
        let (pairs, cpu) = runtime.block_on(run(ways[which].clone(), tasks));
        results[which].push((pairs, cpu));
    }
    let [(raw_pairs, raw_cpu), (node_pairs, node_cpu)] = results.map(median);
    println!(
        "{name}: raw {raw_pairs:.0} pairs/s, {raw_cpu:.2} us CPU a command; node {node_pairs:.0} \
         pairs/s, {node_cpu:.2} us: {:+.1} % pairs, {:+.2} us",
        (node_pairs / raw_pairs - 1.0) * 100.0,
        node_cpu - raw_cpu,
    );
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
