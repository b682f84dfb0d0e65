//! How a connection ends: with its server, its runtime or its node.

use super::*;
use crate::runtime::Runtime;

#[test]
fn a_connection_that_breaks_while_nobody_calls_costs_no_call() {
    let bed = Bed::connected();
    bed.server
        .cut(0, NodeError::connection("idle for too long"));
    bed.world.run();
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.run();
    bed.server.answer_all();
    call.answer().unwrap();
    assert_eq!(bed.server.log(), ["1 SET a"]);
}

#[test]
fn a_connection_that_ends_just_before_a_call_costs_no_call() {
    let bed = Bed::connected();
    let (server, world) = (bed.server.clone(), Arc::clone(&bed.world));
    bed.server.before_call(move || {
        server.cut(0, NodeError::connection("reset"));
        world.run();
    });
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.run();
    bed.server.answer_all();
    call.answer().unwrap();
    assert_eq!(bed.server.log(), ["1 SET a"]);
}

#[test]
fn a_call_that_was_handed_over_goes_over_no_other_connection_even_if_it_was_not_sent() {
    let bed = Bed::connected();
    let calls = ["a", "b"].map(|key| bed.call(&acquire(key), LONG));
    for _ in &calls {
        bed.server.answer(
            0,
            Err(NodeError::not_sent("it waited in the client's queue")),
        );
    }
    bed.server.cut(0, NodeError::connection("reset"));
    bed.world.run();
    for call in calls {
        assert_eq!(call.error().to_string(), "it waited in the client's queue");
    }
    bed.world.run();
    assert_eq!(bed.server.log(), ["0 SET a", "0 SET b"]);
    assert_eq!(bed.server.connects(), 1);
}

#[test]
fn calls_on_a_connection_that_breaks_are_in_doubt_and_told_why() {
    let bed = Bed::connected();
    let calls = ["a", "b"].map(|key| bed.call(&acquire(key), LONG));
    bed.server.cut(0, NodeError::connection("reset"));
    bed.world.run();
    for call in calls {
        let error = call.error();
        assert_eq!(error.kind(), NodeErrorKind::Connection);
        assert_eq!(error.to_string(), "reset");
    }
}

#[test]
fn calls_in_flight_when_the_runtime_of_their_connection_ends_get_an_error() {
    let bed = Bed::connected();
    let call = bed.call(&acquire("a"), LONG);
    bed.world.end();
    assert_eq!(call.kind(), NodeErrorKind::Connection);
    assert!(bed.server.open().is_empty());
    let next = bed.call(&acquire("b"), LONG).error();
    assert_eq!(next.kind(), NodeErrorKind::NotSent);
    assert!(next.to_string().contains("cut off"), "{next}");
}

#[test]
fn a_connect_that_ends_with_its_runtime_is_a_failed_one() {
    let bed = Bed::new();
    bed.server.accept(Accept::Never);
    let call = bed.call(&acquire("a"), LONG);
    bed.world.run();
    bed.world.end();
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(error.to_string().contains("its runtime ended"), "{error}");
}

#[test]
fn a_node_that_is_dropped_leaves_no_task_behind() {
    let Bed {
        world,
        server,
        node,
    } = Bed::connected();
    assert_eq!(world.tasks(), 1);
    drop(node);
    world.run();
    assert_eq!(world.tasks(), 0);
    assert!(server.open().is_empty());
}

#[test]
fn a_node_shows_its_label_and_nothing_else() {
    let bed = Bed::new();
    assert_eq!(bed.node.label(), "toy:1");
    assert_eq!(format!("{:?}", bed.node), "ClientNode(\"toy:1\")");
    assert!(bed.world.now().is_zero());
}
