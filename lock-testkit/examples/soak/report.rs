//! What is printed, and whether all is well.

use crate::BoxError;
use crate::args::Rules;
use crate::clock::{Micros, seconds};
use crate::fleet::Fleet;
use crate::judge::{Forgot, Kind, Record, Violation};
use crate::nemesis::Faults;
use crate::nodes::NODES;
use crate::usage::{GROWTH, Usage};
use crate::work::IN_QUARANTINE;

/// A soak in which one of these never happened has proved nothing.
const NEEDED: [&str; 9] = [
    "plain-acquired",
    "plain-contended",
    "extended-acquired",
    "several-acquired",
    "dropped-acquire",
    "fenced-acquired",
    "extension-done",
    "guard-lost",
    "tick-ran",
];

/// The faults that are shown with a violation began at most this long before it, and after it.
const AROUND: Micros = 2_000_000;

pub(crate) struct Report<'a> {
    started: Micros,
    rules: Rules,
    fleet: &'a Fleet,
    faults: Faults,
    /// What each child used at each rest.
    rests: Vec<Vec<Usage>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(started: Micros, rules: Rules, fleet: &'a Fleet) -> Self {
        Self {
            started,
            rules,
            fleet,
            faults: Faults::new(),
            rests: Vec::new(),
        }
    }

    pub(crate) fn raged(&mut self, faults: Faults, forgot: Vec<Forgot>) {
        self.faults.extend(faults);
        self.record().forgot.extend(forgot);
    }

    /// Notes what the children use at rest, and prints it.
    pub(crate) fn rested(&mut self, when: &str, usage: Vec<Usage>) {
        let at = seconds(crate::clock::now(), self.started);
        println!("{at} s, at rest {when}:");
        for (number, used) in usage.iter().enumerate() {
            let Usage {
                memory,
                threads,
                files,
                tasks,
            } = used;
            println!(
                "  child {number} ({}): {memory} kB, {threads} threads, {files} file descriptors, {tasks} tasks",
                self.fleet.backend(number).name()
            );
        }
        self.rests.push(usage);
    }

    /// Prints all the rest, and returns whether all is well.
    pub(crate) fn print(&self, keys_left: Vec<(usize, String)>) -> Result<bool, BoxError> {
        let record = self.record();
        for (what, times) in &record.counts {
            println!("{what}: {times}");
        }
        println!(
            "holds: {}, ticks that ran: {}",
            record.holds(),
            record.ticks()
        );
        println!(
            "faults: {}, nodes that forgot: {}",
            self.faults.len(),
            record.forgot.len()
        );
        let mut wrong = record.failed.clone();
        let violations = record.violations(self.rules);
        for kind in [Kind::Overlap, Kind::Fence, Kind::Tick] {
            let all = violations.iter().filter(|it| it.kind == kind);
            println!("{kind}: {}", all.count());
        }
        let (explained, unexplained): (Vec<_>, Vec<_>) =
            violations.iter().partition(|it| it.is_explained);
        println!(
            "violations that forgetful nodes explain (more of them than 2q - N - 1 = 2 * {} - {NODES} - 1 = {}): {}",
            self.rules.quorum,
            self.rules.may_forget(),
            explained.len()
        );
        for violation in explained {
            self.show(violation);
        }
        println!("violations that nothing explains: {}", unexplained.len());
        for violation in &unexplained {
            self.show(violation);
            wrong.push(violation.text.clone());
        }
        println!("keys of locks left after the longest ttl: {keys_left:?}");
        wrong.extend(
            keys_left
                .iter()
                .map(|key| format!("a key is left: {key:?}")),
        );
        println!("{GROWTH}");
        wrong.extend(self.grown());
        let guarded = self.rules.is_guarded.then_some(&IN_QUARANTINE);
        let missing = NEEDED
            .iter()
            .chain(guarded)
            .filter(|&&what| !record.counts.contains_key(what));
        wrong.extend(missing.map(|what| format!("there was never a {what}")));
        for wrong in &wrong {
            println!("WRONG: {wrong}");
        }
        println!(
            "{}",
            if wrong.is_empty() {
                "all is well"
            } else {
                "not well"
            }
        );
        Ok(wrong.is_empty())
    }

    /// From the first rest after faults to the last.
    fn grown(&self) -> Vec<String> {
        let (Some(first), Some(last)) = (self.rests.get(1), self.rests.last()) else {
            return Vec::new();
        };
        let children = first.iter().zip(last).enumerate();
        let grown = children.flat_map(|(number, (first, last))| {
            let grown = last.growth_since(first).into_iter();
            grown.map(move |what| format!("child {number}: {what}"))
        });
        grown.collect()
    }

    fn show(&self, violation: &Violation) {
        let at = |at| seconds(at, self.started);
        println!(
            "  {} s to {} s: {}; nodes that forgot meanwhile: {:?}",
            at(violation.first),
            at(violation.last),
            violation.text,
            violation.forgot
        );
        let around = self.faults.iter().filter(|(from, until, _)| {
            *until + AROUND >= violation.first && *from <= violation.last + AROUND
        });
        let mut around: Vec<_> = around.collect();
        around.sort();
        for (from, until, what) in around {
            println!("    {} s to {} s: {what}", at(*from), at(*until));
        }
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.fleet.record.lock().unwrap_or_else(|e| e.into_inner())
    }
}
