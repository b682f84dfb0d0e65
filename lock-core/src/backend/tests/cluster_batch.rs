//! Batches and listings on a cluster: parts for each slot, and answers that are put together.

use super::cluster_toy::*;
use super::*;
use crate::node::ExtendEntry;

fn extend(keys: &[&str]) -> Command {
    let entry = |key: &&str| ExtendEntry {
        key: Arc::from(key.as_bytes()),
        token: Token::from_random([0; 16]),
        ttl: Ttl::new(LONG).unwrap(),
    };
    Command::from(Operation::Extend {
        entries: keys.iter().map(entry).collect(),
    })
}

fn ints(numbers: &[i64]) -> Result<Reply, NodeError> {
    Ok(Reply::Array(
        numbers.iter().copied().map(Reply::Int).collect(),
    ))
}

/// Has a server answer its oldest command on its first connection in use.
fn answer(bed: &ClusterBed, port: u16, answer: Result<Reply, NodeError>) {
    assert!(bed.servers.at(port).answer(1, answer));
}

#[test]
fn a_batch_goes_slot_by_slot_and_its_answers_come_in_its_order() {
    let bed = ClusterBed::connected();
    let call = bed.call(&extend(&["a", "b", "{a}2", "c"]), WITHIN);
    // By their slots: b, c, a.
    assert_eq!(bed.log(1), ["1 EVALSHA b", "1 EVALSHA c"]);
    assert_eq!(bed.log(2), ["1 EVALSHA a"]);
    answer(&bed, 2, ints(&[1, -1]));
    answer(&bed, 1, ints(&[0]));
    answer(&bed, 1, ints(&[1]));
    assert_eq!(call.answer().unwrap(), ints(&[1, 0, -1, 1]).unwrap());
}

#[test]
fn what_one_master_does_not_answer_is_unknown_and_the_rest_is_told_in_time() {
    let bed = ClusterBed::connected();
    let mut call = bed.call(&extend(&["a", "b", "c"]), WITHIN);
    answer(&bed, 2, ints(&[1]));
    bed.world.advance(WITHIN * 3 / 4 - MS);
    assert!(call.poll().is_pending());
    bed.world.advance(MS);
    let expected = Reply::Array(vec![Reply::Int(1), Reply::Nil, Reply::Nil]);
    assert_eq!(call.answer().unwrap(), expected);
}

#[test]
fn a_batch_without_any_answer_is_an_error_that_says_whether_it_was_sent() {
    let bed = ClusterBed::connected();
    let call = bed.call(&extend(&["a", "b"]), WITHIN);
    bed.world.advance(WITHIN);
    assert_eq!(call.kind(), NodeErrorKind::NoAnswer);

    let bed = ClusterBed::connected();
    for port in [1, 2] {
        bed.servers
            .at(port)
            .refuse(Some(NodeError::not_sent("full")));
    }
    let call = bed.call(&extend(&["a", "b"]), WITHIN);
    assert_eq!(call.kind(), NodeErrorKind::NotSent);
    bed.servers.at(2).refuse(None);
    let call = bed.call(&extend(&["a", "b"]), WITHIN);
    answer(&bed, 2, Err(NodeError::server("OOM no room")));
    assert_eq!(call.error().code(), Some("OOM"), "something was sent");
}

#[test]
fn a_master_that_does_not_know_the_script_is_told_at_once_for_the_whole_batch() {
    let bed = ClusterBed::connected();
    let call = bed.call(&extend(&["a", "b"]), WITHIN);
    answer(&bed, 2, ints(&[1]));
    answer(
        &bed,
        1,
        Err(NodeError::server("NOSCRIPT No matching script.")),
    );
    assert!(call.error().is_no_script());
    let call = bed.call(&extend(&["a", "b"]).with_source(), WITHIN);
    assert_eq!(bed.log(1).last().unwrap(), "1 EVAL b");
    bed.answer_all();
    call.error();
}

#[test]
fn what_is_refused_for_the_sake_of_one_key_is_sent_for_each_by_itself() {
    for (line, to) in [
        ("TRYAGAIN Multiple keys request during rehashing of slot", 1),
        ("NOPERM this user has no permissions to access a key", 1),
        ("MOVED 3300 h:2", 2),
    ] {
        let bed = ClusterBed::connected();
        let mut call = bed.call(&extend(&["b", "{b}2", "a"]), WITHIN);
        bed.refuse(1, 1, line);
        answer(&bed, 2, ints(&[1]));
        assert!(call.poll().is_pending());
        assert_eq!(
            bed.log(to)[1..],
            ["1 EVALSHA b", "1 EVALSHA {b}2"],
            "{line}"
        );
        answer(&bed, to, ints(&[1]));
        answer(&bed, to, Err(NodeError::server("NOPERM no")));
        let expected = Reply::Array(vec![Reply::Int(1), Reply::Nil, Reply::Int(1)]);
        assert_eq!(call.answer().unwrap(), expected, "{line}");
    }
}

#[test]
fn an_extension_is_not_sent_again_behind_a_later_release() {
    let bed = ClusterBed::connected();
    let call = bed.call(&extend(&["b", "{b}2"]), LONG);
    let releases = bed.call(&release("b"), LONG);
    bed.refuse(1, 1, "MOVED 3300 h:2");
    let mut call = call;
    assert!(call.poll().is_pending());
    assert_eq!(bed.log(2), ["1 EVALSHA {b}2"]);
    bed.answer_all();
    releases.answer().unwrap();
    bed.servers.at(2).answer_all();
    drop(call);
}

#[test]
fn a_listing_goes_through_the_masters_one_after_the_other() {
    let bed = ClusterBed::connected();
    let part = |cursor: u64, keys: &[&str]| {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let keys = keys.iter().map(|key| bytes(key)).collect();
        Reply::Array(vec![bytes(&cursor.to_string()), Reply::Array(keys)])
    };
    let scan = |cursor| {
        let prefix = Arc::from(*b"lock:");
        Command::from(Operation::Scan { prefix, cursor })
    };
    let second = 1 << 54;
    for (port, cursor, own, next) in [
        (1, 0, 17, 17),
        (1, 17, 0, second),
        (2, second, 9, second + 9),
        (2, second + 9, 0, 0),
    ] {
        let call = bed.call(&scan(cursor), WITHIN);
        answer(&bed, port, Ok(part(own, &["k"])));
        assert_eq!(call.answer().unwrap(), part(next, &["k"]));
    }
}
