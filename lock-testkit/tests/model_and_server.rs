//! A `MemoryNode` answers what a real server answers through each backend, over RESP2 and RESP3.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use common::{
    LONG, acquire, acquire_all, acquire_fenced, acquire_or_report, confirm, exchange, extend,
    inspect, millis, release, release_all, release_keeping, remove, token,
};
use futures::executor::block_on;
use lock_core::{Command, NodeError, RedisNode, Reply, Token};
use lock_fred::FredNode;
use lock_redis_rs::RedisRsNode;
use lock_testkit::{Connection, MemoryNode, RedisServer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

/// Lifetimes differ by this or more, so that none is mistaken for another on a slow machine.
const HOUR: u64 = 3_600_000;

/// Far more than passes between the two answers to one command.
const PTTL_TOLERANCE_MILLIS: i64 = 600_000;

/// What is done to the model and to the server.
#[derive(Clone, Debug)]
enum Step {
    Send(Command),
    SetForeign(&'static str, Vec<u8>),
    SetHash(&'static str),
    Expire(&'static str, u64),
    Delete(&'static str),
}

/// The backend's calls are made on this runtime, one after the other.
static TOKIO: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// How commands reach the server.
#[derive(Clone, Copy, Debug)]
enum Way {
    RedisRs(&'static str),
    Fred(&'static str),
}

/// Each backend over each version of the protocol.
const WAYS: [Way; 4] = [
    Way::RedisRs("resp2"),
    Way::RedisRs("resp3"),
    Way::Fred("resp2"),
    Way::Fred("resp3"),
];

impl Way {
    fn to(self, server: &RedisServer) -> Box<dyn RedisNode> {
        let url = |protocol| format!("{}?protocol={protocol}", server.url());
        match self {
            Self::RedisRs(protocol) => Box::new(RedisRsNode::new(url(protocol)).unwrap()),
            Self::Fred(protocol) => Box::new(FredNode::new(url(protocol)).unwrap()),
        }
    }
}

struct Both {
    model: MemoryNode,
    /// To look at the server's keys, and to change them from outside.
    server: Connection,
    /// Commands go this way.
    node: Box<dyn RedisNode>,
}

impl Both {
    fn start(server: &RedisServer, way: Way) -> Self {
        let node = way.to(server);
        let mut server = server.connect().unwrap();
        server.command(&["FLUSHALL"]).unwrap();
        Self {
            model: MemoryNode::new("model"),
            server,
            node,
        }
    }

    /// The backend's answer. A script goes by digest first and by source if it is not known, as
    /// the lock sends it.
    fn of_node(&self, command: &Command) -> Result<Reply, NodeError> {
        TOKIO.block_on(async {
            match self.node.execute(command, LONG).await {
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    self.node.execute(&command.with_source(), LONG).await
                }
                answer => answer,
            }
        })
    }

    fn of_server<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Reply {
        self.server.command(words).unwrap()
    }

    /// Does the step to both and compares the answers, then what both hold.
    fn step(&mut self, step: &Step) {
        match step {
            Step::Send(command) => {
                let model = block_on(self.model.execute(command, LONG));
                let server = self.of_node(command);
                let is_alike = match (&model, &server) {
                    (Ok(model), Ok(server)) => alike(model, server),
                    (Err(model), Err(server)) => {
                        (model.kind(), model.to_string()) == (server.kind(), server.to_string())
                    }
                    _ => false,
                };
                assert!(is_alike, "{step:?}: {model:?}, {server:?}");
            }
            Step::SetForeign(key, value) => {
                self.model.set_foreign(key, value.as_slice());
                self.of_server(&[b"SET", key.as_bytes(), value]);
            }
            Step::SetHash(key) => {
                self.model.set_other_type(key);
                self.of_server(&["DEL", key]);
                self.of_server(&["HSET", key, "field", "value"]);
            }
            Step::Expire(key, ttl) => {
                let model = self.model.expire(key, millis(*ttl));
                let server = self.of_server(&["PEXPIRE", key, &ttl.to_string()]);
                assert_eq!(Reply::Int(model.into()), server, "{step:?}");
            }
            Step::Delete(key) => {
                let model = self.model.remove(key);
                let server = self.of_server(&["DEL", key]);
                assert_eq!(Reply::Int(model.into()), server, "{step:?}");
            }
        }
        self.compare_keys(step);
    }

    fn compare_keys(&mut self, after: &Step) {
        let keys = self.model.keys();
        let size = i64::try_from(keys.len()).unwrap();
        assert_eq!(self.of_server(&["DBSIZE"]), Reply::Int(size), "{after:?}");
        for key in keys {
            let model = Reply::Int(self.model.pttl(&key));
            let server = self.of_server(&[b"PTTL".as_slice(), &key]);
            assert!(alike(&model, &server), "{after:?}: {model:?}, {server:?}");
            if let Some(value) = self.model.get(&key) {
                let server = self.of_server(&[b"GET".as_slice(), &key]);
                assert_eq!(Reply::Bytes(value), server, "{after:?}");
            }
        }
    }
}

/// Equal, but for the time that passed between two readings of a lifetime.
fn alike(model: &Reply, server: &Reply) -> bool {
    match (model, server) {
        (Reply::Array(model), Reply::Array(server)) => {
            let mut pairs = model.iter().zip(server);
            model.len() == server.len() && pairs.all(|(model, server)| alike(model, server))
        }
        (Reply::Int(model), Reply::Int(server)) if *model > PTTL_TOLERANCE_MILLIS => {
            (model - server).abs() < PTTL_TOLERANCE_MILLIS
        }
        (model, server) => model == server,
    }
}

const COUNTER: &str = "{k}:counter";

/// Above what any clock shows, so that model and server count from the same number.
const FLOOR: u64 = 1 << 51;

/// The operations, each with one token on one key.
fn every_command(key: &'static str, token: Token) -> Vec<Step> {
    let commands = [
        acquire(key, token, 2 * HOUR),
        acquire_or_report(key, token, 2 * HOUR),
        extend(&[(key, token, HOUR)]),
        extend(&[(key, token, 3 * HOUR)]),
        extend(&[
            ("a", token, 5 * HOUR),
            ("missing", token, HOUR),
            (key, token, 5 * HOUR),
        ]),
        exchange(&[key], &[token], token, 4 * HOUR),
        exchange(&["a", "missing", key], &[token], self::token(), 6 * HOUR),
        exchange(&[], &[token], token, HOUR),
        release_keeping(key, token, millis(10 * HOUR)),
        release_keeping(key, token, Duration::from_nanos(HOUR * 1_000_000 - 1)),
        inspect(key),
        release_all(&["a", key, "missing"], token, millis(10 * HOUR)),
        release_all(
            &[key, "a"],
            token,
            Duration::from_nanos(HOUR * 1_000_000 - 1),
        ),
        release(key, token),
        release(key, token),
        inspect(key),
        acquire_all(&["b", key, "c"], token, 2 * HOUR),
        acquire_all(&[key, "d"], token, 3 * HOUR),
        release_all(&["c", "missing", key], token, Duration::ZERO),
        release_all(&[], token, Duration::ZERO),
        confirm(&[key], token, FLOOR + 1, FLOOR + 5),
        acquire_fenced(&[key], token, 2 * HOUR, FLOOR),
        acquire_fenced(&[key], token, 3 * HOUR, FLOOR),
        confirm(&[key], token, FLOOR + 1, FLOOR + 5),
        confirm(&[key], token, FLOOR + 1, FLOOR + 5),
        acquire_fenced(&[key, "d"], token, 3 * HOUR, FLOOR),
        release_all(&["d", key], token, Duration::ZERO),
        acquire_fenced(&["d", key, "missing"], self::token(), 2 * HOUR, FLOOR),
        acquire_fenced(&["missing", key], token, 2 * HOUR, FLOOR),
        remove("b"),
        remove(key),
        remove(key),
    ];
    commands.map(Step::Send).to_vec()
}

#[test]
fn each_operation_is_answered_alike_whatever_the_key_holds() {
    let server = RedisServer::start().unwrap();
    let (mine, other) = (token(), token());
    let found: [Vec<Step>; 15] = [
        vec![],
        vec![Step::Send(acquire("k", mine, 2 * HOUR))],
        vec![Step::SetForeign("k", mine.as_bytes().to_vec())],
        vec![Step::Send(acquire_or_report("k", other, 2 * HOUR))],
        vec![Step::SetForeign("k", b"foreign".to_vec())],
        vec![
            Step::SetForeign("k", b"".to_vec()),
            Step::Expire("k", 2 * HOUR),
        ],
        vec![Step::SetForeign("k", vec![0xff; 128])],
        vec![Step::SetForeign("k", vec![0; 129])],
        vec![Step::SetHash("k")],
        vec![Step::SetHash("k"), Step::Expire("k", 2 * HOUR)],
        vec![Step::SetHash(COUNTER)],
        vec![Step::SetForeign(COUNTER, b"7".to_vec())],
        vec![Step::SetForeign(
            COUNTER,
            b"2251799813685249 \xff\0".to_vec(),
        )],
        vec![Step::SetForeign(COUNTER, b"9007199254740991 x".to_vec())],
        vec![
            Step::Send(acquire("k", mine, 2 * HOUR)),
            Step::SetForeign(COUNTER, [b"2251799813685255 ", mine.as_bytes()].concat()),
        ],
    ];
    for (prepare, way) in found.iter().flat_map(|found| WAYS.map(|way| (found, way))) {
        // Each operation meets the prepared key, and then all meet what the ones before left.
        for command in every_command("k", mine) {
            let mut both = Both::start(&server, way);
            prepare.iter().for_each(|step| both.step(step));
            both.step(&command);
        }
        let mut both = Both::start(&server, way);
        prepare.iter().for_each(|step| both.step(step));
        every_command("k", mine)
            .iter()
            .for_each(|step| both.step(step));
    }
}

#[test]
fn keys_expire_in_both() {
    let server = RedisServer::start().unwrap();
    for way in WAYS {
        let mut both = Both::start(&server, way);
        let mine = token();
        both.step(&Step::Send(acquire("kept", mine, HOUR)));
        for command in [acquire("k", mine, 20), acquire_or_report("l", mine, 20)] {
            // Whether they are still there right afterwards is a matter of this machine's speed.
            block_on(both.model.execute(&command, LONG)).unwrap();
            both.of_node(&command).unwrap();
        }
        thread::sleep(millis(100));
        both.step(&Step::Send(extend(&[("k", mine, HOUR), ("l", mine, HOUR)])));
        both.step(&Step::Send(release("k", mine)));
        both.step(&Step::Send(acquire("k", token(), HOUR)));
    }
}

fn any_step(tokens: [Token; 2]) -> impl Strategy<Value = Step> {
    let key = || prop::sample::select(vec!["a", "b"]);
    let token = || prop::sample::select(tokens.to_vec());
    let hours = || (1..=4_u64).prop_map(|hours| hours * HOUR);
    let value = prop_oneof![
        token().prop_map(|token| token.as_bytes().to_vec()),
        vec(any::<u8>(), 0..200),
    ];
    let extended = vec((key(), token(), hours()), 0..4);
    let several = || prop::sample::subsequence(vec!["a", "b", "c"], 1..=3).prop_shuffle();
    let keep = || prop_oneof![Just(0), hours()].prop_map(millis);
    let fenced = || prop::sample::subsequence(vec!["a", "b"], 1..=2).prop_shuffle();
    let number = || (1..=4_u64).prop_map(|number| FLOOR + number);
    let counter = || prop::sample::select(vec!["{a}:counter", "{b}:counter"]);
    let count = prop_oneof![
        3 => (number(), token())
            .prop_map(|(n, t)| [format!("{n} ").as_bytes(), t.as_bytes()].concat()),
        1 => vec(any::<u8>(), 0..20),
    ];
    let send = |command| Step::Send(command);
    prop_oneof![
        3 => (key(), token(), hours()).prop_map(move |(k, t, h)| send(acquire(k, t, h))),
        3 => (key(), token(), hours()).prop_map(move |(k, t, h)| send(acquire_or_report(k, t, h))),
        3 => extended.prop_map(move |entries| send(extend(&entries))),
        3 => (several(), vec(token(), 0..3), token(), hours())
            .prop_map(move |(keys, old, t, h)| send(exchange(&keys, &old, t, h))),
        2 => (key(), token()).prop_map(move |(k, t)| send(release(k, t))),
        2 => (key(), token(), hours())
            .prop_map(move |(k, t, h)| send(release_keeping(k, t, millis(h)))),
        3 => (several(), token(), hours())
            .prop_map(move |(keys, t, h)| send(acquire_all(&keys, t, h))),
        2 => (several(), token(), keep())
            .prop_map(move |(keys, t, keep)| send(release_all(&keys, t, keep))),
        4 => (fenced(), token(), hours(), number())
            .prop_map(move |(keys, t, h, above)| send(acquire_fenced(&keys, t, h, above))),
        3 => (fenced(), token(), number(), number())
            .prop_map(move |(keys, t, n, raised)| send(confirm(&keys, t, n, raised))),
        1 => (counter(), count).prop_map(|(k, v)| Step::SetForeign(k, v)),
        1 => counter().prop_map(Step::SetHash),
        1 => counter().prop_map(Step::Delete),
        1 => key().prop_map(move |k| send(inspect(k))),
        1 => key().prop_map(move |k| send(remove(k))),
        1 => (key(), value).prop_map(|(k, v)| Step::SetForeign(k, v)),
        1 => key().prop_map(Step::SetHash),
        1 => (key(), hours()).prop_map(|(k, h)| Step::Expire(k, h)),
        1 => key().prop_map(Step::Delete),
    ]
}

#[test]
fn random_sequences_are_answered_alike() {
    let server = RedisServer::start().unwrap();
    let steps = (
        prop::sample::select(WAYS.to_vec()),
        vec(any_step([token(), token()]), 1..40),
    );
    let config = ProptestConfig::with_cases(200);
    TestRunner::new(config)
        .run(&steps, |(way, steps)| {
            let mut both = Both::start(&server, way);
            steps.iter().for_each(|step| both.step(step));
            Ok(())
        })
        .unwrap();
}
