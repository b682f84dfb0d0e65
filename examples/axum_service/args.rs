//! The command line.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use examples::args::{number, urls};
use examples::{BoxError, nodes};
use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
A service that charges orders, each once: POST /orders/{id}/charge, GET /health.

Usage: cargo run --release --example axum_service --features axum -- [OPTIONS]

Options:
  --nodes URL,URL,...  Real Redis servers. Default: 5 in-process nodes.
  --port N             Where to listen on 127.0.0.1 (default 3000; 0: any free port).
  --wait MS            How long a request waits for another one of the same order
                       before it gets 409 (0 to 60000, default 1000).
  --work MS            How long it takes to charge an order (0 to 600000, default 3000).
  --help               Prints this.

Ctrl-C or SIGTERM lets requests come to their end and releases the locks.";

const PORTS: RangeInclusive<u64> = 0..=65_535;
const WAIT: RangeInclusive<u64> = 0..=60_000;
const WORK: RangeInclusive<u64> = 0..=600_000;

/// What the program is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    /// URLs of servers; none means in-process nodes.
    pub(crate) nodes: Vec<String>,
    pub(crate) port: u16,
    pub(crate) wait: Duration,
    pub(crate) work: Duration,
}

/// Reads the command line; `None` asks for help.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Args>, BoxError> {
    let mut args = Args {
        nodes: Vec::new(),
        port: 3000,
        wait: Duration::from_secs(1),
        work: Duration::from_secs(3),
    };
    let mut parser = lexopt::Parser::from_iter(words);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("nodes") => args.nodes = urls(&parser.value()?.string()?)?,
            Long("port") => args.port = number(&mut parser, "--port", PORTS)?.try_into()?,
            Long("wait") => {
                args.wait = Duration::from_millis(number(&mut parser, "--wait", WAIT)?);
            }
            Long("work") => {
                args.work = Duration::from_millis(number(&mut parser, "--work", WORK)?);
            }
            Long("help") | Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    // Nothing connects before it is used, so whatever is wrong with the URLs shows here.
    nodes::redlock(nodes::choose(&args.nodes)?)?;
    Ok(Some(args))
}
