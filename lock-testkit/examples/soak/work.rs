//! What a child does with locks.

use std::time::Duration;

use lock_core::{
    AcquireError, DistributedLockExt, ExtendError, FencingToken, LockGuard, LockRequest,
    NodeReport, NodeVote, ReleaseError,
};
use lock_testkit::sim::Chance;
use tokio::time::{Instant, sleep, timeout};

use crate::child::Desk;
use crate::clock::{self, Micros, micros};
use crate::event::{End, Event};

/// No lock lives for longer than this after it was last extended.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(3);

/// What is counted if an acquire failed while a node was in quarantine.
pub(crate) const IN_QUARANTINE: &str = "unavailable-by-quarantine";

/// How often a holder looks at its guard.
const LOOK: Duration = Duration::from_millis(5);

/// How late `lost()` may be: a timer on a machine that is busy.
const LOST_WITHIN: Duration = Duration::from_secs(5);

/// What the children lock.
const PLAIN: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
const EXTENDED: [&str; 4] = ["e0", "e1", "e2", "e3"];

/// What a worker does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One lock, which is extended by hand now and then, or held for longer than it lives.
    Plain,
    /// One lock that is extended automatically.
    Extended,
    /// Several resources at once, which others lock alone.
    Several,
    /// Acquires that are dropped half-way.
    Dropped,
    /// A job that runs once for each tick: see `ticks.rs`.
    Ticks,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Extended => "extended",
            Self::Several => "several",
            Self::Dropped => "dropped",
            Self::Ticks => "tick",
        }
    }

    /// What to lock, and how.
    fn request(self, chance: &mut Chance) -> (Vec<&'static str>, LockRequest) {
        let names = match self {
            Self::Extended => vec![EXTENDED[chance.index(EXTENDED.len())]],
            Self::Several => {
                let mut all = [&PLAIN[..], &EXTENDED[..]].concat();
                while all.len() > 3 || all.len() > 2 && chance.below(2) == 0 {
                    all.swap_remove(chance.index(all.len()));
                }
                all
            }
            _ => vec![PLAIN[chance.index(PLAIN.len())]],
        };
        let ttl = match self {
            Self::Dropped => LONGEST_TTL,
            _ => between(chance, 800, 3_000),
        };
        let request = LockRequest::many(&names)
            .ttl(ttl)
            .auto_extend(self == Self::Extended)
            .max_wait(between(chance, 0, 2_000))
            .fencing(chance.below(2) == 0);
        (names, request)
    }
}

/// Works when it is time to, for ever.
pub(crate) async fn run(desk: Desk, kind: Kind, mut chance: Chance) {
    loop {
        desk.rest().await;
        once(&desk, kind, &mut chance).await;
        sleep(between(&mut chance, 0, 30)).await;
    }
}

async fn once(desk: &Desk, kind: Kind, chance: &mut Chance) {
    let (names, request) = kind.request(chance);
    let asked = clock::now();
    let acquiring = desk.locks.lock(&request);
    let limit = match kind {
        Kind::Dropped => Duration::from_micros(chance.below(20_000)),
        _ => Duration::MAX,
    };
    let Ok(acquired) = timeout(limit, acquiring).await else {
        desk.count("dropped-acquire".to_owned());
        return;
    };
    let outcome = match acquired {
        Ok(guard) => {
            desk.count(format!("{}-acquired", kind.name()));
            match (request.options().fencing, guard.fencing_token()) {
                (Some(true), None) | (Some(false), Some(_)) => {
                    let error = format!("{request:?} got {:?}", guard.fencing_token());
                    desk.tell(&Event::Failed(error));
                }
                (_, Some(_)) => desk.count("fenced-acquired".to_owned()),
                (_, None) => {}
            }
            let holding = Holding::begin(desk, guard, asked, &names);
            return holding.run(kind, &request, chance).await;
        }
        Err(AcquireError::Contended(_)) => "contended",
        Err(AcquireError::Unavailable(error)) => {
            if error.nodes.iter().any(is_in_quarantine) {
                desk.count(IN_QUARANTINE.to_owned());
            }
            "unavailable"
        }
        Err(AcquireError::TooSlow(_)) => "too-slow",
        Err(error) => {
            let error = format!("{} of {names:?}: {error}", kind.name());
            return desk.tell(&Event::Failed(error));
        }
    };
    desk.count(format!("{}-{outcome}", kind.name()));
}

fn is_in_quarantine(node: &NodeReport) -> bool {
    matches!(&node.vote, NodeVote::Failed(error) if error.code() == Some("QUARANTINE"))
}

/// A guard, and what was told of it.
struct Holding<'a> {
    desk: &'a Desk,
    guard: LockGuard,
    hold: u64,
    until: Micros,
    last_valid: Micros,
}

impl<'a> Holding<'a> {
    fn begin(desk: &'a Desk, guard: LockGuard, asked: Micros, names: &[&str]) -> Self {
        // What is left is read after the clock, so that its end is told as too early rather than too late.
        let from = clock::now();
        let until = from + micros(guard.remaining());
        let hold = desk.hold();
        desk.tell(&Event::Held {
            hold,
            asked,
            from,
            until,
            fence: guard.fencing_token().map(FencingToken::get),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        });
        Self {
            desk,
            guard,
            hold,
            until,
            last_valid: from,
        }
    }

    /// Holds the lock for a while, and gives it up in one way or another.
    async fn run(mut self, kind: Kind, request: &LockRequest, chance: &mut Chance) {
        let length = match kind {
            Kind::Extended if chance.below(4) > 0 => between(chance, 50, 1_000),
            Kind::Extended => between(chance, 1_000, 6_000),
            Kind::Dropped => between(chance, 0, 20),
            // Now and then for longer than it lives.
            _ if chance.below(10) == 0 => between(chance, 500, 4_000),
            _ => between(chance, 0, 300),
        };
        let end = Instant::now() + length;
        while Instant::now() < end && self.desk.is_working() {
            sleep(LOOK).await;
            if !self.look() {
                return self.lost().await;
            }
            if kind == Kind::Plain && chance.below(20) == 0 {
                self.extend(request, chance).await;
            }
        }
        self.give_up(chance).await;
    }

    /// Returns whether the guard is valid, and tells if it lives longer than before.
    fn look(&mut self) -> bool {
        let now = clock::now();
        let left = self.guard.remaining();
        if left.is_zero() {
            return false;
        }
        self.last_valid = now;
        let until = now + micros(left);
        // What is less comes from the time between the two readings.
        if until > self.until + 1_000 {
            self.until = until;
            let hold = self.hold;
            self.desk.tell(&Event::Extended { hold, until });
        }
        true
    }

    /// Extends the lock by hand, or drops that half-way.
    async fn extend(&self, request: &LockRequest, chance: &mut Chance) {
        let ttl = request.options().ttl.unwrap_or(LONGEST_TTL);
        let limit = match chance.below(4) {
            0 => Duration::from_micros(chance.below(3_000)),
            _ => Duration::MAX,
        };
        let outcome = match timeout(limit, self.guard.extend(ttl)).await {
            Err(_) => "dropped",
            Ok(Ok(())) => "done",
            Ok(Err(ExtendError::Unavailable { .. })) => "unavailable",
            Ok(Err(ExtendError::Lost)) => "lost",
            Ok(Err(error)) => {
                let error = format!("an extension: {error}");
                return self.desk.tell(&Event::Failed(error));
            }
        };
        self.desk.count(format!("extension-{outcome}"));
    }

    async fn give_up(self, chance: &mut Chance) {
        let at = clock::now();
        let limit = match chance.below(4) {
            0 => {
                drop(self.guard);
                self.desk.count("guard-dropped".to_owned());
                return tell_end(self.desk, self.hold, at, End::GivenUp);
            }
            1 => Duration::from_micros(chance.below(3_000)),
            _ => Duration::MAX,
        };
        let outcome = match timeout(limit, self.guard.release()).await {
            Err(_) => "dropped",
            Ok(Ok(())) => "done",
            Ok(Err(ReleaseError::NotHeld)) => "not-held",
            Ok(Err(ReleaseError::Unavailable { .. })) => "unavailable",
            Ok(Err(error)) => {
                let error = format!("a release: {error}");
                self.desk.tell(&Event::Failed(error));
                "failed"
            }
        };
        self.desk.count(format!("release-{outcome}"));
        tell_end(self.desk, self.hold, at, End::GivenUp);
    }

    async fn lost(self) {
        let end = End::Invalid {
            last_valid: self.last_valid,
        };
        tell_end(self.desk, self.hold, clock::now(), end);
        self.desk.count("guard-lost".to_owned());
        if timeout(LOST_WITHIN, self.guard.lost()).await.is_err() {
            let error = format!("hold {} is over, and `lost` goes on", self.hold);
            self.desk.tell(&Event::Failed(error));
        }
    }
}

fn tell_end(desk: &Desk, hold: u64, at: Micros, end: End) {
    desk.tell(&Event::Ended { hold, at, end });
}

fn between(chance: &mut Chance, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + chance.below(high - low))
}
