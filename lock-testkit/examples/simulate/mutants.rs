//! Mutants: the engine misbehaves on purpose, and an invariant must notice.

use std::process::ExitCode;

/// In how many seeds a mutant must be killed. Where a rare one dies shifts with the order of events.
const SEEDS: u64 = 20_000;

/// Builds the mutants' build, and lets it run this program again. Cargo keeps what a wrapper has compiled
/// apart from the rest, and dependencies are compiled once for both.
#[cfg(not(lock_mutants))]
pub(crate) fn run(names: &[String], seeds: Option<u64>) -> ExitCode {
    use std::process::Command;

    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let wrapper = format!("{root}/scripts/rustc-with-mutants");
    let seeds = seeds.unwrap_or(SEEDS).to_string();
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["run", "--release", "--quiet", "-p", "lock-testkit"])
        .args(["--example", "simulate"])
        .args(["--", "--seeds", &seeds, "--mutant", &names.join(",")])
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .status();
    match status {
        Ok(status) => ExitCode::from(status.code().map_or(2, |code| code as u8)),
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the mutants, and fails if one of them lived.
#[cfg(lock_mutants)]
pub(crate) fn run(names: &[String], seeds: Option<u64>) -> ExitCode {
    use lock_testkit::sim::MUTANTS;

    let mut lived = 0;
    for name in names {
        let Some(mutant) = MUTANTS.iter().find(|mutant| mutant.name == name) else {
            eprintln!("no mutant {name}");
            return ExitCode::from(2);
        };
        if !lock_core::mutants::activate(Some(name)) {
            eprintln!("the engine has no mutant {name}");
            return ExitCode::from(2);
        }
        lived += u8::from(!is_killed(mutant, seeds.unwrap_or(SEEDS)));
    }
    ExitCode::from(lived.min(1))
}

#[cfg(lock_mutants)]
fn is_killed(mutant: &lock_testkit::sim::Mutant, seeds: u64) -> bool {
    use std::collections::BTreeMap;

    use lock_testkit::sim::Scenario;

    let scenario = Scenario::new();
    let mut others = BTreeMap::<&str, u64>::new();
    for seed in 0..seeds {
        let outcome = scenario.run(mutant.bias.plan(seed));
        let violations = &outcome.violations;
        if let Some(found) = violations
            .iter()
            .find(|it| it.invariant == mutant.killed_by)
        {
            println!(
                "mutant {:<30} killed by {:<10} after {:>4} seeds ({}; {others:?} before)",
                mutant.name,
                mutant.killed_by,
                seed + 1,
                mutant.bias.text(),
            );
            println!("    seed {seed}: {}", found.text);
            return true;
        }
        for violation in violations {
            others.entry(violation.invariant).or_insert(seed + 1);
        }
    }
    println!(
        "mutant {:<30} LIVED: {} saw nothing in {seeds} seeds ({}; others did after {others:?})",
        mutant.name,
        mutant.killed_by,
        mutant.bias.text(),
    );
    false
}
