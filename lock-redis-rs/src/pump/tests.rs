//! The pump over a connection that answers when the test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use futures::future::FutureExt;
use redis::RedisFuture;

use super::*;
use crate::locked;

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Sent>>);

#[derive(Default)]
struct Sent {
    names: Vec<String>,
    unanswered: VecDeque<oneshot::Sender<RedisResult<Value>>>,
}

impl Fake {
    fn names(&self) -> Vec<String> {
        locked(&self.0).names.clone()
    }

    fn answer(&self, count: usize) {
        for answer in locked(&self.0).unanswered.drain(..count) {
            answer.send(Ok(Value::Okay)).ok();
        }
    }

    /// Ends the oldest call as redis-rs does when its connection breaks.
    fn break_off(&self) {
        self.fail(io::ErrorKind::BrokenPipe);
    }

    fn fail(&self, kind: io::ErrorKind) {
        let oldest = locked(&self.0).unanswered.pop_front();
        oldest.unwrap().send(Err(io::Error::from(kind).into())).ok();
    }
}

impl ConnectionLike for Fake {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        async move {
            let (to, answer) = oneshot::channel();
            {
                let mut sent = locked(&self.0);
                sent.names.push(name(cmd));
                if cmd.is_no_response() {
                    return Ok(Value::Nil);
                }
                sent.unanswered.push_back(to);
            }
            answer.await.unwrap()
        }
        .boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a redis::Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        panic!("a pump sends one command at a time")
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// The first word of a command.
fn name(cmd: &Cmd) -> String {
    let packed = String::from_utf8(cmd.get_packed_command()).unwrap();
    packed.split("\r\n").nth(2).unwrap().to_owned()
}

fn undo(name: &str) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.set_no_response(true);
    cmd
}

type Call = BoxFuture<'static, RedisResult<Value>>;

/// A call that is in the queue.
fn begin(pump: &Pump, cmd: Cmd) -> Call {
    let pump = pump.clone();
    let mut call = async move { pump.send(&cmd).await }.boxed();
    let polled = call.poll_unpin(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    call
}

fn calls(pump: &Pump, numbers: std::ops::Range<usize>) -> Vec<Call> {
    let one = |n: usize| begin(pump, redis::cmd(&n.to_string()));
    numbers.map(one).collect()
}

fn numbers(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| n.to_string()).collect()
}

fn start() -> (Fake, Pump, tokio::task::JoinHandle<()>) {
    let fake = Fake::default();
    let (pump, driver) = Pump::new(fake.clone());
    (fake, pump, tokio::spawn(driver))
}

async fn ends(driver: tokio::task::JoinHandle<()>) {
    let ended = tokio::time::timeout(3 * LOOK_EVERY, driver).await;
    ended.expect("an end").unwrap();
}

/// Lets the driver run until it has nothing to do.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_under_way_than_there_are_places_and_the_others_leave_in_order() {
    let (fake, pump, _driver) = start();
    let _calls = calls(&pump, 0..120);
    settle().await;
    assert_eq!(fake.names(), numbers(0..50));
    for sent in [60, 110, 120] {
        fake.answer(sent - fake.names().len());
        settle().await;
        assert_eq!(fake.names(), numbers(0..sent));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_it_left_is_not_sent() {
    let (fake, pump, _driver) = start();
    let mut first = calls(&pump, 0..53);
    settle().await;
    drop(first.remove(51));
    drop(first.remove(50));
    fake.answer(50);
    settle().await;
    let mut expected = numbers(0..50);
    expected.push("52".to_owned());
    assert_eq!(fake.names(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_keeps_its_place_until_its_answer() {
    let (fake, pump, _driver) = start();
    let given_up = calls(&pump, 0..50);
    settle().await;
    drop(given_up);
    let _calls = calls(&pump, 50..60);
    settle().await;
    assert_eq!(fake.names(), numbers(0..50));
    fake.answer(1);
    settle().await;
    assert_eq!(fake.names(), numbers(0..51));
}

#[tokio::test(start_paused = true)]
async fn an_undo_needs_no_place_but_overtakes_no_call() {
    let (fake, pump, _driver) = start();
    let _calls = calls(&pump, 0..50);
    let waits = begin(&pump, redis::cmd("SET"));
    let undo = pump.send(&undo("UNDO")).now_or_never();
    assert!(undo.unwrap().is_ok());
    settle().await;
    assert_eq!(fake.names(), numbers(0..50));
    drop(waits);
    settle().await;
    assert_eq!(fake.names().split_off(50), ["UNDO"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_asked_whether_it_is_alive_and_no_other_is() {
    let (fake, pump, _driver) = start();
    let call = calls(&pump, 0..1);
    settle().await;
    // One that waits for an answer already is not asked.
    tokio::time::sleep(3 * LOOK_EVERY).await;
    assert_eq!(fake.names(), ["0"]);
    fake.answer(1);
    drop(call);
    tokio::time::sleep(LOOK_EVERY).await;
    settle().await;
    assert_eq!(fake.names(), ["0", "PING"]);
    tokio::time::sleep(3 * LOOK_EVERY).await;
    assert_eq!(fake.names(), ["0", "PING"]);
    fake.answer(1);
    for n in 1..5 {
        let _call = calls(&pump, n..n + 1);
        settle().await;
        fake.answer(1);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    assert_eq!(fake.names(), ["0", "PING", "1", "2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_with_its_connection_even_if_nobody_calls() {
    let (fake, pump, driver) = start();
    tokio::time::sleep(LOOK_EVERY).await;
    settle().await;
    fake.break_off();
    ends(driver).await;
    assert!(pump.send(&redis::cmd("SET")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn when_the_connection_breaks_every_call_gets_an_error() {
    let (fake, pump, driver) = start();
    let calls = calls(&pump, 0..60);
    settle().await;
    fake.break_off();
    fake.answer(1);
    ends(driver).await;
    for (n, call) in calls.into_iter().enumerate() {
        let answer = call.now_or_never().unwrap();
        // The answer that was there already counts.
        if n == 1 {
            assert!(answer.is_ok());
        } else {
            assert!(answer.unwrap_err().is_unrecoverable_error());
        }
    }
    assert_eq!(fake.names().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_connections_own_is_no_break_and_leaves_the_deadline_to_the_caller() {
    let (fake, pump, driver) = start();
    let mut call = calls(&pump, 0..1);
    settle().await;
    fake.fail(io::ErrorKind::TimedOut);
    settle().await;
    assert!(futures::poll!(&mut call[0]).is_pending());
    assert!(!driver.is_finished());
    let mut next = calls(&pump, 1..2);
    settle().await;
    fake.answer(1);
    assert!(next.remove(0).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_when_nobody_can_call_any_more() {
    let (_fake, pump, driver) = start();
    drop(calls(&pump, 0..1));
    settle().await;
    drop(pump);
    ends(driver).await;
}
