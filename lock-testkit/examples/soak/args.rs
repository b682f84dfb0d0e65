//! The command line.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::nodes::{MAJORITY, NODES};

pub(crate) const USAGE: &str = "\
soak --minutes N [--backend redis-rs|fred|both] [--seed N] [--children N] [--log FILE]
     [--quorum Q] [--guard] [--one-forgetful]
    N minutes (a fraction will do) of locks in several processes on five servers that fail;
    both backends side by side and four children by default. FILE gets all that was told.
    Q servers must agree, 3 by default. --guard gives all locks a restart guard, and with it nothing
    explains a lock that is held twice. --one-forgetful, which --guard implies: a server forgets once
    what the one before it forgot is over.
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

/// How the locks are built, in the same way in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// How many nodes must agree.
    pub(crate) quorum: usize,
    /// Whether there is a restart guard.
    pub(crate) is_guarded: bool,
}

impl Rules {
    /// How many nodes may forget, and two quorums have one in common that has not: they have `2q - N` nodes in common
    /// at least.
    pub(crate) fn may_forget(self) -> usize {
        2 * self.quorum - NODES - 1
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
    pub(crate) rules: Rules,
    /// Whether at most one node forgets at a time.
    pub(crate) one_forgetful: bool,
}

/// What the soak tells a child, which is this program again.
#[derive(Debug)]
pub(crate) struct ChildArgs {
    pub(crate) number: u64,
    pub(crate) backend: Backend,
    pub(crate) seed: u64,
    pub(crate) rules: Rules,
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
            "--quorum".to_owned(),
            self.rules.quorum.to_string(),
        ];
        if self.rules.is_guarded {
            words.push("--guard".to_owned());
        }
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
    let mut rules = Rules {
        quorum: MAJORITY,
        is_guarded: false,
    };
    let mut one_forgetful = false;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match &*arg {
            "--minutes" => minutes = Some(length(&value()?)?),
            "--backend" => backends = named(&value()?)?,
            "--seed" => seed = number(&value()?)?,
            "--children" => children = number(&value()?)?,
            "--log" => log = Some(PathBuf::from(value()?)),
            "--quorum" => rules.quorum = quorum(&value()?)?,
            "--guard" => rules.is_guarded = true,
            "--one-forgetful" => one_forgetful = true,
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
            rules,
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
        rules,
        one_forgetful: one_forgetful || rules.is_guarded,
    }))
}

fn quorum(text: &str) -> Result<usize, String> {
    let quorum = text.parse().map_err(|error| format!("{text}: {error}"))?;
    match (MAJORITY..=NODES).contains(&quorum) {
        true => Ok(quorum),
        false => Err(format!(
            "a quorum of {quorum}: it takes {MAJORITY} to {NODES}"
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Args, String> {
        parse(words.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn a_child_is_told_how_the_locks_are_built() {
        for is_guarded in [false, true] {
            let rules = Rules {
                quorum: 4,
                is_guarded,
            };
            let child = ChildArgs {
                number: 1,
                backend: Backend::Fred,
                seed: 2,
                rules,
                nodes: vec!["redis://localhost".to_owned()],
            };
            let Ok(Args::Child(told)) = parse(child.to_words().into_iter()) else {
                panic!("not the words of a child: {:?}", child.to_words());
            };
            assert_eq!(told.rules, rules);
            assert_eq!(told.nodes, child.nodes);
        }
    }

    #[test]
    fn a_guard_lets_one_node_forget_at_a_time_and_a_quorum_that_cannot_be_is_refused() {
        let one_forgetful = |words: &[&str]| match of(&[&["--minutes", "1"], words].concat()) {
            Ok(Args::Soak(args)) => args.one_forgetful,
            other => panic!("{other:?}"),
        };
        assert!(!one_forgetful(&["--quorum", "4"]));
        assert!(one_forgetful(&["--guard"]));
        assert!(one_forgetful(&["--one-forgetful"]));
        for quorum in ["2", "6"] {
            let error = of(&["--minutes", "1", "--quorum", quorum]).unwrap_err();
            assert_eq!(error, format!("a quorum of {quorum}: it takes 3 to 5"));
        }
    }
}
