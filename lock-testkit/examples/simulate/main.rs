//! Runs the production lock over simulated nodes, networks and clocks, seed after seed.
//!
//! ```sh
//! cargo run --release -p lock-testkit --example simulate -- --seeds 20000
//! cargo run --release -p lock-testkit --example simulate -- --seed 17
//! ```

mod mutants;

use std::process::ExitCode;
use std::time::Instant;

use lock_testkit::sim::{
    Campaign, FaultKind, MUTANTS, Mark, Outcome, Plan, Scenario, Tally, invariant, shrink, workload,
};

const USAGE: &str = "\
simulate --seeds N [--from M] [--threads T]   runs the seeds M to M+N-1 (M is 0, T is 2)
simulate --seed N                             replays one, with a trace
    [--without fault,fault] [--only fault,fault] [--workload NAME]   bend the plans of both
simulate --mutant NAME[,NAME] [--seeds N]     0 if the mutant was killed, 1 if it lived
simulate --mutants                            the same for all of them
simulate --list                               says what there is";

#[derive(Debug, Default)]
struct Args {
    seeds: Option<u64>,
    from: u64,
    threads: Option<u64>,
    seed: Option<u64>,
    without: Vec<FaultKind>,
    only: Option<Vec<FaultKind>>,
    workload: Option<&'static str>,
    mutants: Vec<String>,
    list: bool,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if args.list {
        list();
        ExitCode::SUCCESS
    } else if !args.mutants.is_empty() {
        mutants::run(&args.mutants, args.seeds)
    } else if let Some(seed) = args.seed {
        replay(args.plan(seed))
    } else {
        many(&args)
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed = Args::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match &*arg {
            "--seeds" => parsed.seeds = Some(number(value()?)?),
            "--from" => parsed.from = number(value()?)?,
            "--threads" => parsed.threads = Some(number(value()?)?),
            "--seed" => parsed.seed = Some(number(value()?)?),
            "--without" => parsed.without = kinds(&value()?)?,
            "--only" => parsed.only = Some(kinds(&value()?)?),
            "--workload" => {
                let name = value()?;
                let all = workload::all();
                let mut names = all.iter().map(|workload| workload.name());
                let found = names.find(|it| *it == name);
                parsed.workload = Some(found.ok_or(format!("no workload {name}"))?);
            }
            "--mutant" => parsed
                .mutants
                .extend(value()?.split(',').map(str::to_owned)),
            "--mutants" => {
                let names = MUTANTS.iter().map(|mutant| mutant.name.to_owned());
                parsed.mutants.extend(names);
            }
            "--list" => parsed.list = true,
            _ => return Err(format!("what is {arg}?")),
        }
    }
    Ok(parsed)
}

fn kinds(names: &str) -> Result<Vec<FaultKind>, String> {
    let kind = |name| FaultKind::of_name(name).ok_or(format!("no fault {name}"));
    names.split(',').map(kind).collect()
}

impl Args {
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::new(seed);
        if let Some(workload) = self.workload {
            plan = plan.with_workload(workload);
        }
        if let Some(only) = &self.only {
            plan = plan.with_faults(only);
        }
        plan.without(&self.without)
    }
}

fn list() {
    for mutant in MUTANTS {
        let bias = mutant.bias.text();
        println!(
            "mutant {} killed by {} ({bias})",
            mutant.name, mutant.killed_by
        );
    }
    for invariant in invariant::all() {
        println!("invariant {} {}", invariant.name(), invariant.about());
    }
    for workload in workload::all() {
        println!("workload {}", workload.name());
    }
    for kind in FaultKind::ALL {
        println!("fault {}", kind.name());
    }
}

fn replay(plan: Plan) -> ExitCode {
    let scenario = Scenario::new().traced();
    let outcome = scenario.run(plan);
    for line in &outcome.trace {
        println!("{line}");
    }
    println!("workload {}, hash {:016x}", outcome.workload, outcome.hash);
    for violation in &outcome.violations {
        println!("VIOLATION {}: {}", violation.invariant, violation.text);
    }
    ExitCode::from(u8::from(!outcome.violations.is_empty()))
}

fn many(args: &Args) -> ExitCode {
    let count = args.seeds.unwrap_or(1000);
    let threads = usize::try_from(args.threads.unwrap_or(2)).unwrap_or(2);
    let scenario = Scenario::new();
    let started = Instant::now();
    let campaign = Campaign::new(&scenario).threads(threads);
    let plan = |seed| args.plan(seed);
    let mut tally = campaign.run(args.from..args.from + count, plan, |done| {
        eprintln!("{done} of {count} seeds, {:.0?}", started.elapsed());
    });
    let took = started.elapsed().as_secs_f64();
    for failure in &tally.failures {
        report(failure);
    }
    if !tally.failures.is_empty() {
        let first = tally.failures.swap_remove(0);
        simplest(&scenario, first);
        return ExitCode::FAILURE;
    }
    summary(&tally, took)
}

fn report(failure: &Outcome) {
    let seed = failure.plan.seed;
    for violation in &failure.violations {
        println!("seed {seed}: {}: {}", violation.invariant, violation.text);
    }
    println!("  replay: {} --seed {seed}", command());
}

fn command() -> &'static str {
    "cargo run --release -p lock-testkit --example simulate --"
}

fn simplest(scenario: &Scenario, failure: Outcome) {
    let all = failure.plan.faults.clone();
    let simplest = shrink(scenario, failure);
    let left = &simplest.plan.faults;
    let without = all.iter().filter(|kind| !left.contains(kind));
    let without = without.map(|kind| kind.name()).collect::<Vec<_>>();
    let faults = left.iter().map(|kind| kind.name()).collect::<Vec<_>>();
    println!(
        "\nit still fails with no other faults than: {}",
        faults.join(" ")
    );
    if !without.is_empty() {
        let seed = simplest.plan.seed;
        println!(
            "  replay: {} --seed {seed} --without {}",
            command(),
            without.join(",")
        );
    }
}

fn summary(tally: &Tally, took: f64) -> ExitCode {
    for mark in Mark::ALL {
        println!("{:>12}  {}", tally.coverage.count(*mark), mark.text());
    }
    println!(
        "{} seeds in {took:.1} s ({:.0} a second), {:.1} days simulated, no violation; {} within \
         the fault budget, {} of them with nodes that forgot",
        tally.runs,
        tally.runs as f64 / took,
        tally.simulated.as_secs_f64() / 86_400.0,
        tally.within_budget,
        tally.forgetful_within_budget,
    );
    let missing = tally.never_happened();
    if !missing.is_empty() {
        for mark in missing {
            println!("never happened: {}", mark.text());
        }
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
