//! Connections whose driver stands still, and acquires that stay in doubt (N12).

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A connected node whose driver writes.
fn driven() -> Bed {
    let bed = Bed::connected();
    bed.server.let_the_driver_write();
    bed
}

#[test]
fn a_connection_that_stood_still_for_10_s_is_closed_unwritten() {
    for (stall, is_written) in [(10 * SECOND - MS, true), (10 * SECOND, false)] {
        let bed = driven();
        let call = bed.call(&acquire("a"), LONG);
        bed.world.stand_still(stall);
        bed.world.run();
        if is_written {
            assert_eq!(bed.server.log(), ["0 SET a"]);
            bed.server.answer_all();
            call.answer().unwrap();
        } else {
            assert!(bed.server.log().is_empty());
            assert!(bed.server.open().is_empty());
            assert_eq!(call.kind(), NodeErrorKind::Connection);
        }
    }
}

#[test]
fn the_releases_of_a_connection_that_stood_still_are_not_written_either() {
    let bed = driven();
    for key in ["a", "b", "c"] {
        let call = bed.call(&acquire(key), LONG);
        bed.server.answer(0, Err(NodeError::no_answer(MS)));
        assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    }
    bed.world.stand_still(10 * SECOND);
    let call = bed.call(&acquire("d"), LONG);
    bed.world.run();
    assert_eq!(bed.server.log(), ["1 SET d"], "the old one was replaced");
    assert_eq!(bed.server.open(), [1]);
    bed.server.answer_all();
    call.answer().unwrap();
}

#[test]
fn a_connection_that_stands_still_between_two_polls_of_its_driver_is_closed_too() {
    // The first poll of a driver may write nothing, as that of one which gives way to callers.
    let bed = Bed::connected();
    let call = bed.call(&acquire("a"), LONG);
    bed.world.run();
    bed.world.stand_still(10 * SECOND);
    bed.world.run();
    assert!(bed.server.open().is_empty());
    assert_eq!(call.kind(), NodeErrorKind::Connection);
}

#[test]
fn quiet_hours_and_long_calls_are_no_standstill() {
    let bed = driven();
    bed.world.stand_still(LONG);
    let call = bed.call(&acquire("a"), LONG);
    bed.world.advance(LONG / 2);
    assert_eq!(bed.server.log(), ["0 SET a"]);
    bed.server.answer_all();
    call.answer().unwrap();
    bed.world.advance(LONG);
    assert_eq!(bed.server.open(), [0]);
}

#[test]
fn an_acquire_that_timed_out_alone_is_undone_within_seconds() {
    let bed = Bed::connected();
    bed.time_out("a");
    bed.world.advance(5 * SECOND - MS);
    assert_eq!(bed.server.log(), ["0 SET a"]);
    bed.world.advance(MS);
    assert_eq!(bed.server.log(), ["0 SET a", "0 EVAL a"]);
    drop(bed.call(&inspect("b"), WITHIN));
    bed.world.run();
    assert_eq!(bed.server.open(), [0, 1]);
    bed.server.answer_all();
    bed.world.run();
    assert_eq!(bed.server.open(), [1]);
}

#[test]
fn an_acquire_that_had_its_turn_and_a_call_that_sets_nothing_replace_no_connection() {
    let bed = Bed::connected();
    bed.time_out("a");
    let call = bed.call(&inspect("b"), WITHIN);
    bed.server.answer_all();
    call.answer().unwrap();
    let call = bed.call(&inspect("c"), WITHIN);
    bed.world.advance(WITHIN);
    assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    bed.world.advance(LONG);
    assert_eq!(bed.server.open(), [0]);
    assert_eq!(bed.server.log().len(), 3);
}

#[test]
fn an_acquire_that_is_in_doubt_for_10_s_is_not_undone_any_more() {
    let bed = driven();
    bed.time_out("a");
    bed.world.stand_still(10 * SECOND);
    bed.world.run();
    assert_eq!(bed.server.log(), ["0 SET a"]);
    assert!(bed.server.open().is_empty());
}
