//! What the programs share: how to pick a backend, the command line, and how a program fails.

pub mod args;
pub mod nodes;

use std::error::Error;
use std::process::ExitCode;

/// Any error, with its causes.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The exit code of a program that was called wrongly.
pub const USAGE: u8 = 2;

/// Prints the error with its causes, and gives the exit code.
pub fn fail(program: &str, error: &(dyn Error + 'static), code: u8) -> ExitCode {
    eprint!("{program}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprint!(": {error}");
        cause = error.source();
    }
    eprintln!();
    if code == USAGE {
        eprintln!("Try --help.");
    }
    ExitCode::from(code)
}

/// The programs of the workspace's README must compile.
#[cfg(all(doctest, feature = "redis-rs"))]
#[doc = include_str!("../../README.md")]
struct Readme;
