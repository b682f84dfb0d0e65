//! Calls on a connection: their deadlines, and how they end (N3, N6, N8).

use super::*;

#[test]
fn a_call_ends_when_its_time_is_over_and_not_before() {
    let bed = Bed::connected();
    let mut long = bed.call(&acquire("a"), 3 * WITHIN);
    let mut short = bed.call(&acquire("b"), WITHIN);
    bed.world.advance(WITHIN - MS);
    assert!(!short.is_woken() && short.poll().is_pending());
    bed.world.advance(MS);
    let error = short.error();
    assert_eq!(error.kind(), NodeErrorKind::NoAnswer);
    assert_eq!(error.to_string(), "no answer in 100 ms");
    bed.world.advance(2 * WITHIN - MS);
    assert!(!long.is_woken() && long.poll().is_pending());
    bed.world.advance(MS);
    assert_eq!(long.kind(), NodeErrorKind::NoAnswer);
}

#[test]
fn an_answer_that_is_there_counts_even_if_it_came_late() {
    let bed = Bed::connected();
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.advance(WITHIN);
    bed.server.answer_all();
    assert_eq!(call.answer().unwrap(), Reply::ok());
}

#[test]
fn calls_wake_the_task_of_their_connection_seldom() {
    let bed = Bed::connected();
    bed.world.run();
    let before = bed.world.polls();
    for _ in 0..1000 {
        let call = bed.call(&inspect("a"), WITHIN);
        bed.server.answer_all();
        call.answer().unwrap();
        bed.world.advance(MS);
    }
    let polls = bed.world.polls() - before;
    assert!(
        (10..=12).contains(&polls),
        "{polls} in a second, by a deadline of 100 ms"
    );
    bed.world.advance(LONG);
    assert!(
        bed.world.polls() - before <= polls + 2,
        "it rests when nobody calls"
    );
}

#[test]
fn a_call_moves_with_its_newest_waker() {
    let bed = Bed::connected();
    let mut call = bed.call(&acquire("a"), WITHIN);
    let old = std::mem::take(&mut call.woken);
    assert!(call.poll().is_pending());
    bed.world.advance(WITHIN);
    assert_eq!(old.0.load(Ordering::SeqCst), 0);
    assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
}

#[test]
fn what_the_server_answers_is_told_as_it_is_and_proves_that_it_works() {
    let bed = Bed::new();
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.run();
    bed.server.answer(0, Err(NodeError::server("READONLY no")));
    assert_eq!(call.error().code(), Some("READONLY"));
    bed.server.cut(0, NodeError::connection("reset"));
    bed.world.run();
    drop(bed.call(&acquire("b"), WITHIN));
    bed.world.run();
    assert_eq!(bed.server.connects(), 2, "no pause");
}

#[test]
fn a_call_that_the_client_did_not_send_is_in_no_doubt() {
    let bed = Bed::connected();
    bed.server.refuse(Some(NodeError::not_sent("full")));
    for _ in 0..5 {
        let call = bed.call(&acquire("a"), WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NotSent);
    }
    bed.server.refuse(None);
    for key in ["x", "y", "z"] {
        bed.time_out(key);
    }
    assert!(!bed.server.log().contains(&"0 EVAL a".to_owned()));
    assert_eq!(bed.server.connects(), 1);
}

#[test]
fn a_client_that_loses_patience_is_as_silent_as_a_deadline() {
    let bed = Bed::connected();
    for _ in 0..3 {
        let call = bed.call(&acquire("a"), WITHIN);
        bed.server.answer(0, Err(NodeError::no_answer(MS)));
        assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    }
    assert_eq!(bed.server.log()[3..], ["0 EVAL a"; 3]);
}

#[test]
fn a_call_that_finds_the_connection_broken_ends_it_for_all() {
    let bed = Bed::connected();
    let other = bed.call(&acquire("a"), LONG);
    let call = bed.call(&acquire("b"), LONG);
    bed.server
        .answer(0, Err(NodeError::connection("broken pipe")));
    assert_eq!(other.kind(), NodeErrorKind::Connection);
    assert_eq!(call.error().to_string(), "broken pipe");
    let next = bed.call(&acquire("c"), WITHIN);
    bed.world.run();
    assert_eq!(bed.server.open(), [1]);
    bed.server.answer_all();
    next.answer().unwrap();
}

#[test]
fn an_answer_that_ends_the_connection_is_told_and_is_what_the_pause_says() {
    let bed = Bed::new();
    let other = bed.call(&acquire("a"), LONG);
    let call = bed.call(&acquire("b"), LONG);
    bed.world.run();
    let down = NodeError::server("DOWN for now");
    let ended = NodeError::connection("it ended").with_source(down);
    bed.server.answer(0, Err(ended));
    assert_eq!(other.error().code(), Some("DOWN"));
    let error = call.error();
    assert_eq!(
        error.kind(),
        NodeErrorKind::Connection,
        "nobody answered it"
    );
    let paused = bed.call(&acquire("c"), LONG).error();
    assert_eq!(paused.to_string(), "DOWN for now");
    assert_eq!(bed.server.connects(), 1);
}

/// A foreign executor's waker that is out of order.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics on purpose");
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_waiting() {
    let bed = Bed::connected();
    let command = acquire("a");
    let mut broken = bed.node.execute(&command, WITHIN);
    let waker = Waker::from(Arc::new(Broken));
    assert!(
        broken
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let call = bed.call(&acquire("b"), WITHIN);
    bed.world.advance(WITHIN);
    assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    assert_eq!(bed.server.open(), [0]);
}
