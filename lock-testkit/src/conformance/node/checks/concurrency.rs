//! Many calls at the same time, and calls that are given up.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use lock_core::runtime::BoxFuture;
use lock_core::{Command, RedisNode, Reply, Token};

use crate::conformance::node::cx::{
    LONG, NodeCx, TTL, acquire, acquire_or_report, described, extend, extend_all, not_answered,
    release, send,
};
use crate::conformance::node::harness::{Access, Entry};
use crate::conformance::node::show::reply_shown;
use crate::conformance::{CheckResult, Failure, expect, expect_eq};
use crate::sim::Chance;

/// The reply that is expected.
#[derive(Clone, Debug)]
enum Wanted {
    Exactly(Reply),
    /// A refusal that names this holder.
    Told(Token),
}

impl Wanted {
    fn check(&self, command: &Command, reply: &Reply) -> CheckResult {
        let fits = match (self, reply) {
            (Self::Exactly(wanted), reply) => wanted == reply,
            (Self::Told(holder), Reply::Array(parts)) => {
                parts.first() == Some(&Reply::Bytes(holder.as_bytes().to_vec()))
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let wanted = match self {
            Self::Exactly(wanted) => reply_shown(wanted),
            Self::Told(holder) => format!("the holder {holder}"),
        };
        Err(Failure::new(
            format!("{wanted} to {}", described(command)),
            reply_shown(reply),
        ))
    }
}

/// Sends all commands at the same time, each from a task of its own. Returns their replies in order.
pub(super) async fn at_once(
    cx: &NodeCx,
    calls: impl IntoIterator<Item = (Arc<dyn RedisNode>, Command)>,
) -> CheckResult<Vec<Reply>> {
    let call = |(node, command): (Arc<dyn RedisNode>, Command)| {
        Box::pin(async move {
            let answer = send(&*node, &command, LONG).await;
            answer.map_err(|error| not_answered(&command, &error))
        }) as BoxFuture<'static, CheckResult<Reply>>
    };
    let calls = calls.into_iter().map(call).collect();
    cx.all(calls).await?.into_iter().collect()
}

/// Makes nodes such as separate processes would have.
pub(super) async fn nodes(cx: &NodeCx, count: usize) -> CheckResult<Vec<Arc<dyn RedisNode>>> {
    let mut nodes = vec![Arc::clone(cx.node())];
    while nodes.len() < count {
        nodes.push(cx.bed().connect(&Access::default()).await?);
    }
    Ok(nodes)
}

pub(crate) async fn of_100_acquires_at_once_one_wins(cx: &NodeCx) -> CheckResult {
    let nodes = nodes(cx, 4).await?;
    let tokens: Vec<Token> = (0..100).map(|_| cx.token()).collect();
    let calls = tokens.iter().enumerate();
    let calls = calls.map(|(n, token)| (Arc::clone(&nodes[n % 4]), acquire("k", *token)));
    let replies = at_once(cx, calls).await?;
    let refused = replies.iter().filter(|reply| **reply == Reply::Nil).count();
    let granted = |reply: &Reply| *reply == Reply::ok();
    let winners: Vec<Token> = (tokens.iter().zip(&replies))
        .filter_map(|(token, reply)| granted(reply).then_some(*token))
        .collect();
    let [winner] = winners[..] else {
        return Err(Failure::new("one winner", format!("{}", winners.len())));
    };
    expect_eq("refusals", &99, &refused)?;
    cx.expect_held("k", winner).await
}

pub(crate) async fn of_100_acquires_by_script_one_wins_and_all_others_are_told(
    cx: &NodeCx,
) -> CheckResult {
    let nodes = nodes(cx, 4).await?;
    let tokens: Vec<Token> = (0..100).map(|_| cx.token()).collect();
    let calls = tokens.iter().enumerate();
    let calls = calls.map(|(n, token)| (Arc::clone(&nodes[n % 4]), acquire_or_report("k", *token)));
    let replies = at_once(cx, calls).await?;
    let granted = |reply: &Reply| *reply == Reply::Int(1);
    let winners: Vec<Token> = (tokens.iter().zip(&replies))
        .filter_map(|(token, reply)| granted(reply).then_some(*token))
        .collect();
    let [winner] = winners[..] else {
        return Err(Failure::new("one winner", format!("{}", winners.len())));
    };
    for (token, reply) in tokens.iter().zip(&replies) {
        if *token != winner {
            Wanted::Told(winner).check(&acquire_or_report("k", *token), reply)?;
        }
    }
    cx.expect_held("k", winner).await
}

pub(crate) async fn of_100_releases_at_once_one_finds_the_key(cx: &NodeCx) -> CheckResult {
    let nodes = nodes(cx, 4).await?;
    let mine = cx.token();
    cx.expect(&acquire("k", mine), &Reply::ok()).await?;
    let calls = (0..100).map(|n| (Arc::clone(&nodes[n % 4]), release("k", mine)));
    let replies = at_once(cx, calls).await?;
    let count = |wanted: i64| replies.iter().filter(|r| **r == Reply::Int(wanted)).count();
    expect_eq(
        "who released, and who found no key",
        &(1, 99),
        &(count(1), count(0)),
    )
}

/// A late holder releases and extends, several times at once, while a successor takes over. A script
/// that compares in one step and acts in another hits the successor's key.
pub(crate) async fn late_calls_of_a_holder_never_touch_its_successor(cx: &NodeCx) -> CheckResult {
    let nodes = nodes(cx, 3).await?;
    for _ in 0..30 {
        let (holder, successor) = (cx.token(), cx.token());
        cx.expect(&acquire("k", holder), &Reply::ok()).await?;
        let late = (0..6).map(|n| {
            let command = match n % 2 {
                0 => extend("k", holder, TTL * 4),
                _ => release("k", holder),
            };
            (Arc::clone(&nodes[n % 3]), command)
        });
        let takes_over = async {
            // One of the releases makes room. If none did, asking without an end would hang.
            for _ in 0..100_000 {
                if cx.reply(&acquire("k", successor)).await? == Reply::ok() {
                    return Ok(());
                }
                pause().await;
            }
            Err(Failure::new("a released key to be free", "it is not"))
        };
        let (late, taken) = futures::join!(at_once(cx, late), takes_over);
        taken?;
        late?;
        cx.expect_held("k", successor).await?;
        let left = cx.lifetime("k").await?;
        expect(left <= TTL, "the successor's own lifetime", left)?;
        cx.expect(&release("k", successor), &Reply::Int(1)).await?;
    }
    Ok(())
}

/// Lets other tasks run.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A thousand calls at once, twenty times, over 500 keys whose holders all differ.
pub(crate) async fn each_of_20000_calls_gets_its_own_reply(cx: &NodeCx) -> CheckResult {
    let holders: Vec<(String, Token)> = (0..500).map(|n| (format!("k{n}"), cx.token())).collect();
    let node = || Arc::clone(cx.node());
    let acquires = (holders.iter()).map(|(key, token)| (node(), acquire(key, *token)));
    for reply in at_once(cx, acquires).await? {
        expect_eq("the reply to an acquire", &Reply::ok(), &reply)?;
    }
    let mut chance = Chance::new(20_000);
    for _ in 0..20 {
        let calls: Vec<(Command, Wanted)> = (0..1000)
            .map(|_| any_call(cx, &holders, &mut chance))
            .collect();
        let commands = calls.iter().map(|(command, _)| (node(), command.clone()));
        let replies = at_once(cx, commands).await?;
        for ((command, wanted), reply) in calls.iter().zip(&replies) {
            wanted.check(command, reply)?;
        }
    }
    Ok(())
}

/// Returns a call on one of the held keys that does not change its holder. Most name the holder.
fn any_call(cx: &NodeCx, holders: &[(String, Token)], chance: &mut Chance) -> (Command, Wanted) {
    let (key, holder) = &holders[chance.index(holders.len())];
    let exactly = |command, reply| (command, Wanted::Exactly(reply));
    match chance.below(10) {
        0 => exactly(acquire(key, cx.token()), Reply::Nil),
        1 => exactly(acquire_or_report(key, *holder), Reply::Int(1)),
        2 => exactly(release(key, cx.token()), Reply::Int(-1)),
        3 => exactly(release("missing", *holder), Reply::Int(0)),
        4 => {
            let entries = [
                (key.as_bytes(), cx.token(), TTL),
                (b"missing", *holder, TTL),
                (key.as_bytes(), *holder, TTL),
            ];
            let answers = [-1, 0, 1].map(Reply::Int).to_vec();
            exactly(extend_all(entries), Reply::Array(answers))
        }
        _ => (acquire_or_report(key, cx.token()), Wanted::Told(*holder)),
    }
}

/// Polls the call at most this often, and then drops it.
async fn given_up<T>(call: impl Future<Output = T>, polls: u64) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        // The next poll comes whether or not there is news for the call.
        context.waker().wake_by_ref();
        call.as_mut().poll(context).map(Some)
    })
    .await
}

/// Returns a number between 1 and 512, small ones as often as large ones: usually the reply has not
/// come by then, sometimes it is on its way, and sometimes it has come.
fn some_polls(chance: &mut Chance) -> u64 {
    let magnitude = chance.below(10);
    1 + chance.below(1 << magnitude)
}

/// Half of all calls are dropped at a random poll, among others that wait for their replies.
pub(crate) async fn dropped_calls_leave_the_replies_of_others_alone(cx: &NodeCx) -> CheckResult {
    let holders: Vec<(String, Token)> = (0..40).map(|n| (format!("k{n}"), cx.token())).collect();
    for (key, token) in &holders {
        cx.expect(&acquire(key, *token), &Reply::ok()).await?;
    }
    let mut chance = Chance::new(6);
    for round in 0..30 {
        let mut calls = Vec::new();
        let mut wanted = Vec::new();
        for n in 0..40 {
            let (command, reply) = any_call(cx, &holders, &mut chance);
            let polls = match chance.below(2) {
                0 => some_polls(&mut chance),
                _ => u64::MAX,
            };
            let node = Arc::clone(cx.node());
            let sent = command.clone();
            calls.push(Box::pin(async move {
                if polls == u64::MAX {
                    return Some(send(&*node, &sent, LONG).await);
                }
                given_up(send(&*node, &sent, LONG), polls).await
            }) as BoxFuture<'static, _>);
            wanted.push((n, command, reply));
        }
        for ((n, command, wanted), answer) in wanted.iter().zip(cx.all(calls).await?) {
            match answer {
                Some(Ok(reply)) => wanted.check(command, &reply)?,
                Some(Err(error)) => return Err(not_answered(command, &error)),
                None => {}
            }
            let (key, holder) = &holders[(n + round) % 40];
            if n % 10 == 0 {
                cx.expect_told(key, holder.as_bytes()).await?;
            }
        }
    }
    Ok(())
}

/// A dropped acquire may take effect or not, but never after the release that follows it.
pub(crate) async fn a_release_behind_a_dropped_acquire_leaves_nothing(cx: &NodeCx) -> CheckResult {
    cx.warm_up().await?;
    let mut chance = Chance::new(12);
    for n in 0..200 {
        let (key, token) = (format!("k{n}"), cx.token());
        let command = match n % 2 {
            0 => acquire(&key, token),
            _ => acquire_or_report(&key, token),
        };
        let call = cx.node().execute(&command, LONG);
        drop(given_up(call, some_polls(&mut chance)).await);
        let reply = cx.reply(&release(&key, token)).await?;
        let known = matches!(reply, Reply::Int(0 | 1));
        expect(known, "1 or 0 to the release", &reply)?;
        cx.expect_entry(&key, &Entry::Missing).await?;
    }
    cx.expect(&acquire("k0", cx.token()), &Reply::ok()).await?;
    cx.expect_keys(&[b"k0"]).await
}
