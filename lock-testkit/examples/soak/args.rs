//! The command line.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const USAGE: &str = "\
soak --minutes N [--backend redis-rs|fred|both] [--seed N] [--children N] [--log FILE]
    N minutes (a fraction will do) of locks in several processes on five servers that fail;
    both backends side by side and four children by default. FILE gets all that was told.
    Ends with 0 if nothing is wrong, 1 if something is, 2 for a soak that did not come about.";

/// The clients that a child may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    RedisRs,
    Fred,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RedisRs => "redis-rs",
            Self::Fred => "fred",
        }
    }
}

/// What the program is to do.
#[derive(Debug)]
pub(crate) enum Args {
    Soak(SoakArgs),
    Child(ChildArgs),
}

#[derive(Debug)]
pub(crate) struct SoakArgs {
    pub(crate) length: Duration,
    pub(crate) backends: Vec<Backend>,
    pub(crate) seed: u64,
    pub(crate) children: usize,
    pub(crate) log: Option<PathBuf>,
}

/// What the soak tells a child, which is this program again.
#[derive(Debug)]
pub(crate) struct ChildArgs {
    pub(crate) number: u64,
    pub(crate) backend: Backend,
    pub(crate) seed: u64,
    /// A URL each, or `NAME=URL,URL,..` for a master and the sentinels that lead to it.
    pub(crate) nodes: Vec<String>,
}

impl ChildArgs {
    pub(crate) fn to_words(&self) -> Vec<String> {
        let mut words = vec![
            "--child".to_owned(),
            self.number.to_string(),
            "--backend".to_owned(),
            self.backend.name().to_owned(),
            "--seed".to_owned(),
            self.seed.to_string(),
        ];
        for node in &self.nodes {
            words.extend(["--node".to_owned(), node.clone()]);
        }
        words
    }
}

pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut minutes = None;
    let mut backends = vec![Backend::RedisRs, Backend::Fred];
    let mut seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| u64::from(time.subsec_nanos()));
    let (mut children, mut log) = (4, None);
    let (mut child, mut nodes) = (None, Vec::new());
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match &*arg {
            "--minutes" => minutes = Some(length(&value()?)?),
            "--backend" => backends = named(&value()?)?,
            "--seed" => seed = number(&value()?)?,
            "--children" => children = number(&value()?)?,
            "--log" => log = Some(PathBuf::from(value()?)),
            "--child" => child = Some(number(&value()?)?),
            "--node" => nodes.push(value()?),
            _ => return Err(format!("what is {arg}?")),
        }
    }
    if let Some(number) = child {
        let [backend] = backends[..] else {
            return Err("a child has one backend".to_owned());
        };
        return Ok(Args::Child(ChildArgs {
            number,
            backend,
            seed,
            nodes,
        }));
    }
    if !(2..=32).contains(&children) {
        return Err(format!("{children} children: it takes 2 to 32"));
    }
    Ok(Args::Soak(SoakArgs {
        length: minutes.ok_or("for how many --minutes?")?,
        backends,
        seed,
        children: usize::try_from(children).map_err(|error| error.to_string())?,
        log,
    }))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn length(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let length = Duration::try_from_secs_f64(minutes * 60.0);
    let length = length.map_err(|error| format!("{text} minutes: {error}"))?;
    if length < Duration::from_secs(30) {
        return Err(format!("{text} minutes: it takes half a minute at least"));
    }
    Ok(length)
}

fn named(name: &str) -> Result<Vec<Backend>, String> {
    match name {
        "both" => Ok(vec![Backend::RedisRs, Backend::Fred]),
        "redis-rs" => Ok(vec![Backend::RedisRs]),
        "fred" => Ok(vec![Backend::Fred]),
        _ => Err(format!("no backend {name}: redis-rs, fred or both")),
    }
}
