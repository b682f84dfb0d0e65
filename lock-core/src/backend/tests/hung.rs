//! Connections that do not answer (N7, N12).

use super::*;

#[test]
fn a_connection_is_replaced_after_three_timeouts_in_a_row_with_its_releases_first() {
    let bed = Bed::connected();
    bed.time_out("a");
    drop(bed.call(&acquire("b"), LONG));
    bed.time_out("c");
    drop(bed.call(&inspect("d"), LONG));
    assert_eq!(bed.server.connects(), 1);
    bed.server.forget_log();
    bed.time_out("e");
    let call = bed.call(&acquire("f"), WITHIN);
    assert_eq!(
        bed.server.log(),
        ["0 SET e", "0 EVAL a", "0 EVAL b", "0 EVAL c", "0 EVAL e"],
        "before the next connection takes calls"
    );
    bed.world.run();
    assert_eq!(bed.server.log()[5..], ["1 SET f"]);
    bed.server.answer_all();
    call.answer().unwrap();
}

#[test]
fn a_half_open_connection_that_never_answered_is_replaced_too() {
    let bed = Bed::new();
    for key in ["a", "b", "c"] {
        let call = bed.call(&acquire(key), WITHIN);
        bed.world.advance(WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    }
    drop(bed.call(&acquire("d"), WITHIN));
    bed.world.run();
    assert_eq!(bed.server.connects(), 2);
}

#[test]
fn a_reply_in_between_or_a_burst_of_timeouts_replaces_nothing() {
    let bed = Bed::connected();
    for _ in 0..3 {
        let burst: Vec<_> = (0..10).map(|_| bed.call(&acquire("a"), WITHIN)).collect();
        bed.world.advance(WITHIN);
        for call in burst {
            assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
        }
        bed.time_out("b");
        let answered = bed.call(&inspect("c"), WITHIN);
        bed.server.answer_all();
        answered.answer().unwrap();
    }
    assert_eq!(bed.server.connects(), 1);
    assert!(!bed.server.log().iter().any(|line| line.contains("EVAL ")));
}

#[test]
fn a_call_that_ends_after_the_replacement_is_undone_at_once() {
    let bed = Bed::connected();
    let (late, dropped) = (
        bed.call(&acquire("a"), 5 * WITHIN),
        bed.call(&acquire("b"), LONG),
    );
    for key in ["x", "y", "z"] {
        bed.time_out(key);
    }
    bed.server.forget_log();
    bed.world.advance(2 * WITHIN);
    assert_eq!(late.kind(), NodeErrorKind::NoAnswer);
    drop(dropped);
    assert_eq!(bed.server.log(), ["0 EVAL a", "0 EVAL b"]);
}

#[test]
fn an_acquire_that_was_answered_or_had_its_turn_is_not_undone() {
    let bed = Bed::connected();
    let held = bed.call(&acquire("held"), WITHIN);
    bed.server.answer_all();
    held.answer().unwrap();
    bed.time_out("had its turn");
    let later = bed.call(&inspect("k"), WITHIN);
    bed.server.answer_all();
    later.answer().unwrap();
    bed.server.forget_log();
    for _ in 0..3 {
        let call = bed.call(&inspect("x"), WITHIN);
        bed.world.advance(WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    }
    assert!(!bed.server.log().iter().any(|line| line.contains("EVAL ")));
    drop(bed.call(&inspect("y"), WITHIN));
    bed.world.run();
    assert_eq!(bed.server.connects(), 2);
}

#[test]
fn a_replaced_connection_is_let_go_when_its_releases_are_answered() {
    let bed = Bed::connected();
    for key in ["a", "b", "c"] {
        bed.time_out(key);
    }
    bed.world.advance(WITHIN);
    assert_eq!(bed.server.open(), [0]);
    bed.server.answer_all();
    bed.world.run();
    assert!(bed.server.open().is_empty());
    assert_eq!(bed.world.tasks(), 0);
}

#[test]
fn a_replaced_connection_is_let_go_after_five_seconds_without_an_answer() {
    let bed = Bed::connected();
    for key in ["a", "b", "c"] {
        bed.time_out(key);
    }
    bed.world.advance(Duration::from_millis(4999));
    assert_eq!(bed.server.open(), [0]);
    bed.world.advance(MS);
    assert!(bed.server.open().is_empty());
}

#[test]
fn no_more_than_four_replaced_connections_linger() {
    let bed = Bed::connected();
    for _ in 0..6 {
        let connects = bed.server.connects();
        while bed.server.connects() == connects {
            let call = bed.call(&acquire("a"), MS);
            bed.world.advance(MS);
            call.answer().unwrap_err();
            // The pause after a connection that never answered.
            bed.world.advance(10 * MS);
        }
    }
    assert_eq!(bed.server.open(), [2, 3, 4, 5, 6], "four, and the newest");
    assert_eq!(bed.world.tasks(), 5);
}

#[test]
fn connections_that_were_let_go_do_not_count_among_those_that_linger() {
    let bed = Bed::connected();
    for connection in 0..6 {
        while bed.server.connects() == connection + 1 {
            let call = bed.call(&acquire("a"), MS);
            bed.world.advance(MS);
            call.answer().unwrap_err();
            bed.world.advance(10 * MS);
        }
        while connection > 0 && bed.server.answer(connection, Ok(Reply::Nil)) {}
        bed.world.run();
    }
    assert_eq!(bed.server.open(), [0, 6], "the first has no answer yet");
}

#[test]
fn a_connection_that_breaks_gets_no_releases() {
    let bed = Bed::connected();
    bed.time_out("a");
    let call = bed.call(&acquire("b"), LONG);
    bed.server.forget_log();
    bed.server.cut(0, NodeError::connection("reset"));
    bed.world.run();
    assert_eq!(call.kind(), NodeErrorKind::Connection);
    assert!(bed.server.log().is_empty());
}
