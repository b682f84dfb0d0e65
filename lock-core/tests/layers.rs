//! What parts of the crate must not know: see the invariants in `ARCHITECTURE.md`.

#![allow(clippy::unwrap_used)] // A test fails by panicking, in its helpers too.

use std::fs;
use std::path::{Path, PathBuf};

/// The Rust files below a folder of `src`, without those that hold tests alone.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path
            .file_stem()
            .is_some_and(|stem| stem == "tests" || stem == "fake");
        if path.is_dir() && !is_test {
            sources.extend(self::sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") && !is_test {
            sources.push(path);
        }
    }
    sources
}

/// Fails for each line of code, tests and comments aside, that has one of the words.
fn assert_without(folder: &str, words: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = sources(&root.join(folder));
    assert!(!sources.is_empty(), "{folder} has moved");
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for (number, line) in (1..).zip(code.lines()) {
            let line = line.split("//").next().unwrap();
            let found = words.iter().find(|word| line.contains(**word));
            let place = path.strip_prefix(&root).unwrap().display();
            assert!(
                found.is_none(),
                "{place}:{number} has {}: {line}",
                found.unwrap()
            );
        }
    }
}

#[test]
fn decisions_have_no_await_no_clock_no_chance_and_no_io() {
    let awaits = ["async ", ".await", "Future", "Waker", "spawn"];
    let clocks = ["Instant", "SystemTime", "Runtime", ".now()"];
    let chance = ["random()", "getrandom"];
    let io = [
        "std::fs",
        "std::io",
        "std::net",
        "std::thread",
        "RedisNode",
        "tracing",
    ];
    let shared = ["Mutex", "Atomic", "static mut", "thread_local"];
    let words = [&awaits[..], &clocks, &chance, &io, &shared].concat();
    assert_without("redlock/protocol", &words);
}

#[test]
fn ticks_know_nothing_of_redlock() {
    assert_without("tick", &["redlock", "Redlock", "RedisNode", "tokio"]);
}
