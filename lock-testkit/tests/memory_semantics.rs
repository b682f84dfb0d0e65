//! What a `MemoryNode` answers, operation by operation.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::sync::Arc;

use common::{LONG, acquire, acquire_or_report, extend, millis, release, release_keeping, token};
use lock_core::node::NodeErrorKind;
use lock_core::runtime::{Runtime, ThreadRuntime};
use lock_core::{Command, RedisNode, Reply, Token};
use lock_testkit::MemoryNode;
use tokio::time::advance;

fn node() -> MemoryNode {
    MemoryNode::new("memory")
}

async fn ask(node: &MemoryNode, command: Command) -> Reply {
    node.execute(&command, LONG).await.unwrap()
}

fn ints<const N: usize>(ints: [i64; N]) -> Reply {
    Reply::Array(ints.map(Reply::Int).to_vec())
}

fn held_by(holder: impl AsRef<[u8]>, pttl: i64) -> Reply {
    let holder = Reply::Bytes(holder.as_ref().to_vec());
    Reply::Array(vec![holder, Reply::Int(pttl)])
}

/// What a key may hold when an operation finds it.
#[derive(Clone, Copy, Debug)]
enum Found {
    Nothing,
    Mine,
    MineForEver,
    AnothersToken,
    ForeignValue,
    ForeignExpiring,
    OtherType,
    OtherTypeExpiring,
}

const ALL: [Found; 8] = [
    Found::Nothing,
    Found::Mine,
    Found::MineForEver,
    Found::AnothersToken,
    Found::ForeignValue,
    Found::ForeignExpiring,
    Found::OtherType,
    Found::OtherTypeExpiring,
];

async fn prepare(node: &MemoryNode, found: Found, mine: Token, other: Token) {
    match found {
        Found::Nothing => {}
        Found::Mine => drop(ask(node, acquire("k", mine, 1000)).await),
        Found::MineForEver => node.set_foreign("k", mine.as_bytes()),
        Found::AnothersToken => drop(ask(node, acquire("k", other, 1000)).await),
        Found::ForeignValue => node.set_foreign("k", "foreign"),
        Found::ForeignExpiring => {
            node.set_foreign("k", "foreign");
            assert!(node.expire("k", millis(1000)));
        }
        Found::OtherType => node.set_other_type("k"),
        Found::OtherTypeExpiring => {
            node.set_other_type("k");
            assert!(node.expire("k", millis(1000)));
        }
    }
}

/// Runs one command against each thing that it may find, and gives the reply and the PTTL that the
/// key has after it.
async fn table(
    command: impl Fn(Token) -> Command,
    expected: impl Fn(Found, Token) -> (Reply, i64),
) {
    for found in ALL {
        let (node, mine, other) = (node(), token(), token());
        prepare(&node, found, mine, other).await;
        let reply = ask(&node, command(mine)).await;
        let expected = expected(found, other);
        assert_eq!((reply, node.pttl("k")), expected, "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn acquire_sets_a_free_key_and_changes_no_other() {
    let expected = |found, _| match found {
        Found::Nothing => (Reply::ok(), 2000),
        Found::MineForEver | Found::ForeignValue | Found::OtherType => (Reply::Nil, -1),
        _ => (Reply::Nil, 1000),
    };
    table(|mine| acquire("k", mine, 2000), expected).await;
}

#[tokio::test(start_paused = true)]
async fn acquire_or_report_knows_its_own_token_and_tells_who_else_holds() {
    let expected = |found, other: Token| match found {
        Found::Nothing => (Reply::Int(1), 2000),
        Found::Mine => (Reply::Int(1), 1000),
        Found::MineForEver => (Reply::Int(1), -1),
        Found::AnothersToken => (held_by(other.as_bytes(), 1000), 1000),
        Found::ForeignValue => (held_by("foreign", -1), -1),
        Found::ForeignExpiring => (held_by("foreign", 1000), 1000),
        Found::OtherType => (Reply::Array(vec![Reply::Nil, Reply::Int(-1)]), -1),
        Found::OtherTypeExpiring => (Reply::Array(vec![Reply::Nil, Reply::Int(1000)]), 1000),
    };
    table(|mine| acquire_or_report("k", mine, 2000), expected).await;
}

#[tokio::test(start_paused = true)]
async fn extend_lengthens_its_own_key_and_creates_none() {
    let expected = |found, _| match found {
        Found::Nothing => (ints([0]), -2),
        Found::Mine | Found::MineForEver => (ints([1]), 2000),
        Found::AnothersToken | Found::ForeignExpiring | Found::OtherTypeExpiring => {
            (ints([-1]), 1000)
        }
        Found::ForeignValue | Found::OtherType => (ints([-1]), -1),
    };
    table(|mine| extend(&[("k", mine, 2000)]), expected).await;
}

#[tokio::test(start_paused = true)]
async fn extend_never_shortens_but_gives_a_key_without_expiry_one() {
    let expected = |found, _| match found {
        Found::Nothing => (ints([0]), -2),
        Found::Mine => (ints([1]), 1000),
        Found::MineForEver => (ints([1]), 500),
        Found::AnothersToken | Found::ForeignExpiring | Found::OtherTypeExpiring => {
            (ints([-1]), 1000)
        }
        Found::ForeignValue | Found::OtherType => (ints([-1]), -1),
    };
    table(|mine| extend(&[("k", mine, 500)]), expected).await;
}

#[tokio::test(start_paused = true)]
async fn release_deletes_its_own_key_and_no_other() {
    let expected = |found, _| match found {
        Found::Nothing => (Reply::Int(0), -2),
        Found::Mine | Found::MineForEver => (Reply::Int(1), -2),
        Found::AnothersToken | Found::ForeignExpiring | Found::OtherTypeExpiring => {
            (Reply::Int(-1), 1000)
        }
        Found::ForeignValue | Found::OtherType => (Reply::Int(-1), -1),
    };
    table(|mine| release("k", mine), expected).await;
}

#[tokio::test(start_paused = true)]
async fn release_with_keep_cuts_a_longer_life_and_lengthens_none() {
    for (keep, left_of_mine) in [(400, 400), (5000, 1000)] {
        let expected = |found, _| match found {
            Found::Nothing => (Reply::Int(0), -2),
            Found::Mine => (Reply::Int(1), left_of_mine),
            Found::MineForEver => (Reply::Int(1), i64::try_from(keep).unwrap()),
            Found::AnothersToken | Found::ForeignExpiring | Found::OtherTypeExpiring => {
                (Reply::Int(-1), 1000)
            }
            Found::ForeignValue | Found::OtherType => (Reply::Int(-1), -1),
        };
        table(|mine| release_keeping("k", mine, millis(keep)), expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_begun_millisecond_of_keep_counts_as_a_whole_one() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("k", mine, 1000)).await;
    let keep = std::time::Duration::from_micros(2001);
    assert_eq!(
        ask(&node, release_keeping("k", mine, keep)).await,
        Reply::Int(1)
    );
    assert_eq!(node.pttl("k"), 3);
}

#[tokio::test(start_paused = true)]
async fn extend_answers_for_each_key_in_order() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("a", mine, 1000)).await;
    ask(&node, acquire("b", token(), 1000)).await;
    let entries = [("b", mine, 5000), ("c", mine, 5000), ("a", mine, 5000)];
    assert_eq!(ask(&node, extend(&entries)).await, ints([-1, 0, 1]));
    assert_eq!((node.pttl("a"), node.pttl("b")), (5000, 1000));
    assert_eq!(ask(&node, extend(&[])).await, Reply::Array(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_tells_at_most_128_bytes_of_a_value() {
    for (length, told) in [(127, 127), (128, 128), (129, 128), (4096, 128)] {
        let node = node();
        node.set_foreign("k", vec![0xff; length]);
        let reply = ask(&node, acquire_or_report("k", token(), 1000)).await;
        assert_eq!(reply, held_by(vec![0xff; told], -1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_lives_exactly_its_ttl() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("k", mine, 1000)).await;
    advance(millis(999)).await;
    assert_eq!(node.pttl("k"), 1);
    assert_eq!(ask(&node, acquire("k", token(), 1000)).await, Reply::Nil);
    advance(millis(1)).await;
    assert_eq!((node.pttl("k"), node.keys()), (-2, Vec::new()));
    assert_eq!(ask(&node, extend(&[("k", mine, 1000)])).await, ints([0]));
    assert_eq!(ask(&node, release("k", mine)).await, Reply::Int(0));
    assert_eq!(ask(&node, acquire("k", token(), 1000)).await, Reply::ok());
}

#[tokio::test(start_paused = true)]
async fn an_extended_key_lives_its_new_ttl() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("k", mine, 1000)).await;
    advance(millis(900)).await;
    assert_eq!(ask(&node, extend(&[("k", mine, 1000)])).await, ints([1]));
    advance(millis(999)).await;
    assert_eq!(node.get("k").as_deref(), Some(mine.as_bytes()));
    advance(millis(1)).await;
    assert_eq!(node.get("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_runtime_of_its_own_goes_by_its_clock() {
    let runtime: Arc<dyn Runtime> = ThreadRuntime::shared();
    let nodes = MemoryNode::several_with_runtime(2, &runtime);
    assert_eq!(nodes[1].label(), "memory-2");
    ask(&nodes[0], acquire("k", token(), 3_600_000)).await;
    // Tokio's paused clock is none of its business.
    advance(millis(7_200_000)).await;
    assert_eq!(nodes[0].keys(), [b"k"]);
}

#[tokio::test(start_paused = true)]
async fn keys_are_bytes() {
    let (node, mine) = (node(), token());
    let key = b"\0\xff\r\n{}".to_vec();
    let command = common::acquire_keys(common::one(&key), mine, 1000, false);
    assert_eq!(ask(&node, command).await, Reply::ok());
    assert_eq!(node.keys(), std::slice::from_ref(&key));
    assert!(node.remove(&key) && !node.remove(&key));
}

#[tokio::test(start_paused = true)]
async fn nodes_share_nothing_and_clones_everything() {
    let nodes = MemoryNode::several(3);
    let labels: Vec<_> = nodes.iter().map(|node| node.label()).collect();
    assert_eq!(labels, ["memory-1", "memory-2", "memory-3"]);
    let handle = nodes[0].clone();
    ask(&nodes[0], acquire("k", token(), 1000)).await;
    assert_eq!(handle.keys(), [b"k"]);
    assert!(nodes[1].keys().is_empty() && nodes[2].keys().is_empty());
    handle.forget();
    assert!(nodes[0].keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_kind_and_looking_is_no_call() {
    let (node, mine) = (node(), token());
    let commands = [
        acquire("k", mine, 1000),
        acquire_or_report("k", mine, 1000),
        acquire_or_report("k", mine, 1000),
        extend(&[("k", mine, 1000)]),
        release("k", mine),
    ];
    for command in commands {
        ask(&node, command).await;
    }
    node.set_foreign("k", "v");
    assert_eq!(node.get("k").as_deref(), Some(&b"v"[..]));
    let calls = node.calls();
    assert_eq!((calls.acquire, calls.acquire_or_report), (1, 2));
    assert_eq!((calls.extend, calls.release), (1, 1));
    assert_eq!(calls.total(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_memory_node_cannot_listen() {
    let refused = node().subscribe(b"channel").await.unwrap_err();
    assert_eq!(refused.kind(), NodeErrorKind::Unsupported);
}
