//! Locks of other libraries and ours exclude each other, on real servers.
//!
//! Each scenario is run with each library; `./scripts/interop` installs those that are not written in
//! Rust. Of a library that is not there, each test says so, as ignored; in CI it fails.

#![allow(clippy::unwrap_used, reason = "helpers of tests unwrap as tests do")]

mod broken;
mod broken_node;
mod count;
mod library;
mod peer;
mod plain;
mod program;
mod rslock;
mod scenarios;
mod scene;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lock_testkit::RedisServer;

use library::Library;
use scenarios::{SCENARIOS, Scenario};
use scene::{Client, LONG, Scene};

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    if args.test_threads.is_none() {
        // They wait more than they work.
        args.test_threads = thread::available_parallelism()
            .ok()
            .map(|cores| 2 * cores.get());
    }
    let mut trials = broken::trials();
    for library in Library::ALL {
        let missing = library.missing();
        for scenario in SCENARIOS
            .iter()
            .filter(|scenario| (scenario.applies)(library))
        {
            trials.push(trial(scenario, library, Client::RedisRs, missing.clone()));
            if scenario.over_all_clients {
                trials.push(trial(scenario, library, Client::Fred, missing.clone()));
            }
        }
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn trial(
    scenario: &'static Scenario,
    library: Library,
    client: Client,
    missing: Option<String>,
) -> Trial {
    let over = match client {
        Client::RedisRs => "",
        Client::Fred => "::over_fred",
        Client::Broken(_) => "::broken",
    };
    let name = format!("{}::{}{over}", library.name(), scenario.name);
    Trial::ignorable_test(name, move || match missing {
        None => {
            run(scenario, library, client);
            Ok(Completion::Completed)
        }
        Some(why) if is_ci() => Err(Failed::from(format!("not run: {why}"))),
        Some(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
    })
}

/// Whatever is not off: `CI=true` is usual.
fn is_ci() -> bool {
    let is_off = |value: &str| ["", "0", "false"].contains(&value);
    std::env::var("CI").is_ok_and(|value| !is_off(&value))
}

fn run(scenario: &Scenario, library: Library, client: Client) {
    let servers = start(library.servers());
    block_on(async {
        let theirs = library.start(&servers);
        let mut scene = Scene::new(servers, client, theirs, LONG).await;
        scene.they_warm_up().await;
        (scenario.run)(&mut scene).await;
    });
}

fn start(servers: usize) -> Arc<[RedisServer]> {
    Arc::from(RedisServer::start_many(servers).unwrap())
}

/// On this thread, with others for what goes on in the background.
fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(future);
}
