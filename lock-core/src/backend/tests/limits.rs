//! Nothing grows without bounds.

use super::*;
use crate::backend::MAX_IN_FLIGHT;

#[test]
fn calls_beyond_those_that_may_be_in_flight_are_not_sent() {
    let bed = Bed::connected();
    let command = inspect("a");
    let calls: Vec<_> = (0..MAX_IN_FLIGHT)
        .map(|_| bed.call(&command, LONG))
        .collect();
    let error = bed.call(&command, LONG).error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "too many calls in flight");
    assert_eq!(bed.server.log().len(), MAX_IN_FLIGHT);
    bed.server.answer_all();
    for call in calls {
        call.answer().unwrap();
    }
    assert!(bed.call(&command, LONG).poll().is_pending());
}

#[test]
fn calls_beyond_those_that_may_wait_are_not_sent_and_those_that_gave_up_make_room() {
    const MAX_WAITING: usize = 4096;
    let bed = Bed::new();
    let command = inspect("a");
    let mut calls: Vec<_> = (0..MAX_WAITING).map(|_| bed.call(&command, LONG)).collect();
    let error = bed.call(&command, LONG).error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "too many calls wait for the connection");
    calls.truncate(MAX_WAITING - 1);
    assert!(bed.call(&command, LONG).poll().is_pending());
}

#[test]
fn calls_that_are_dropped_without_end_replace_the_connection() {
    let bed = Bed::connected();
    for _ in 0..1024 {
        drop(bed.call(&acquire("a"), LONG));
    }
    assert_eq!(bed.server.log().len(), 2 * 1024, "each with its release");
    drop(bed.call(&acquire("b"), LONG));
    bed.world.run();
    assert_eq!(bed.server.connects(), 2);
}
