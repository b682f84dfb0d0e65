//! What came of it, by intervals on one clock.

use std::collections::BTreeMap;

use crate::clock::Micros;
use crate::event::{End, Event};
use crate::nodes::{NODES, QUORUM};

/// A lock as its holder believed in it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) child: u64,
    pub(crate) hold: u64,
    pub(crate) asked: Micros,
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    names: Vec<String>,
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

/// Two that should not have been.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) text: String,
    pub(crate) first: Micros,
    pub(crate) last: Micros,
    /// The nodes that forgot meanwhile.
    pub(crate) forgot: Vec<usize>,
}

impl Violation {
    /// Whether so many nodes forgot that two quorums may have had no node in common that remembered: those have
    /// `2q - N` nodes in common at least.
    pub(crate) fn is_explained(&self) -> bool {
        self.forgot.len() > 2 * QUORUM - NODES - 1
    }
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
                names,
            } => {
                let held = Hold {
                    child,
                    hold: *hold,
                    asked: *asked,
                    from: *from,
                    until: *until,
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

    pub(crate) fn violations(&self) -> Vec<Violation> {
        let mut violations = self.overlaps();
        violations.extend(self.repeated_ticks());
        violations
    }

    /// Guards of one name that were valid at the same time.
    fn overlaps(&self) -> Vec<Violation> {
        let mut by_name: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
        for hold in self.holds.values() {
            for name in &hold.names {
                by_name.entry(name).or_default().push(hold);
            }
        }
        let mut violations = Vec::new();
        for (name, mut holds) in by_name {
            holds.sort_by_key(|hold| hold.from);
            let mut alive: Vec<&Hold> = Vec::new();
            for hold in holds {
                alive.retain(|before| before.until > hold.from);
                if hold.until <= hold.from {
                    continue;
                }
                violations.extend(alive.iter().map(|before| self.overlap(name, before, hold)));
                alive.push(hold);
            }
        }
        violations
    }

    fn overlap(&self, name: &str, first: &Hold, second: &Hold) -> Violation {
        let both = first.until.min(second.until) - second.from;
        let (a, b) = (first, second);
        Violation {
            text: format!(
                "{name} was held twice for {both} us: by child {} (hold {}: asked {}, from {}, until {}) \
                 and child {} (hold {}: asked {}, from {}, until {})",
                a.child,
                a.hold,
                a.asked,
                a.from,
                a.until,
                b.child,
                b.hold,
                b.asked,
                b.from,
                b.until
            ),
            first: first.asked,
            last: second.from,
            forgot: self.forgot_within(first.asked, second.from, |forgot| !forgot.locks_were_over),
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
                text: format!(
                    "the tick {tick} was run {} times: {}",
                    runs.len(),
                    told.join(", ")
                ),
                first: asked,
                last,
                forgot: self.forgot_within(asked, last, |_| true),
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

    /// A hold of two seconds.
    fn held(record: &mut Record, child: u64, from: Micros, names: &[&str]) {
        let event = Event::Held {
            hold: 1,
            asked: from - 10,
            from,
            until: from + 2_000,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        record.take(child, &event);
    }

    fn ended(record: &mut Record, child: u64, at: Micros, end: End) {
        record.take(child, &Event::Ended { hold: 1, at, end });
    }

    fn count(record: &Record) -> usize {
        record.violations().len()
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
            record.violations()[0].is_explained()
        };
        assert!(overlap(1_500, 1_600, false));
        assert!(overlap(500, 1_600, false));
        assert!(!overlap(1_500, 1_600, true), "it was away for long enough");
        assert!(!overlap(500, 900, false), "it forgot before");
        assert!(!overlap(2_100, 2_200, false), "it forgot later");
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
        assert!(!record.violations()[0].is_explained());
        record.forgot.push(Forgot {
            node: 1,
            from: 150,
            until: 160,
            locks_were_over: true,
        });
        assert!(record.violations()[0].is_explained());
    }
}
