//! What came of it, by intervals on one clock.

use std::collections::BTreeMap;
use std::fmt;

use crate::args::Rules;
use crate::clock::Micros;
use crate::event::{End, Event};
use crate::nodes::GROUP;

/// A lock as its holder believed in it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) child: u64,
    pub(crate) hold: u64,
    pub(crate) asked: Micros,
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    fence: Option<u64>,
    names: Vec<String>,
}

impl Hold {
    /// Whether its holder ever believed in it. One that was stopped until all was over did not.
    fn was_valid(&self) -> bool {
        self.until > self.from
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "child {} (hold {}: asked {}, from {}, until {})",
            self.child, self.hold, self.asked, self.from, self.until
        )
    }
}

/// A run of a tick.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) child: u64,
    pub(crate) asked: Micros,
    pub(crate) at: Micros,
}

/// A node that lost what was set between these moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgot {
    pub(crate) node: usize,
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    /// It was away for longer than any lock lives, so it forgot claims of ticks alone.
    pub(crate) locks_were_over: bool,
}

/// What should not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Two held a name at once.
    Overlap,
    /// A fencing token that is not above those before it.
    Fence,
    /// A tick was run more than once.
    Tick,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlap => "locks that were held twice at once",
            Self::Fence => "fencing tokens that did not grow",
            Self::Tick => "ticks that were run more than once",
        })
    }
}

/// Two that should not have been.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) first: Micros,
    pub(crate) last: Micros,
    /// The nodes that forgot meanwhile.
    pub(crate) forgot: Vec<usize>,
    /// Whether so many nodes forgot that two quorums may have had no node in common that remembered. Under a restart
    /// guard nothing explains two holders.
    pub(crate) is_explained: bool,
}

/// All that was told.
#[derive(Debug, Default)]
pub(crate) struct Record {
    holds: BTreeMap<(u64, u64), Hold>,
    ticks: BTreeMap<u64, Vec<Run>>,
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) forgot: Vec<Forgot>,
    pub(crate) failed: Vec<String>,
}

impl Record {
    pub(crate) fn take(&mut self, child: u64, event: &Event) {
        match event {
            Event::Held {
                hold,
                asked,
                from,
                until,
                fence,
                names,
            } => {
                let held = Hold {
                    child,
                    hold: *hold,
                    asked: *asked,
                    from: *from,
                    until: *until,
                    fence: *fence,
                    names: names.clone(),
                };
                self.holds.insert((child, *hold), held);
            }
            Event::Extended { hold, until } => {
                if let Some(held) = self.holds.get_mut(&(child, *hold)) {
                    held.until = held.until.max(*until);
                }
            }
            Event::Ended { hold, at, end } => {
                if let Some(held) = self.holds.get_mut(&(child, *hold)) {
                    held.until = held.until.min(match end {
                        End::GivenUp => *at,
                        // It ended by itself, and was believed in to the last.
                        End::Invalid { .. } if *at >= held.until => held.until,
                        End::Invalid { last_valid } => *last_valid,
                    });
                }
            }
            Event::Ran { tick, asked, at } => {
                let run = Run {
                    child,
                    asked: *asked,
                    at: *at,
                };
                self.ticks.entry(*tick).or_default().push(run);
            }
            Event::Count { what, times } => *self.counts.entry(what.clone()).or_default() += times,
            Event::Failed(text) => self.failed.push(format!("child {child}: {text}")),
            Event::AtRest(_) => {}
        }
    }

    pub(crate) fn holds(&self) -> usize {
        self.holds.len()
    }

    pub(crate) fn ticks(&self) -> usize {
        self.ticks.len()
    }

    /// What should not have been, under these rules.
    pub(crate) fn violations(&self, rules: Rules) -> Vec<Violation> {
        let mut by_name: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
        for hold in self.holds.values() {
            for name in &hold.names {
                by_name.entry(name).or_default().push(hold);
            }
        }
        let mut violations = self.repeated_ticks();
        for (name, mut holds) in by_name {
            holds.sort_by_key(|hold| hold.from);
            violations.extend(self.overlaps(name, &holds));
            violations.extend(self.fences(name, &holds));
        }
        for violation in &mut violations {
            violation.is_explained = match violation.kind {
                Kind::Overlap if rules.is_guarded => false,
                _ => violation.forgot.len() > rules.may_forget(),
            };
        }
        violations
    }

    /// Guards of one name that were valid at the same time.
    fn overlaps(&self, name: &str, holds: &[&Hold]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut alive: Vec<&Hold> = Vec::new();
        for &hold in holds.iter().filter(|hold| hold.was_valid()) {
            alive.retain(|before| before.until > hold.from);
            violations.extend(alive.iter().map(|before| self.overlap(name, before, hold)));
            alive.push(hold);
        }
        violations
    }

    /// Tokens of one name that two holds have, or that are below that of a hold which was over.
    fn fences(&self, name: &str, holds: &[&Hold]) -> Vec<Violation> {
        let mut by_fence: BTreeMap<u64, &Hold> = BTreeMap::new();
        let mut violations = Vec::new();
        let fenced = holds.iter().filter_map(|&hold| Some((hold.fence?, hold)));
        for (fence, hold) in fenced {
            let was_before =
                |before: &Hold| before.was_valid() && hold.was_valid() && before.until <= hold.from;
            let mut larger = by_fence.range(fence..);
            let before = larger.find(|(other, before)| **other == fence || was_before(before));
            violations.extend(before.map(|(other, before)| Violation {
                kind: Kind::Fence,
                text: format!("{name} got the token {fence} after {other}: {hold} after {before}"),
                first: before.asked,
                last: hold.from,
                // Of a counter that is lost a node makes up for with its clock, which is above it. A replica that lags
                // behind has an old one.
                forgot: self.forgot_within(before.asked, hold.from, |it| it.node == GROUP),
                is_explained: false,
            }));
            by_fence.insert(fence, hold);
        }
        violations
    }

    fn overlap(&self, name: &str, first: &Hold, second: &Hold) -> Violation {
        let both = first.until.min(second.until) - second.from;
        Violation {
            kind: Kind::Overlap,
            text: format!("{name} was held twice for {both} us: by {first} and {second}"),
            first: first.asked,
            last: second.from,
            forgot: self.forgot_within(first.asked, second.from, |forgot| !forgot.locks_were_over),
            is_explained: false,
        }
    }

    fn repeated_ticks(&self) -> Vec<Violation> {
        let repeated = self.ticks.iter().filter(|(_, runs)| runs.len() > 1);
        let violation = |(tick, runs): (&u64, &Vec<Run>)| {
            let asked = runs.iter().map(|run| run.asked).min().unwrap_or_default();
            let last = runs.iter().map(|run| run.at).max().unwrap_or_default();
            let tell = |run: &Run| {
                let Run { child, asked, at } = run;
                format!("by child {child} at {at} (asked {asked})")
            };
            let told: Vec<_> = runs.iter().map(tell).collect();
            Violation {
                kind: Kind::Tick,
                text: format!(
                    "the tick {tick} was run {} times: {}",
                    runs.len(),
                    told.join(", ")
                ),
                first: asked,
                last,
                forgot: self.forgot_within(asked, last, |_| true),
                is_explained: false,
            }
        };
        repeated.map(violation).collect()
    }

    /// The nodes that forgot between these moments.
    fn forgot_within(
        &self,
        first: Micros,
        last: Micros,
        counts: impl Fn(&Forgot) -> bool,
    ) -> Vec<usize> {
        let meanwhile = |forgot: &&Forgot| forgot.until >= first && forgot.from <= last;
        let forgot = self.forgot.iter().filter(meanwhile);
        let mut nodes: Vec<_> = forgot
            .filter(|forgot| counts(forgot))
            .map(|it| it.node)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Rules = Rules {
        quorum: 3,
        is_guarded: false,
    };

    /// A hold of two milliseconds.
    fn held(record: &mut Record, child: u64, from: Micros, names: &[&str]) {
        fenced(record, child, from, None, names);
    }

    fn fenced(
        record: &mut Record,
        child: u64,
        from: Micros,
        fence: impl Into<Option<u64>>,
        names: &[&str],
    ) {
        let event = Event::Held {
            hold: 1,
            asked: from - 10,
            from,
            until: from + 2_000,
            fence: fence.into(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        record.take(child, &event);
    }

    fn ended(record: &mut Record, child: u64, at: Micros, end: End) {
        record.take(child, &Event::Ended { hold: 1, at, end });
    }

    fn count(record: &Record) -> usize {
        record.violations(PLAIN).len()
    }

    fn forgets(record: &mut Record, node: usize, from: Micros) {
        record.forgot.push(Forgot {
            node,
            from,
            until: from + 10,
            locks_were_over: false,
        });
    }

    #[test]
    fn two_that_believe_in_one_name_at_once_are_a_violation() {
        let mut record = Record::default();
        held(&mut record, 1, 1_000, &["a", "b"]);
        held(&mut record, 2, 3_000, &["b", "c"]);
        assert_eq!(count(&record), 0);
        held(&mut record, 3, 4_999, &["a", "c"]);
        assert_eq!(count(&record), 1);
        held(&mut record, 4, 1_500, &["a"]);
        assert_eq!(count(&record), 2);
    }

    #[test]
    fn a_hold_ends_when_it_is_given_up_or_lost_and_not_when_that_is_told() {
        let second = |end: End, at, extended: Option<Micros>| {
            let mut record = Record::default();
            held(&mut record, 1, 1_000, &["a"]);
            if let Some(until) = extended {
                record.take(1, &Event::Extended { hold: 1, until });
            }
            held(&mut record, 2, 2_500, &["a"]);
            ended(&mut record, 1, at, end);
            count(&record)
        };
        assert_eq!(second(End::GivenUp, 2_400, None), 0);
        assert_eq!(second(End::GivenUp, 2_600, None), 1);
        // Lost before its time.
        assert_eq!(second(End::Invalid { last_valid: 2_400 }, 2_600, None), 0);
        // It ran out while its holder slept.
        assert_eq!(second(End::Invalid { last_valid: 2_400 }, 3_000, None), 1);
        let lost = End::Invalid { last_valid: 2_400 };
        assert_eq!(second(lost, 3_000, Some(4_000)), 0);
        assert_eq!(second(End::GivenUp, 4_000, Some(4_000)), 1);
    }

    #[test]
    fn a_node_that_forgot_in_between_explains_an_overlap_and_another_does_not() {
        let overlap = |from, until, locks_were_over| {
            let mut record = Record::default();
            held(&mut record, 1, 1_000, &["a"]);
            held(&mut record, 2, 2_000, &["a"]);
            record.forgot.push(Forgot {
                node: 3,
                from,
                until,
                locks_were_over,
            });
            record.violations(PLAIN)[0].is_explained
        };
        assert!(overlap(1_500, 1_600, false));
        assert!(overlap(500, 1_600, false));
        assert!(!overlap(1_500, 1_600, true), "it was away for long enough");
        assert!(!overlap(500, 900, false), "it forgot before");
        assert!(!overlap(2_100, 2_200, false), "it forgot later");
    }

    #[test]
    fn it_takes_more_forgetful_nodes_the_larger_the_quorum_and_no_number_under_a_guard() {
        let mut record = Record::default();
        held(&mut record, 1, 1_000, &["a"]);
        held(&mut record, 2, 2_000, &["a"]);
        let is_explained = |record: &Record, quorum, is_guarded| {
            let rules = Rules { quorum, is_guarded };
            record.violations(rules)[0].is_explained
        };
        for node in [0, 0, 1] {
            forgets(&mut record, node, 1_500);
        }
        assert!(is_explained(&record, 3, false));
        assert!(!is_explained(&record, 4, false));
        forgets(&mut record, 2, 1_500);
        assert!(is_explained(&record, 4, false));
        assert!(!is_explained(&record, 5, false));
        assert!(!is_explained(&record, 3, true));
    }

    #[test]
    fn fencing_tokens_are_unique_and_grow_from_one_hold_to_a_later_one() {
        let tokens = |first: u64, second: u64, from| {
            let mut record = Record::default();
            fenced(&mut record, 1, 1_000, first, &["a", "b"]);
            fenced(&mut record, 2, from, second, &["a"]);
            // Of another name.
            fenced(&mut record, 3, 9_000, 1, &["c"]);
            held(&mut record, 4, 9_000, &["a"]);
            let mut all = record.violations(PLAIN);
            all.retain(|it| it.kind == Kind::Fence);
            all.len()
        };
        assert_eq!(tokens(7, 8, 3_000), 0);
        assert_eq!(tokens(7, 7, 3_000), 1);
        assert_eq!(tokens(8, 7, 3_000), 1);
        // They overlap, and which was first is not known.
        assert_eq!(tokens(8, 7, 2_000), 0);
        assert_eq!(tokens(7, 7, 2_000), 1);
    }

    #[test]
    fn a_token_is_not_judged_by_a_hold_that_nobody_believed_in() {
        let mut record = Record::default();
        fenced(&mut record, 1, 1_000, 8, &["a"]);
        fenced(&mut record, 2, 5_000, 7, &["a"]);
        assert_eq!(count(&record), 1);
        let stopped = End::Invalid { last_valid: 5_000 };
        ended(&mut record, 2, 6_000, stopped);
        assert_eq!(count(&record), 0);
        fenced(&mut record, 3, 9_000, 9, &["a"]);
        assert_eq!(count(&record), 0);
        fenced(&mut record, 2, 5_000, 9, &["a"]);
        ended(&mut record, 2, 6_000, stopped);
        assert_eq!(count(&record), 1, "but its token is its own");
    }

    #[test]
    fn a_replica_alone_explains_a_token_that_went_back() {
        let mut record = Record::default();
        fenced(&mut record, 1, 1_000, 8, &["a"]);
        fenced(&mut record, 2, 5_000, 7, &["a"]);
        forgets(&mut record, 0, 4_000);
        assert!(!record.violations(PLAIN)[0].is_explained);
        forgets(&mut record, GROUP, 4_000);
        assert!(record.violations(PLAIN)[0].is_explained);
        let quorum = Rules { quorum: 4, ..PLAIN };
        assert!(!record.violations(quorum)[0].is_explained);
    }

    #[test]
    fn a_tick_runs_once() {
        let mut record = Record::default();
        let ran = |tick, at| Event::Ran {
            tick,
            asked: at - 5,
            at,
        };
        record.take(1, &ran(1, 100));
        record.take(2, &ran(2, 200));
        assert_eq!(count(&record), 0);
        record.take(2, &ran(1, 300));
        assert!(!record.violations(PLAIN)[0].is_explained);
        record.forgot.push(Forgot {
            node: 1,
            from: 150,
            until: 160,
            locks_were_over: true,
        });
        assert!(record.violations(PLAIN)[0].is_explained);
    }
}
