//! The scripts, taken from the commands that carry them.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::Operation;
use lock_core::runtime::ThreadRuntime;
use lock_core::{Command, Token, Ttl};

/// A script as it is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// As the operation is called, and its file.
    name: &'static str,
    pub(crate) source: String,
}

impl Script {
    /// The one that belongs to an operation, as the core has it.
    fn of(name: &'static str, operation: Operation) -> Self {
        let command = Command::from(operation).with_source();
        let source = String::from_utf8(command.args()[1].to_vec()).unwrap();
        Self { name, source }
    }

    fn all() -> [Self; 3] {
        let key: Arc<[u8]> = Arc::from(*b"k");
        let token = Token::generate(&*ThreadRuntime::shared());
        let acquire = Operation::AcquireOrTell {
            key: Arc::clone(&key),
            token,
            ttl: Ttl::MIN,
        };
        let extend = Operation::Extend {
            entries: Arc::new([]),
        };
        let release = Operation::Release {
            key,
            token,
            keep: Duration::ZERO,
        };
        [
            Self::of("acquire", acquire),
            Self::of("extend", extend),
            Self::of("release", release),
        ]
    }

    pub(crate) fn named(name: &str) -> Self {
        let script = Self::all().into_iter().find(|script| script.name == name);
        script.unwrap()
    }

    /// Whether the operation runs it.
    pub(crate) fn belongs_to(&self, operation: &Operation) -> bool {
        let by_script = !matches!(operation, Operation::Acquire { .. });
        by_script && operation.name() == self.name
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
    pub(crate) fn without_each_line(&self) -> Vec<(String, Self)> {
        let lines: Vec<&str> = self.source.lines().collect();
        let is_code = |line: &str| !line.trim().is_empty() && !line.trim().starts_with("--");
        let without = |(n, line): (usize, &&str)| {
            let rest = [&lines[..n], &lines[n + 1..]].concat();
            let shorter = Self {
                name: self.name,
                source: rest.join("\n"),
            };
            (
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
