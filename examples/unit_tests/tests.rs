//! Tests of the application.
//!
//! `start_paused` stops tokio's clock: whenever every task waits, it jumps to the next timer. So
//! each test takes no time at all, however long the waits in it, and nothing in it depends on how
//! busy the machine is. Locks, their ttls and the nodes go by that clock too.

use std::sync::Arc;
use std::time::Duration;

use lock_core::tick::Tick;
use lock_core::{AcquireError, DistributedLockExt, LockRequest, Redlock, WithLockError};
use lock_testkit::{Fault, MemoryNode};
use tokio::time::{Instant, sleep};

use crate::reminders::{Counts, Mailbox, Reminders, Round};

type Count = (Tick, usize);

const CUSTOMERS: [&str; 3] = ["Ada", "Grace", "Edsger"];

/// The application on three nodes in this process.
struct World {
    reminders: Reminders,
    mailbox: Mailbox,
    /// What another instance has: a lock object of its own over the same nodes.
    others: Redlock<MemoryNode>,
    /// Handles on the nodes, to break them and to look at their keys.
    nodes: Vec<MemoryNode>,
}

fn world() -> World {
    let nodes = MemoryNode::several(3);
    let locks = || Redlock::new(nodes.clone()).unwrap();
    let mailbox = Mailbox::default();
    World {
        reminders: Reminders::new(Arc::new(locks()), mailbox.clone()),
        mailbox,
        others: locks(),
        nodes,
    }
}

impl World {
    /// Breaks this many nodes; of three, one is a minority and two are a majority.
    fn break_nodes(&self, count: usize, fault: &Fault) {
        for node in &self.nodes[..count] {
            node.set_fault(fault.clone());
        }
    }

    fn keys(&self) -> usize {
        self.nodes.iter().map(|node| node.keys().len()).sum()
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_is_sent_when_nobody_else_sends_one() {
    let world = world();
    let round = world.reminders.send_all(&CUSTOMERS).await.unwrap();
    assert_eq!(round, Round::AllSent);
    assert_eq!(world.mailbox.sent(), CUSTOMERS);
    // A release waits for a quorum; the last node may get its own a moment later.
    sleep(Duration::from_millis(10)).await;
    assert_eq!(world.keys(), 0, "the lock is free again");
}

#[tokio::test(start_paused = true)]
async fn a_round_is_skipped_when_another_instance_sends_it() {
    let world = world();
    let _other = world.others.lock("reminders").await.unwrap();
    let round = world.reminders.send_all(&CUSTOMERS).await.unwrap();
    assert_eq!(round, Round::Skipped);
    assert!(world.mailbox.sent().is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_two_instances_that_start_together_one_sends() {
    let world = world();
    let other = Reminders::new(Arc::new(world.others.clone()), world.mailbox.clone());
    let rounds = tokio::join!(
        world.reminders.send_all(&CUSTOMERS),
        other.send_all(&CUSTOMERS)
    );
    let rounds = [rounds.0.unwrap(), rounds.1.unwrap()];
    assert!(rounds.contains(&Round::AllSent) && rounds.contains(&Round::Skipped));
    assert_eq!(world.mailbox.sent(), CUSTOMERS);
}

#[tokio::test(start_paused = true)]
async fn a_round_may_take_longer_than_the_ttl() {
    let world = world();
    let other = async {
        sleep(Duration::from_secs(25)).await;
        world.others.try_lock("reminders").await.unwrap().is_some()
    };
    let (round, had_it) = tokio::join!(world.reminders.send_all(&["Ada"; 30]), other);
    assert_eq!(round.unwrap(), Round::AllSent);
    assert!(!had_it);
}

/// Here the lock is taken away: as if the servers had forgotten it, or somebody had deleted it.
#[tokio::test(start_paused = true)]
async fn a_round_stops_when_the_lock_is_somebody_elses() {
    let world = world();
    let customers = ["Ada"; 30];
    let steal = async {
        sleep(Duration::from_millis(2500)).await;
        for node in &world.nodes {
            assert!(node.remove("reminders"));
            node.set_foreign("reminders", "somebody else");
        }
    };
    let (round, ()) = tokio::join!(world.reminders.send_all(&customers), steal);
    // The next automatic extension finds out, and comes before the ttl is over.
    let Round::StoppedAfter(sent) = round.unwrap() else {
        panic!("it went on to the end");
    };
    assert!((2..10).contains(&sent), "{sent}");
    assert_eq!(
        world.mailbox.sent().len(),
        sent,
        "and nothing was sent after"
    );
}

/// Here the nodes do not answer any more, so the lock cannot be extended, and ends.
#[tokio::test(start_paused = true)]
async fn a_round_stops_when_the_nodes_hang_for_longer_than_the_ttl() {
    let world = world();
    let customers = ["Ada"; 30];
    let hang = async {
        sleep(Duration::from_millis(2500)).await;
        world.break_nodes(2, &Fault::Hang);
    };
    let (round, ()) = tokio::join!(world.reminders.send_all(&customers), hang);
    assert!(matches!(round, Ok(Round::StoppedAfter(2..=10))));
}

#[tokio::test(start_paused = true)]
async fn one_node_of_three_may_fail_in_any_way() {
    let broken = Fault::error("OOM command not allowed when used memory > 'maxmemory'.");
    for fault in [Fault::Refuse, Fault::Hang, Fault::LoseReply, broken] {
        let world = world();
        world.break_nodes(1, &fault);
        let round = world.reminders.send_all(&CUSTOMERS).await.unwrap();
        assert_eq!(round, Round::AllSent, "{fault:?}");
    }
}

/// An outage is an error. It is never taken for "somebody else does it", which would hide it.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_most_nodes_are_down() {
    for fault in [Fault::Refuse, Fault::Hang, Fault::LoseReply] {
        let world = world();
        world.break_nodes(2, &fault);
        let error = world.reminders.send_all(&CUSTOMERS).await.unwrap_err();
        assert!(matches!(error, AcquireError::Unavailable(_)), "{error}");
        assert!(world.mailbox.sent().is_empty());

        // And all is well when they are back.
        world.nodes.iter().for_each(MemoryNode::heal);
        let round = world.reminders.send_all(&CUSTOMERS).await.unwrap();
        assert_eq!(round, Round::AllSent, "{fault:?}");
    }
}

/// Half a minute of waiting, in no time.
#[tokio::test(start_paused = true)]
async fn a_single_mail_waits_for_half_a_minute_and_no_longer() {
    let world = world();
    let request = LockRequest::new("reminders").auto_extend(true);
    let _other = world.others.lock(request).await.unwrap();
    let (began, began_really) = (Instant::now(), std::time::Instant::now());
    let error = world.reminders.send_now("Ada").await.unwrap_err();
    let WithLockError::Acquire(AcquireError::Contended(why)) = error else {
        panic!("it is no contention: {error}");
    };
    assert!(why.attempts > 1, "{why}");
    let waited = began.elapsed();
    // The last attempt is made shortly before the time is over, and ends the wait.
    let about = Duration::from_secs(29)..=Duration::from_secs(30);
    assert!(about.contains(&waited), "{waited:?}");
    assert!(began_really.elapsed() < waited);
    assert!(world.mailbox.sent().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_single_mail_is_sent_as_soon_as_the_round_is_over() {
    let world = world();
    let late = async {
        sleep(Duration::from_millis(100)).await;
        let other = Reminders::new(Arc::new(world.others.clone()), world.mailbox.clone());
        other.send_now("Barbara").await
    };
    let (round, late) = tokio::join!(world.reminders.send_all(&CUSTOMERS), late);
    assert_eq!(round.unwrap(), Round::AllSent);
    late.unwrap();
    assert_eq!(world.mailbox.sent(), ["Ada", "Grace", "Edsger", "Barbara"]);
}

/// A process that crashes releases nothing; its lock ends with the ttl.
#[tokio::test(start_paused = true)]
async fn after_a_crash_the_lock_is_free_when_its_ttl_is_over() {
    let world = world();
    let request = LockRequest::new("reminders").ttl(Duration::from_secs(20));
    let other = world.others.lock(request).await.unwrap();
    std::mem::forget(other);
    let began = Instant::now();
    world.reminders.send_now("Ada").await.unwrap();
    assert_eq!(world.mailbox.sent(), ["Ada"]);
    let waited = began.elapsed();
    let about = Duration::from_secs(20)..Duration::from_secs(23);
    assert!(about.contains(&waited), "{waited:?}");
}

/// Three instances for an hour, and each second is counted once: thousands of claims, in a second or so.
#[tokio::test(start_paused = true)]
async fn each_second_of_an_hour_is_counted_once() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let world = world();
    let counts = Counts::default();
    let other = || Reminders::new(Arc::new(world.others.clone()), world.mailbox.clone());
    let (second, third) = (other(), other());
    let (began, began_really) = (Instant::now(), std::time::Instant::now());
    let all = async {
        tokio::join!(
            world.reminders.count_forever(&counts),
            second.count_forever(&counts),
            third.count_forever(&counts),
        )
    };
    let ended = tokio::time::timeout(HOUR, all).await;
    assert!(ended.is_err(), "they never end: {ended:?}");
    assert!(began_really.elapsed() < began.elapsed() / 10);
    let counts = counts.all();
    // The one before the start is caught up.
    assert!((3_600..=3_602).contains(&counts.len()), "{}", counts.len());
    let follows = |one: &Count, next: &Count| one.0.as_millis() + 1_000 == next.0.as_millis();
    assert!(counts.is_sorted_by(follows), "each second once, in order");
}

/// What is not run while the nodes are down is lost, and the job goes on by itself.
#[tokio::test(start_paused = true)]
async fn counting_goes_on_after_an_outage() {
    let world = world();
    let counts = Counts::default();
    let outage = async {
        sleep(Duration::from_secs(10)).await;
        world.break_nodes(2, &Fault::Refuse);
        sleep(Duration::from_secs(10)).await;
        world.nodes.iter().for_each(MemoryNode::heal);
        sleep(Duration::from_secs(10)).await;
    };
    tokio::select! {
        ended = world.reminders.count_forever(&counts) => panic!("it ended: {ended:?}"),
        () = outage => {}
    }
    let counted = counts.all().len();
    assert!((18..=24).contains(&counted), "{counted}");
}

/// A deploy: the lock is shut down, which waits for what runs and ends the loop.
#[tokio::test(start_paused = true)]
async fn counting_ends_when_the_lock_is_shut_down() {
    let world = world();
    let (reminders, counts) = (
        Reminders::new(Arc::new(world.others.clone()), world.mailbox),
        Counts::default(),
    );
    let counting = reminders.count_forever(&counts);
    let shutdown = async {
        sleep(Duration::from_secs(5)).await;
        world.others.shutdown().await
    };
    let (ended, shut_down) = tokio::join!(counting, shutdown);
    assert!(ended.is_ok() && shut_down.is_ok());
    assert!(counts.all().len() >= 5);
}
