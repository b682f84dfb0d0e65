//! A cluster as one node: where commands go, and when they are sent again (N3, N5, N7, N12).

use super::cluster_toy::*;
use super::*;
use crate::backend::ClusterNode;

#[test]
fn calls_wait_for_the_first_map_and_go_to_the_masters_of_their_slots_in_their_order() {
    let bed = ClusterBed::new();
    let calls = ["a", "b", "c", "a"].map(|key| bed.call(&acquire(key), WITHIN));
    assert_eq!(bed.servers.at(1).connects(), 0);
    bed.settle();
    assert_eq!(bed.log(1), ["1 SET b", "1 SET c"]);
    assert_eq!(bed.log(2), ["1 SET a", "1 SET a"]);
    bed.answer_all();
    for call in calls {
        call.answer().unwrap();
    }
    // The connections over which they were asked have ended.
    assert_eq!(bed.servers.at(1).open(), [1]);
    assert_eq!(bed.servers.at(2).open(), [1]);
    assert_eq!(bed.node.label(), "cluster@h:1,h:2");
}

#[test]
fn what_is_moved_is_followed_and_known_from_then_on() {
    let bed = ClusterBed::connected();
    let call = bed.call(&acquire("b"), WITHIN);
    bed.refuse(1, 1, "MOVED 3300 h:2");
    let mut call = call;
    assert!(call.poll().is_pending());
    assert_eq!(bed.log(2), ["1 SET b"]);
    bed.answer_all();
    call.answer().unwrap();
    let next = bed.call(&acquire("b"), WITHIN);
    assert_eq!(bed.log(1), ["1 SET b"]);
    assert_eq!(bed.log(2), ["1 SET b", "1 SET b"]);
    bed.answer_all();
    next.answer().unwrap();
}

#[test]
fn an_ask_is_followed_with_asking_right_before_the_command_and_holds_for_that_alone() {
    let bed = ClusterBed::connected();
    let mut call = bed.call(&acquire("b"), WITHIN);
    bed.refuse(1, 1, "ASK 3300 h:3");
    assert!(call.poll().is_pending());
    bed.world.run();
    assert_eq!(bed.log(3), ["0 ASKING", "0 SET b"]);
    bed.answer_all();
    call.answer().unwrap();
    bed.servers.at(1).forget_log();
    drop(bed.call(&acquire("b"), WITHIN));
    assert_eq!(bed.log(1), ["1 SET b"]);
}

/// An acquire of "b" that a server has, which does not have its slot any more. Everybody else knows.
fn late_redirect<'b>(bed: &'b ClusterBed, command: &Command) -> Call<'b> {
    let call = bed.call(command, LONG);
    let mut other = bed.call(&acquire("{b}other"), LONG);
    bed.servers.at(1).forget_log();
    let line = "MOVED 3300 h:2";
    // The answer to the other one comes first, over whatever line.
    let late = bed.servers.at(1).hold_oldest(1);
    bed.refuse(1, 1, line);
    bed.servers.at(1).put_back(1, late);
    assert!(other.poll().is_pending());
    bed.servers.at(2).answer_all();
    other.answer().unwrap();
    bed.servers.at(2).forget_log();
    call
}

#[test]
fn an_acquire_is_not_sent_again_behind_the_release_that_went_straight_to_the_right_server() {
    let bed = ClusterBed::connected();
    let acquires = late_redirect(&bed, &acquire("b"));
    let releases = bed.call(&release("b"), LONG);
    assert_eq!(bed.log(2), ["1 EVAL b"]);
    bed.refuse(1, 1, "MOVED 3300 h:2");
    let error = acquires.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(error.to_string().contains("a later command"), "{error}");
    assert!(source(&error).contains("MOVED"), "{error:?}");
    bed.answer_all();
    releases.answer().unwrap();
    assert_eq!(bed.log(2), ["1 EVAL b"]);
}

#[test]
fn an_acquire_is_sent_again_while_nothing_later_has_left_for_its_key() {
    let bed = ClusterBed::connected();
    let mut acquires = late_redirect(&bed, &acquire("b"));
    let other = bed.call(&release("{b}another"), LONG);
    bed.refuse(1, 1, "MOVED 3300 h:2");
    assert!(acquires.poll().is_pending());
    assert_eq!(bed.log(2), ["1 EVAL {b}another", "1 SET b"]);
    bed.answer_all();
    acquires.answer().unwrap();
    other.answer().unwrap();
}

#[test]
fn a_release_is_sent_again_whatever_has_left_meanwhile() {
    let bed = ClusterBed::connected();
    let mut releases = late_redirect(&bed, &release("b"));
    let acquires = bed.call(&acquire("b"), LONG);
    bed.refuse(1, 1, "MOVED 3300 h:2");
    assert!(releases.poll().is_pending());
    assert_eq!(bed.log(2), ["1 SET b", "1 EVAL b"]);
    bed.answer_all();
    acquires.answer().unwrap();
    releases.answer().unwrap();
}

#[test]
fn a_call_that_is_dropped_is_not_sent_again() {
    let bed = ClusterBed::connected();
    let call = bed.call(&acquire("b"), WITHIN);
    bed.refuse(1, 1, "MOVED 3300 h:2");
    drop(call);
    bed.settle();
    assert_eq!(bed.log(2), [""; 0]);
}

#[test]
fn servers_that_refer_to_each_other_are_left_after_five_times() {
    let bed = ClusterBed::connected();
    let mut call = bed.call(&acquire("b"), LONG);
    for number in 0..6 {
        let (at, to) = if number % 2 == 0 { (1, 2) } else { (2, 1) };
        bed.refuse(at, 1, &format!("MOVED 3300 h:{to}"));
        if number < 5 {
            assert!(call.poll().is_pending(), "{number}");
        }
    }
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent, "it has not run");
    assert_eq!(bed.log(1).len() + bed.log(2).len(), 6);
    let call = bed.call(&acquire("b"), LONG);
    let at = if bed.log(1).len() > 3 { 1 } else { 2 };
    bed.refuse(at, 1, "MOVED 3300 ?:7");
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(source(&error).contains("?:7"), "{error:?}");
}

#[test]
fn errors_of_a_cluster_that_name_no_other_server_are_told() {
    let bed = ClusterBed::connected();
    for line in [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "CROSSSLOT Keys in request don't hash to the same slot",
    ] {
        let call = bed.call(&acquire("b"), WITHIN);
        bed.refuse(1, 1, line);
        assert_eq!(call.error().to_string(), line);
    }
    assert_eq!(bed.log(1).len(), 3);
}

#[test]
fn a_master_that_died_is_left_when_the_others_know_who_took_its_place() {
    let bed = ClusterBed::connected();
    let held = bed.call(&acquire("a"), LONG);
    let down = NodeError::not_sent("refused");
    bed.servers.at(1).accept(Accept::No(down));
    bed.servers.at(1).cut(1, NodeError::connection("reset"));
    bed.world.run();
    bed.servers.say(&[2, 3], &[(LOW, 3), (HIGH, 2)]);
    let call = bed.call(&acquire("b"), WITHIN);
    bed.settle();
    assert_eq!(call.kind(), NodeErrorKind::NotSent);
    bed.settle();
    let call = bed.call(&acquire("b"), WITHIN);
    bed.world.run();
    assert_eq!(bed.log(3), ["0 SET b"]);
    bed.answer_all();
    call.answer().unwrap();
    held.answer().unwrap();
    assert_eq!(bed.servers.at(2).open(), [1], "it goes on");
}

#[test]
fn a_connection_ends_with_the_slots_of_its_server_behind_the_releases_that_it_owes() {
    let bed = ClusterBed::connected();
    let mut doubtful = bed.call(&acquire("b"), WITHIN);
    bed.world.advance(WITHIN);
    assert!(doubtful.poll().is_ready());
    bed.servers.say(&[1, 2], &[(0..=16_383, 2)]);
    bed.world.advance(20 * WITHIN);
    // It hears that something has moved.
    drop(bed.call(&acquire("c"), LONG));
    let mut call = bed.call(&acquire("{c}1"), WITHIN);
    while bed
        .servers
        .at(1)
        .answer(1, Err(NodeError::server("MOVED 7365 h:2")))
    {}
    assert!(call.poll().is_pending());
    bed.settle();
    assert!(
        bed.log(1).contains(&"1 EVAL b".to_owned()),
        "{:?}",
        bed.log(1)
    );
    bed.answer_all();
    call.answer().unwrap();
    bed.world.run();
    assert_eq!(bed.servers.at(1).open(), [0; 0]);
    assert_eq!(bed.servers.at(2).open(), [1]);
}

#[test]
fn a_release_behind_a_doubtful_acquire_asks_where_that_asked() {
    let bed = ClusterBed::connected();
    for _ in 0..3 {
        let mut call = bed.call(&acquire("b"), WITHIN);
        bed.refuse(1, 1, "ASK 3300 h:3");
        assert!(call.poll().is_pending());
        bed.world.advance(WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NoAnswer);
    }
    let log = bed.log(3);
    let (sets, releases) = log.split_at(6);
    assert_eq!(sets.concat(), "0 ASKING0 SET b".repeat(3));
    assert_eq!(releases.concat(), "0 ASKING0 EVAL b".repeat(3));
}

#[test]
fn the_servers_are_asked_by_one_task_at_a_time_and_seldom() {
    let bed = ClusterBed::connected();
    let before = bed.servers.asked();
    for _ in 0..1000 {
        let call = bed.call(&acquire("b"), WITHIN);
        bed.refuse(1, 1, "CLUSTERDOWN The cluster is down");
        call.error();
        bed.world.advance(10 * MS);
    }
    let asked = bed.servers.asked() - before;
    // Three of them at 0, 0.5, 1.5, 3.5, .. seconds.
    assert!((9..=30).contains(&asked), "{asked} in ten seconds");
    assert_eq!(bed.servers.at(1).open(), [1]);
}

#[test]
fn servers_that_are_away_are_all_named_and_tried_again_after_a_pause() {
    let bed = ClusterBed::new();
    for port in [1, 2] {
        let down = NodeError::not_sent("cannot connect").with_source("refused");
        bed.servers.at(port).accept(Accept::No(down));
    }
    let call = bed.call(&acquire("a"), WITHIN);
    bed.settle();
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    let each = "h:1: cannot connect: refused; h:2: cannot connect: refused";
    assert_eq!(source(&error), each);
    bed.servers.at(2).accept(Accept::Yes);
    bed.world.advance(WITHIN);
    let call = bed.call(&acquire("a"), WITHIN);
    bed.settle();
    bed.answer_all();
    call.answer().unwrap();
}

#[test]
fn servers_that_hang_keep_a_call_no_longer_than_it_may_take() {
    let bed = ClusterBed::new();
    for port in [1, 2] {
        bed.servers.at(port).accept(Accept::Never);
    }
    let call = bed.call(&acquire("a"), WITHIN);
    bed.world.advance(WITHIN);
    assert_eq!(call.kind(), NodeErrorKind::NotSent);
    let bed = ClusterBed::new();
    bed.servers.at(1).accept(Accept::Never);
    let mut call = bed.call(&acquire("a"), 2 * WITHIN);
    bed.world.advance(WITHIN);
    assert!(call.poll().is_pending());
    assert_eq!(bed.log(2), ["1 SET a"], "one that answers is enough");
}

#[test]
fn a_server_that_is_of_no_cluster_is_told_as_such_and_is_sent_nothing() {
    let bed = ClusterBed::new();
    bed.servers.leave_cluster(1);
    bed.servers.leave_cluster(2);
    let call = bed.call(&acquire("a"), WITHIN);
    bed.settle();
    let error = call.error();
    assert_eq!(error.kind(), NodeErrorKind::NotSent);
    assert!(
        source(&error).contains("h:2 is not a server of a cluster"),
        "{error:?}"
    );

    // One that has got the address of one that was.
    let bed = ClusterBed::connected();
    bed.servers.leave_cluster(1);
    bed.servers.at(1).cut(1, NodeError::connection("reset"));
    bed.world.run();
    let call = bed.call(&acquire("b"), WITHIN);
    bed.settle();
    let error = call.error();
    assert_eq!(error.to_string(), "h:1 is not a server of a cluster");
    assert_eq!(bed.log(1), [""; 0]);
}

#[test]
fn a_runtime_that_ended_leaves_no_call_waiting() {
    let bed = ClusterBed::new();
    let mut call = bed.call(&acquire("a"), WITHIN);
    bed.world.end();
    assert!(call.is_woken());
    assert!(call.poll().is_ready());
    for _ in 0..3 {
        let call = bed.call(&acquire("a"), WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NotSent);
    }
    let bed = ClusterBed::connected();
    bed.world.end();
    for key in ["a", "b"] {
        let call = bed.call(&acquire(key), WITHIN);
        assert_eq!(call.kind(), NodeErrorKind::NotSent);
    }
}

#[test]
fn a_cluster_needs_servers_and_each_of_them_once() {
    let refused = |servers: Vec<_>| ClusterNode::new(servers).unwrap_err().to_string();
    assert!(refused(Vec::new()).contains("the list of servers is empty"));
    let bed = ClusterBed::new();
    let one = bed.client(1);
    let twice = refused(vec![one.clone(), one]);
    assert!(twice.contains("h:1 is listed twice"), "{twice}");
}
