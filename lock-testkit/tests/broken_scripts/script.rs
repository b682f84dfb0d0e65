//! The scripts, taken from the commands that carry them.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Fence, Guard, Keys, Operation};
use lock_core::runtime::ThreadRuntime;
use lock_core::{Command, FencingToken, Token, Ttl};

/// A script as it is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// As its file is called.
    name: &'static str,
    pub(crate) source: String,
}

/// One operation for each script.
fn operations() -> [Operation; 12] {
    let key: Arc<[u8]> = Arc::from(*b"k");
    let one = Keys::One(Arc::clone(&key));
    let several = Keys::Several(Arc::new([Arc::clone(&key)]));
    let token = Token::generate(&*ThreadRuntime::shared());
    let (ttl, keep) = (Ttl::MIN, Duration::ZERO);
    let acquire = |keys| Operation::Acquire {
        keys,
        token,
        ttl,
        report_holder: true,
        fence: None,
        guard: None,
    };
    let fence = Fence {
        counters: Arc::new([Arc::clone(&key)]),
        above: FencingToken::new(0),
        retention: ttl,
    };
    let release = |keys| Operation::Release { keys, token, keep };
    let number = FencingToken::new(1);
    [
        acquire(one.clone()),
        acquire(several.clone()),
        Operation::Acquire {
            keys: one.clone(),
            token,
            ttl,
            report_holder: true,
            fence: Some(fence.clone()),
            guard: None,
        },
        Operation::Confirm {
            keys: one.clone(),
            token,
            fence,
            granted: number,
            raised: number,
        },
        release(one),
        release(several),
        Operation::Extend {
            entries: Arc::new([]),
        },
        Operation::Exchange {
            keys: Keys::One(Arc::clone(&key)),
            old: Arc::new([]),
            new: token,
            ttl,
        },
        Operation::Inspect {
            key: Arc::clone(&key),
        },
        Operation::Remove {
            key: Arc::clone(&key),
        },
        Operation::Bootstrap {
            key: Arc::clone(&key),
            quarantine: ttl,
        },
        Operation::Acquire {
            keys: Keys::One(Arc::clone(&key)),
            token,
            ttl,
            report_holder: true,
            fence: None,
            guard: Some(Guard {
                key,
                quarantine: ttl,
            }),
        },
    ]
}

impl Script {
    /// The one of this file, as the core has it.
    pub(crate) fn named(name: &'static str) -> Self {
        let runs_it = |operation: &Operation| operation.script_name() == Some(name);
        let operation = operations().into_iter().find(runs_it).unwrap();
        let command = Command::from(operation).with_source();
        let source = String::from_utf8(command.args()[1].to_vec()).unwrap();
        Self { name, source }
    }

    /// Whether the operation runs it.
    pub(crate) fn belongs_to(&self, operation: &Operation) -> bool {
        operation.script_name() == Some(self.name)
    }

    /// With a part of it replaced, wherever it stands.
    pub(crate) fn with(&self, part: &str, instead: &str) -> Self {
        assert!(self.source.contains(part), "{part:?} in {}", self.name);
        Self {
            name: self.name,
            source: self.source.replace(part, instead),
        }
    }

    /// Without each of its lines in turn, comments aside, and the line itself.
    pub(crate) fn without_each_line(&self) -> Vec<(usize, String, Self)> {
        let lines: Vec<&str> = self.source.lines().collect();
        let is_code = |line: &str| !line.trim().is_empty() && !line.trim().starts_with("--");
        let without = |(n, line): (usize, &&str)| {
            let rest = [&lines[..n], &lines[n + 1..]].concat();
            let shorter = Self {
                name: self.name,
                source: rest.join("\n"),
            };
            (
                n + 1,
                format!("{}.lua:{}: {}", self.name, n + 1, line.trim()),
                shorter,
            )
        };
        let numbered = lines.iter().enumerate();
        numbered
            .filter(|(_, line)| is_code(line))
            .map(without)
            .collect()
    }
}
