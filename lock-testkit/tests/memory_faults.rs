//! What a `MemoryNode` does while something is wrong with it.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod common;

use std::future::Future;
use std::pin::Pin;

use common::{LONG, acquire, acquire_or_report, extend, millis, release, token};
use futures::future::{join_all, poll_immediate};
use lock_core::node::NodeErrorKind;
use lock_core::{Command, NodeError, RedisNode, Reply};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{Instant, advance};

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Reply, NodeError>> + Send + 'a>>;

fn node() -> MemoryNode {
    MemoryNode::new("memory")
}

async fn ask(node: &MemoryNode, command: Command) -> Reply {
    node.execute(&command, LONG).await.unwrap()
}

async fn fail(node: &MemoryNode, command: Command) -> NodeErrorKind {
    let within = millis(100);
    node.execute(&command, within).await.unwrap_err().kind()
}

/// Polls a call once, which sends its command, and expects no answer yet.
async fn send<'a>(node: &'a MemoryNode, command: &'a Command) -> Pending<'a> {
    let mut call = node.execute(command, LONG);
    assert!(poll_immediate(&mut call).await.is_none());
    call
}

#[tokio::test(start_paused = true)]
async fn a_refusing_node_fails_fast_and_runs_nothing() {
    let node = node();
    let start = Instant::now();
    node.set_fault(Fault::Refuse);
    let error = (node.execute(&acquire("k", token(), 1000), LONG).await).unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "connection refused");
    assert_eq!(start.elapsed(), millis(0));
    node.heal();
    assert!(node.keys().is_empty());
    assert_eq!(node.calls().acquire, 1);
    assert_eq!(node.fault(), None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_cuts_the_calls_that_wait_and_keeps_its_keys() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("kept", mine, 1000)).await;
    node.set_fault(Fault::Hang);
    let command = acquire("k", mine, 1000);
    let call = send(&node, &command).await;
    node.set_fault(Fault::Refuse);
    assert_eq!(call.await.unwrap_err().kind(), NodeErrorKind::Connection);
    node.heal();
    assert_eq!(node.keys(), [b"kept"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgets_cuts_the_calls_that_wait_and_loses_its_keys() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("lost", mine, 1000)).await;
    node.set_fault(Fault::Hang);
    let command = acquire("k", mine, 1000);
    let call = send(&node, &command).await;
    node.forget();
    assert_eq!(call.await.unwrap_err().kind(), NodeErrorKind::Connection);
    assert_eq!(node.fault(), Some(Fault::Hang));
    node.heal();
    assert!(node.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hung_node_gives_no_answer_when_the_time_of_the_call_is_over() {
    let node = node();
    node.set_fault(Fault::Hang);
    let start = Instant::now();
    let kind = fail(&node, acquire("k", token(), 1000)).await;
    assert_eq!(kind, NodeErrorKind::NoAnswer);
    assert_eq!(start.elapsed(), millis(100));
    assert_eq!((node.waiting(), node.keys().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hung_node_runs_everything_in_order_on_resume_though_all_callers_gave_up() {
    let (node, first, second) = (node(), token(), token());
    node.set_fault(Fault::Hang);
    let commands = [
        acquire("a", first, 1000),
        acquire("a", second, 1000),
        release("a", first),
        acquire("b", second, 1000),
        acquire("c", first, 1000),
        extend(&[("c", first, 3000)]),
    ];
    for command in &commands {
        drop(send(&node, command).await);
    }
    fail(&node, acquire("d", first, 1000)).await;
    advance(millis(5000)).await;
    assert_eq!(node.waiting(), 7);

    node.heal();
    assert_eq!(node.waiting(), 0);
    assert_eq!(node.keys(), [b"b", b"c", b"d"]);
    assert_eq!(node.get("b").as_deref(), Some(second.as_bytes()));
    // Lifetimes count from when the commands ran.
    let pttls = ["b", "c", "d"].map(|key| node.pttl(key));
    assert_eq!(pttls, [1000, 3000, 1000]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_still_waits_is_answered_when_the_node_resumes() {
    let node = node();
    node.set_fault(Fault::Hang);
    let command = acquire("k", token(), 1000);
    let resume = async {
        tokio::time::sleep(millis(700)).await;
        node.heal();
    };
    let (answer, ()) = tokio::join!(node.execute(&command, LONG), resume);
    assert_eq!(answer.unwrap(), Reply::ok());
}

#[tokio::test(start_paused = true)]
async fn calls_are_taken_in_the_order_of_their_first_polls() {
    let (node, first, second) = (node(), token(), token());
    node.set_fault(Fault::Hang);
    let (early, late) = (acquire("k", first, 1000), acquire("k", second, 1000));
    let created_first = node.execute(&late, LONG);
    let sent_first = send(&node, &early).await;
    let heal = async { node.heal() };
    let (late, early, ()) = tokio::join!(created_first, sent_first, heal);
    assert_eq!(early.unwrap(), Reply::ok());
    assert_eq!(late.unwrap(), Reply::Nil);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_sends_nothing() {
    let node = node();
    let command = acquire("k", token(), 1000);
    drop(node.execute(&command, LONG));
    assert_eq!(node.calls().total(), 0);
    assert!(node.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_error_comes_with_its_code_and_runs_nothing() {
    let (node, mine) = (node(), token());
    ask(&node, acquire("k", mine, 1000)).await;
    node.set_fault(Fault::error("OOM command not allowed"));
    let error = (node.execute(&release("k", mine), LONG).await).unwrap_err();
    assert_eq!(error.kind(), NodeErrorKind::Server);
    assert_eq!(error.code(), Some("OOM"));
    assert_eq!(node.keys(), [b"k"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_hides_a_command_that_ran() {
    let (node, mine) = (node(), token());
    node.set_fault(Fault::LoseReply);
    let kind = fail(&node, acquire("k", mine, 1000)).await;
    assert_eq!(kind, NodeErrorKind::Connection);
    assert_eq!(node.get("k").as_deref(), Some(mine.as_bytes()));
    let kind = fail(&node, release("k", mine)).await;
    assert_eq!(kind, NodeErrorKind::Connection);
    assert!(node.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_command_takes_effect_when_it_arrives_and_is_answered_then() {
    let node = node();
    node.set_fault(Fault::Delay(millis(50)));
    let start = Instant::now();
    let command = acquire("k", token(), 1000);
    let call = send(&node, &command).await;
    advance(millis(49)).await;
    assert!(node.keys().is_empty());
    assert_eq!(call.await.unwrap(), Reply::ok());
    assert_eq!(start.elapsed(), millis(50));
    assert_eq!(node.pttl("k"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_command_takes_effect_on_time_though_its_caller_gave_up() {
    let node = node();
    node.set_fault(Fault::Delay(millis(300)));
    let kind = fail(&node, acquire("k", token(), 1000)).await;
    assert_eq!(kind, NodeErrorKind::NoAnswer);
    let command = acquire_or_report("dropped", token(), 1000);
    drop(send(&node, &command).await);
    assert!(node.keys().is_empty());
    // Nobody looks at the node for a while; each key still counts from its own arrival.
    advance(millis(900)).await;
    assert_eq!((node.pttl("k"), node.pttl("dropped")), (300, 400));
}

#[tokio::test(start_paused = true)]
async fn what_is_called_later_never_overtakes_a_delayed_command() {
    let (node, mine) = (node(), token());
    node.set_fault(Fault::Delay(millis(200)));
    let slow = acquire("k", mine, 1000);
    let call = send(&node, &slow).await;
    node.heal();
    let start = Instant::now();
    assert_eq!(ask(&node, release("k", mine)).await, Reply::Int(1));
    assert_eq!(start.elapsed(), millis(200));
    assert_eq!(call.await.unwrap(), Reply::ok());
    assert!(node.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_hung_runs_under_the_fault_that_follows() {
    let node = node();
    node.set_fault(Fault::Hang);
    let command = acquire("k", token(), 1000);
    let call = send(&node, &command).await;
    node.set_fault(Fault::LoseReply);
    assert_eq!(call.await.unwrap_err().kind(), NodeErrorKind::Connection);
    assert_eq!(node.keys(), [b"k"]);
}

#[tokio::test(start_paused = true)]
async fn a_hang_holds_back_what_was_delayed_before_it() {
    let node = node();
    node.set_fault(Fault::Delay(millis(100)));
    let command = acquire("k", token(), 1000);
    let call = send(&node, &command).await;
    advance(millis(40)).await;
    node.set_fault(Fault::Hang);
    advance(millis(500)).await;
    assert!(node.keys().is_empty());
    node.heal();
    assert_eq!(call.await.unwrap(), Reply::ok());
    assert_eq!(node.pttl("k"), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_at_once_make_one_winner_per_key() {
    let node = node();
    let tasks = (0..64).map(|task| {
        let node = node.clone();
        tokio::spawn(async move {
            if task % 8 == 0 {
                node.set_fault(Fault::Delay(millis(task / 8)));
            }
            ask(&node, acquire("k", token(), 60_000)).await
        })
    });
    let replies = join_all(tasks).await;
    let won = replies.into_iter().map(Result::unwrap);
    assert_eq!(won.filter(|reply| *reply == Reply::ok()).count(), 1);
}
