//! The programs, run as a person runs them.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use lock_testkit::RedisServer;

/// The programs get the backend that these tests are built with, and are all built in one way, since
/// each other set of features is another build of everything.
const FEATURES: &[&str] = match (BACKEND, cfg!(feature = "apalis")) {
    (Backend::RedisRs, true) => &["--features", "apalis"],
    (Backend::RedisRs, false) => &[],
    (Backend::Fred, true) => &["--no-default-features", "--features", "fred,apalis"],
    (Backend::Fred, false) => &["--no-default-features", "--features", "fred"],
    // `-p`, since the dev-dependencies of other members switch tokio on.
    (Backend::Smol, _) => &[
        "-p",
        "examples",
        "--no-default-features",
        "--features",
        "redis-rs-smol",
    ],
};

enum Backend {
    RedisRs,
    Fred,
    Smol,
}

const BACKEND: Backend = if cfg!(feature = "redis-rs") {
    Backend::RedisRs
} else if cfg!(feature = "fred") {
    Backend::Fred
} else if cfg!(feature = "redis-rs-smol") {
    Backend::Smol
} else {
    Backend::RedisRs
};

/// `cargo run --example ... -- ...` from the root of the workspace.
fn run(example: &str, args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["run", "--quiet", "--example", example])
        .args(FEATURES)
        .arg("--")
        .args(args)
        .output()
        .expect("cargo runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The numbers of the summary: ticks, runs, duplicates, missed.
fn summary(output: &Output) -> [u32; 4] {
    let text = stdout(output);
    let last = text.lines().last().unwrap_or_default();
    let numbers = last.split(' ').filter_map(|word| word.parse().ok());
    let numbers: Vec<_> = numbers.collect();
    let summary = numbers.try_into();
    summary.unwrap_or_else(|_| panic!("no summary: {text}{}", stderr(output)))
}

#[cfg(feature = "tokio")]
#[test]
fn the_first_program_works() {
    let output = run("quickstart", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("Paying invoice 7"));
}

#[cfg(feature = "tokio")]
#[test]
fn a_stale_writer_is_refused_by_its_fencing_token() {
    let servers = RedisServer::start_many(3).expect("three servers");
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    for args in [&[][..], &["--nodes", &urls.join(",")]] {
        let output = run("fencing", args);
        let text = stdout(&output);
        assert!(output.status.success(), "{text}{}", stderr(&output));
        assert!(text.contains("Ann is refused: "), "{text}");
        assert!(text.ends_with("Invoice 7 was paid by Bob.\n"), "{text}");
    }
    let output = run("fencing", &["--store", "paper"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--store paper: "));
}

/// With a backend that was chosen, the default features are off.
#[cfg(all(feature = "metrics", feature = "redis-rs"))]
#[test]
fn prometheus_reads_the_metrics_of_locks() {
    let output = run("metrics", &[]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for line in [
        "# TYPE lock_wait_seconds histogram",
        r#"lock_node_up{node="memory-1"} 1"#,
        "lock_quorum_up 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn claiming_ticks_runs_each_tick_once() {
    let output = run("cron", &["--ticks", "5", "--period", "1000"]);
    let text = stdout(&output);
    assert!(
        text.ends_with("\n5 ticks, 5 runs, 0 duplicates, 0 missed\n"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0));
    // A line for each tick says who ran it; nothing redraws itself where nobody looks.
    assert_eq!(text.matches("run by instance").count(), 5, "{text}");
    assert!(!text.contains('\x1b') && !text.contains('\r'), "{text}");
}

/// All instances are down at one of the ticks, and the first that comes back runs it late.
#[test]
fn a_cron_schedule_loses_no_tick_to_a_restart_of_all_instances() {
    let output = run("cron", &["--schedule", "*/2 * * * * *", "--ticks", "3"]);
    let text = stdout(&output);
    assert!(text.contains("All instances stop before"), "{text}");
    assert!(
        text.ends_with("\n3 ticks, 3 runs, 0 duplicates, 0 missed\n"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn releasing_after_the_run_runs_ticks_twice() {
    let output = run("cron", &["--ticks", "3", "--strategy", "release-after-run"]);
    let [ticks, _, duplicates, missed] = summary(&output);
    assert!(
        ticks == 3 && duplicates > 0 && missed == 0,
        "{}",
        stdout(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn holding_the_lock_misses_ticks() {
    let output = run("cron", &["--ticks", "4", "--strategy", "hold"]);
    let [ticks, _, duplicates, missed] = summary(&output);
    assert!(
        ticks == 4 && duplicates == 0 && missed > 0,
        "{}",
        stdout(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn wrong_options_are_explained_before_anything_starts() {
    let twice = "redis://127.0.0.1:1,redis://127.0.0.1:1";
    for (args, message) in [
        (
            ["--ticks", "0"],
            "--ticks 0: a number from 1 to 100000 is needed",
        ),
        (
            ["--strategy", "luck"],
            "--strategy luck: one of tick, release-after-run, hold",
        ),
        (["--nodes", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
        (
            ["--schedule", "0 0 30 2 *"],
            "\"0 0 30 2 *\" never comes true",
        ),
        (["--nodes", twice], "is listed twice"),
    ] {
        let output = run("cron", &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = stderr(&output);
        assert!(text.contains(message), "{args:?}: {text}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn help_names_every_option() {
    let output = run("cron", &["--help"]);
    assert_eq!(output.status.code(), Some(0));
    for option in [
        "--nodes",
        "--instances",
        "--ticks",
        "--period",
        "--schedule",
        "--strategy",
    ] {
        assert!(stdout(&output).contains(option), "{option}");
    }
}

/// Its own schedulers, on real servers, one of which is down from the start.
#[cfg(feature = "apalis")]
#[test]
fn instants_of_a_scheduler_are_run_once_in_a_fleet() {
    let servers = RedisServer::start_many(3).expect("three servers");
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    servers[2].kill().expect("a server can be killed");
    let args = ["--nodes", &urls.join(","), "--ticks", "2"];
    let output = run("job_scheduler", &args);
    let (text, errors) = (stdout(&output), stderr(&output));
    let sum = "\n2 instants, 2 run here once, 0 elsewhere, 0 duplicates, 0 missed\n";
    assert!(text.ends_with(sum), "{text}{errors}");
    assert_eq!(output.status.code(), Some(0));

    let output = run("job_scheduler", &["--schedule", "every so often"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--schedule every so often"));
}

/// One that says nothing of its plan, and none at all.
#[cfg(feature = "apalis")]
#[test]
fn instants_are_run_once_whichever_scheduler_there_is() {
    for scheduler in ["tokio-cron-scheduler", "none"] {
        let args = ["--scheduler", scheduler, "--ticks", "2"];
        let output = run("job_scheduler", &args);
        let (text, errors) = (stdout(&output), stderr(&output));
        let sum = "\n2 instants, 2 run here once, 0 elsewhere, 0 duplicates, 0 missed\n";
        assert!(text.ends_with(sum), "{scheduler}: {text}{errors}");
        assert_eq!(output.status.code(), Some(0));
    }
}

/// One server is stopped and another killed while four processes run the ticks.
#[test]
fn a_minority_of_servers_that_fails_costs_no_tick() {
    let servers = RedisServer::start_many(5).expect("five servers");
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let nodes = urls.join(",");
    let output = std::thread::scope(|scope| {
        let faults = scope.spawn(|| {
            // The ticks begin one and a half seconds after the start.
            std::thread::sleep(Duration::from_millis(2500));
            servers[1].pause().expect("a server can be stopped");
            std::thread::sleep(Duration::from_millis(1500));
            servers[3].kill().expect("a server can be killed");
        });
        let output = run(
            "cron",
            &["--nodes", &nodes, "--instances", "4", "--ticks", "6"],
        );
        faults.join().expect("the faults came");
        output
    });
    let text = stdout(&output);
    assert!(
        text.contains("4 instances (processes), 5 Redis nodes"),
        "{text}"
    );
    assert!(
        text.ends_with("\n6 ticks, 6 runs, 0 duplicates, 0 missed\n"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0));
}
