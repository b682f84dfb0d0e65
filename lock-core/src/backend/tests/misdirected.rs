//! A server that says that it is the wrong one (N7, N12).

use super::*;

/// A call that a connection answers with an error.
fn refused(bed: &Bed, connection: usize, line: &str) {
    let call = bed.call(&acquire("k"), WITHIN);
    assert!(bed.server.answer(connection, Err(NodeError::server(line))));
    assert_eq!(call.error().to_string(), line);
}

#[test]
fn a_server_that_says_that_it_is_the_wrong_one_is_looked_for_anew() {
    for (line, is_wrong) in [
        (
            "READONLY You can't write against a read only replica.",
            true,
        ),
        ("MASTERDOWN Link with MASTER is down", true),
        ("LOADING Redis is loading the dataset in memory", true),
        ("OOM command not allowed", false),
        ("NOPERM this user has no permissions", false),
    ] {
        let bed = Bed::connected();
        refused(&bed, 0, line);
        bed.world.run();
        let connects = 1 + usize::from(is_wrong);
        assert_eq!(bed.server.connects(), connects, "{line}");
        assert_eq!(bed.server.moves(), connects - 1, "{line}");
        let call = bed.call(&acquire("k"), WITHIN);
        assert_eq!(bed.server.log()[1..], [format!("{} SET k", connects - 1)]);
        bed.server.answer_all();
        call.answer().unwrap();
        bed.world.advance(WITHIN);
        assert_eq!(bed.server.open(), [connects - 1], "{line}");
    }
}

#[test]
fn a_call_that_found_the_old_connection_goes_over_the_new_one_once_that_has_ended() {
    let bed = Bed::connected();
    refused(&bed, 0, "READONLY no");
    let world = Arc::clone(&bed.world);
    bed.server.before_call(move || world.run());
    let call = bed.call(&acquire("a"), WITHIN);
    bed.server.answer_all();
    call.answer().unwrap();
    assert_eq!(bed.server.log().last().unwrap(), "1 SET a");
    assert_eq!(bed.server.open(), [1]);
}

#[test]
fn the_old_connection_serves_until_the_new_one_stands() {
    let bed = Bed::connected();
    bed.server.accept(Accept::Never);
    refused(&bed, 0, "READONLY no");
    bed.world.advance(2 * WITHIN);
    refused(&bed, 0, "READONLY no");
    bed.server.accept(Accept::No(NodeError::not_sent("down")));
    // The one that hangs is cut off, and later ones are refused.
    for _ in 0..30 {
        bed.world.advance(WITHIN);
        refused(&bed, 0, "READONLY no");
    }
    assert_eq!(bed.server.open(), [0]);
    bed.world.advance(3 * WITHIN);
    bed.server.accept(Accept::Yes);
    refused(&bed, 0, "READONLY no");
    bed.world.run();
    let call = bed.call(&acquire("a"), WITHIN);
    assert_eq!(bed.server.log().last().unwrap(), "1 SET a");
    bed.server.answer_all();
    call.answer().unwrap();
}

#[test]
fn another_server_is_looked_for_every_250_ms_at_most() {
    let bed = Bed::connected();
    for millisecond in 0..1000 {
        let newest = *bed.server.open().last().unwrap();
        refused(&bed, newest, "READONLY no");
        bed.world.advance(MS);
        assert_eq!(bed.server.connects(), 2 + millisecond / 250);
    }
    assert!(bed.server.open().len() <= 2, "{:?}", bed.server.open());
}

#[test]
fn the_releases_of_the_old_connection_go_first_and_calls_in_flight_end_on_it() {
    let bed = Bed::connected();
    let late = bed.call(&acquire("late"), LONG);
    drop(bed.call(&acquire("a"), LONG));
    bed.server.answer(0, Ok(Reply::ok()));
    late.answer().unwrap();
    let before = bed.call(&acquire("before"), LONG);
    let call = bed.call(&acquire("b"), LONG);
    bed.server.forget_log();
    bed.server.answer(0, Ok(Reply::Nil));
    bed.server.answer(0, Ok(Reply::ok()));
    before.answer().unwrap();
    bed.server.answer(0, Err(NodeError::server("READONLY no")));
    call.answer().unwrap_err();
    drop(bed.call(&acquire("c"), LONG));
    let after = bed.call(&acquire("after"), LONG);
    bed.world.run();
    let next = bed.call(&acquire("d"), LONG);
    assert_eq!(
        bed.server.log(),
        ["0 SET c", "0 SET after", "0 EVAL c", "1 SET d"]
    );
    bed.server.answer_all();
    after.answer().unwrap();
    next.answer().unwrap();
    bed.world.run();
    assert_eq!(bed.server.open(), [1]);
}

#[test]
fn a_handshake_that_says_so_asks_for_another_address_too() {
    let bed = Bed::new();
    let loading = NodeError::server("LOADING Redis is loading the dataset in memory");
    bed.server.accept(Accept::No(loading));
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.run();
    assert_eq!(call.error().code(), Some("LOADING"));
    assert_eq!(bed.server.moves(), 1);
}
