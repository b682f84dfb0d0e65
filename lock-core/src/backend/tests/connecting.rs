//! How connections come about (N7, N12).

use super::*;

#[test]
fn building_a_node_connects_to_nothing_and_the_first_calls_share_one_connect() {
    let bed = Bed::new();
    bed.world.run();
    assert_eq!(bed.server.connects(), 0);
    let calls = ["a", "b", "c"].map(|key| bed.call(&acquire(key), WITHIN));
    assert!(bed.server.log().is_empty());
    bed.world.run();
    assert_eq!(bed.server.connects(), 1);
    assert_eq!(bed.world.tasks(), 1, "one task for a connection");
    bed.server.answer_all();
    for call in calls {
        assert_eq!(call.answer().unwrap(), Reply::ok());
    }
}

#[test]
fn calls_that_wait_leave_in_their_order_and_before_any_that_comes_later() {
    let bed = Bed::new();
    let waiting = ["a", "b", "c"].map(|key| bed.call(&acquire(key), WITHIN));
    bed.world.run();
    // Those that waited have not been polled again.
    let later = bed.call(&acquire("d"), WITHIN);
    assert_eq!(
        bed.server.log(),
        ["0 SET a", "0 SET b", "0 SET c", "0 SET d"]
    );
    bed.server.answer_all();
    for call in waiting {
        assert_eq!(call.answer().unwrap(), Reply::ok());
    }
    assert_eq!(later.answer().unwrap(), Reply::ok());
}

#[test]
fn the_caller_that_started_the_connect_may_go_and_is_never_sent() {
    let bed = Bed::new();
    let first = bed.call(&acquire("a"), WITHIN);
    let second = bed.call(&acquire("b"), WITHIN);
    drop(first);
    bed.world.run();
    assert_eq!(bed.server.log(), ["0 SET b"]);
    bed.server.answer_all();
    second.answer().unwrap();
}

#[test]
fn a_call_whose_time_ends_while_it_waits_is_never_sent() {
    let bed = Bed::new();
    bed.server.accept(Accept::Never);
    let mut call = bed.call(&acquire("a"), WITHIN);
    bed.world.advance(WITHIN - MS);
    assert!(!call.is_woken() && call.poll().is_pending());
    bed.world.advance(MS);
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "still connecting");
    assert!(bed.server.log().is_empty());
}

#[test]
fn a_call_whose_time_is_over_is_not_sent_though_it_has_not_noticed() {
    let bed = Bed::new();
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.stand_still(WITHIN);
    bed.world.run();
    assert!(bed.server.log().is_empty());
    assert_eq!(call.kind(), NodeErrorKind::NotSent);
}

#[test]
fn a_refused_connect_is_told_to_all_who_wait_and_to_all_who_call_in_the_pause() {
    let bed = Bed::new();
    let refused = NodeError::not_sent("cannot connect").with_source("refused");
    bed.server.accept(Accept::No(refused));
    let calls = ["a", "b"].map(|key| bed.call(&acquire(key), WITHIN));
    bed.world.run();
    for call in calls {
        let error = call.error();
        assert_eq!(error.kind(), NodeErrorKind::NotSent);
        assert_eq!(source(&error), "refused");
    }
    bed.world.advance(9 * MS);
    assert_eq!(source(&bed.call(&acquire("c"), WITHIN).error()), "refused");
    assert_eq!(bed.server.connects(), 1);
    bed.world.advance(MS);
    bed.server.accept(Accept::Yes);
    let call = bed.call(&acquire("d"), WITHIN);
    bed.world.run();
    bed.server.answer_all();
    call.answer().unwrap();
    assert_eq!(bed.server.log(), ["0 SET d"]);
}

#[test]
fn connects_that_fail_are_spaced_by_up_to_250_ms_and_stop_when_nobody_calls() {
    let bed = Bed::new();
    bed.server.accept(Accept::No(NodeError::not_sent("down")));
    let mut at = Vec::new();
    for millis in 0..1200 {
        let before = bed.server.connects();
        let call = bed.call(&acquire("a"), WITHIN);
        bed.world.run();
        assert_eq!(call.kind(), NodeErrorKind::NotSent);
        if bed.server.connects() > before {
            at.push(millis);
        }
        bed.world.advance(MS);
    }
    assert_eq!(at, [0, 10, 30, 70, 150, 310, 560, 810, 1060]);
    bed.world.advance(LONG);
    assert_eq!(bed.server.connects(), at.len());
}

#[test]
fn a_connection_that_breaks_before_any_reply_counts_as_a_failed_connect() {
    let bed = Bed::new();
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.run();
    bed.server.cut(0, NodeError::connection("reset"));
    bed.world.run();
    assert_eq!(call.kind(), NodeErrorKind::Connection);
    let error = bed.call(&acquire("b"), WITHIN).error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(source(&error), "reset");
    assert_eq!(bed.server.connects(), 1);
}

#[test]
fn what_a_server_says_when_it_ends_a_connection_is_told_in_the_pause() {
    let bed = Bed::new();
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.run();
    bed.server
        .cut(0, NodeError::server("CLUSTERDOWN of no use"));
    bed.world.run();
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::Connection);
    assert_eq!(source(&error), "CLUSTERDOWN of no use");
    let error = bed.call(&acquire("b"), WITHIN).error();
    assert_eq!(error.code(), Some("CLUSTERDOWN"));
}

#[test]
fn a_connect_without_an_end_is_cut_off_soon_after_its_time() {
    let bed = Bed::new();
    bed.server.accept(Accept::Never);
    let call = bed.call(&acquire("a"), LONG);
    bed.world.advance(1099 * MS);
    assert!(!call.is_woken());
    bed.world.advance(MS);
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "not connected in 1000 ms");
    assert_eq!(bed.world.tasks(), 0);
}

#[test]
fn a_connect_that_fails_in_whatever_way_says_that_nothing_was_sent_or_what_the_server_said() {
    for (error, kind) in [
        (NodeError::connection("reset"), NodeErrorKind::NotSent),
        (NodeError::no_answer(MS), NodeErrorKind::NotSent),
        (NodeError::server("NOAUTH"), NodeErrorKind::Server),
    ] {
        let bed = Bed::new();
        bed.server.accept(Accept::No(error));
        let call = bed.call(&acquire("a"), WITHIN);
        bed.world.run();
        assert_eq!(call.kind(), kind);
    }
}

#[test]
fn calls_do_not_wait_for_a_connect_that_has_run_for_longer_than_they_may() {
    let bed = Bed::new();
    bed.server.accept(Accept::Never);
    let first = bed.call(&acquire("a"), LONG);
    bed.world.advance(WITHIN + MS);
    let call = bed.call(&acquire("b"), WITHIN);
    assert_eq!(call.error().to_string(), "still connecting");
    assert!(bed.call(&acquire("c"), LONG).poll().is_pending());
    drop(first);
}

#[test]
fn a_connect_on_a_runtime_that_nobody_drives_is_given_up_and_its_late_success_is_not_used() {
    let bed = Bed::new();
    let node = bed.node;
    let bed = Bed {
        node: node.connect_timeout(WITHIN),
        ..bed
    };
    let first = bed.call(&acquire("a"), LONG);
    bed.world.stand_still(WITHIN + Duration::from_secs(1));
    assert!(bed.call(&acquire("b"), LONG).poll().is_pending());
    bed.world.stand_still(MS);
    let third = bed.call(&acquire("c"), LONG);
    let error = first.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert_eq!(error.to_string(), "the connect was cut off");
    bed.world.run();
    assert_eq!(bed.server.connects(), 2);
    assert_eq!(bed.server.open(), [1], "the late one is closed");
    bed.server.answer_all();
    third.answer().unwrap();
    assert_eq!(bed.server.log(), ["1 SET c"]);
}

#[test]
fn a_client_that_panics_while_it_connects_is_a_failed_connect() {
    let bed = Bed::new();
    bed.server.accept(Accept::Panic);
    let call = bed.call(&acquire("a"), WITHIN);
    let run = std::panic::AssertUnwindSafe(|| bed.world.run());
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(call.kind(), NodeErrorKind::NotSent);
}

#[test]
fn a_client_that_panics_while_it_sends_keeps_nobody_else_waiting() {
    let bed = Bed::new();
    bed.server.panic_at("a");
    let panicked = bed.call(&acquire("a"), WITHIN);
    let call = bed.call(&acquire("b"), WITHIN);
    bed.world.run();
    assert_eq!(
        panicked.kind(),
        NodeErrorKind::Connection,
        "it may have been sent"
    );
    bed.server.answer_all();
    call.answer().unwrap();
}
