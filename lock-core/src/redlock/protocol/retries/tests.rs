use super::*;
use crate::inspection::LockKey;
use crate::retry::Jitter;

const MS: Duration = Duration::from_millis(1);
const HELD: Verdict = Verdict::Contended {
    holder: None,
    split: false,
};
const SPLIT: Verdict = Verdict::Contended {
    holder: None,
    split: true,
};
const DOWN: Verdict = Verdict::Unavailable { denied: false };
const DENIED: Verdict = Verdict::Unavailable { denied: true };

fn named() -> Verdict {
    let token = Some(b"a".to_vec());
    let holder = Some(LockKey { token, ttl: None });
    Verdict::Contended {
        holder,
        split: false,
    }
}

fn started(wait_policy: WaitPolicy) -> Retries {
    let mut wait = Retries::new(wait_policy, Duration::ZERO, 100 * MS);
    let first = wait.first();
    assert_eq!((first.cut_at, first.anchor_first), (None, false));
    wait
}

fn waiting(max_wait: Option<u64>, delay: u64) -> Retries {
    started(WaitPolicy::Wait {
        until: max_wait.map(Duration::from_millis),
        retry: RetryPolicy::new()
            .delay(Duration::from_millis(delay))
            .jitter(Jitter::None),
        give_up_when_held: false,
        give_up_when_unavailable: false,
    })
}

fn at(next: Next) -> Option<Duration> {
    match next {
        Next::Attempt { at, .. } => Some(at),
        Next::GiveUp => None,
    }
}

fn ask(next: Next) -> (bool, ReportHolder) {
    match next {
        Next::Attempt { ask, .. } => (ask.anchor_first, ask.report_holder),
        Next::GiveUp => panic!("gave up"),
    }
}

#[test]
fn a_try_ends_with_the_first_round_unless_the_votes_were_split() {
    for verdict in [HELD, DOWN, DENIED, Verdict::TooLate, named()] {
        let next = started(WaitPolicy::Try).after(&verdict, MS, 0.5);
        assert_eq!(next, Next::GiveUp, "{verdict:?}");
    }
    let mut wait = started(WaitPolicy::Try);
    let next = wait.after(&SPLIT, MS, 0.5);
    assert_eq!(ask(next), (true, ReportHolder::Everywhere));
    // A veto is no verdict of all nodes: they are asked next.
    assert_eq!(
        ask(wait.after(&Verdict::Vetoed, 5 * MS, 0.5)),
        (false, ReportHolder::Everywhere)
    );
    assert_eq!(wait.after(&named(), 9 * MS, 0.5), Next::GiveUp);
}

#[test]
fn a_try_sorts_split_votes_out_for_two_node_timeouts() {
    let mut wait = started(WaitPolicy::Try);
    let mut now = MS;
    let mut attempts = 0;
    while let Next::Attempt { at, ask } = wait.after(&SPLIT, now, 0.9) {
        assert!(at >= now && at < 200 * MS);
        assert_eq!(ask.cut_at, Some(200 * MS));
        now = at + MS;
        attempts += 1;
    }
    assert!((4..100).contains(&attempts), "{attempts}");
    assert_eq!(wait.after(&SPLIT, 200 * MS, 0.5), Next::GiveUp);
}

#[test]
fn a_wait_outlasts_holders_outages_and_late_grants_with_growing_pauses() {
    let mut wait = waiting(Some(1000), 5);
    assert_eq!(wait.first().report_holder, ReportHolder::Nowhere);
    assert_eq!(at(wait.after(&HELD, 10 * MS, 0.0)), Some(15 * MS));
    assert_eq!(at(wait.after(&DOWN, 20 * MS, 0.0)), Some(30 * MS));
    assert_eq!(
        at(wait.after(&Verdict::TooLate, 30 * MS, 0.0)),
        Some(50 * MS)
    );
    assert_eq!(at(wait.after(&named(), 50 * MS, 0.0)), Some(90 * MS));
    assert_eq!(wait.attempts(), 5);
}

#[test]
fn only_missing_permissions_end_a_wait_early() {
    assert_eq!(waiting(None, 5).after(&DENIED, MS, 0.0), Next::GiveUp);
}

#[test]
fn zero_sends_once_and_no_limit_never_ends() {
    assert_eq!(waiting(Some(0), 5).after(&HELD, MS, 0.0), Next::GiveUp);
    let mut endless = waiting(None, 5);
    for day in 1..1000 {
        let now = Duration::from_secs(day * 86_400);
        assert!(at(endless.after(&HELD, now, 0.0)).is_some());
    }
}

#[test]
fn a_pause_beyond_the_deadline_still_leaves_one_last_attempt_before_it() {
    let mut wait = waiting(Some(1000), 700);
    assert_eq!(at(wait.after(&HELD, 10 * MS, 0.0)), Some(710 * MS));
    assert_eq!(at(wait.after(&HELD, 720 * MS, 0.0)), Some(900 * MS));
    assert_eq!(wait.after(&HELD, 910 * MS, 0.0), Next::GiveUp);
}

#[test]
fn no_attempt_begins_at_or_after_the_deadline() {
    let mut wait = waiting(Some(1000), 0);
    assert_eq!(at(wait.after(&HELD, 999 * MS, 0.0)), Some(999 * MS));
    assert_eq!(wait.after(&HELD, 1000 * MS, 0.0), Next::GiveUp);
}

#[test]
fn without_a_delay_an_outage_is_still_not_hammered() {
    let mut wait = waiting(None, 0);
    assert_eq!(at(wait.after(&HELD, MS, 0.0)), Some(MS));
    assert_eq!(at(wait.after(&DOWN, MS, 0.0)), Some(2 * MS));
}

#[test]
fn after_split_votes_the_anchor_is_asked_first_and_after_its_veto_everybody() {
    let mut wait = waiting(None, 5);
    assert_eq!(
        ask(wait.after(&SPLIT, MS, 0.0)),
        (true, ReportHolder::AtAnchor)
    );
    let veto = Verdict::Vetoed;
    assert_eq!(
        ask(wait.after(&veto, MS, 0.0)),
        (false, ReportHolder::AtAnchor)
    );
    assert_eq!(
        ask(wait.after(&HELD, MS, 0.0)),
        (false, ReportHolder::AtAnchor)
    );
}

#[test]
fn who_gives_up_when_held_asks_everybody_who_holds_the_lock() {
    let mut wait = Retries::new(
        WaitPolicy::Wait {
            until: None,
            retry: RetryPolicy::new(),
            give_up_when_held: true,
            give_up_when_unavailable: false,
        },
        Duration::ZERO,
        100 * MS,
    );
    assert_eq!(wait.first().report_holder, ReportHolder::Everywhere);
    assert_eq!(
        ask(wait.after(&HELD, MS, 0.0)),
        (false, ReportHolder::Everywhere)
    );
    assert!(at(wait.after(&DOWN, MS, 0.0)).is_some());
    assert_eq!(wait.after(&named(), MS, 0.0), Next::GiveUp);
}

#[test]
fn who_gives_up_when_unavailable_waits_for_holders_alone() {
    let mut wait = started(WaitPolicy::Wait {
        until: None,
        retry: RetryPolicy::new(),
        give_up_when_held: false,
        give_up_when_unavailable: true,
    });
    for verdict in [HELD, SPLIT, named(), Verdict::Vetoed, Verdict::TooLate] {
        let next = wait.after(&verdict, MS, 0.0);
        assert!(at(next).is_some(), "{verdict:?}");
    }
    assert_eq!(wait.after(&DOWN, MS, 0.0), Next::GiveUp);
}
