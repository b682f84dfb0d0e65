//! What a process uses, and what counts as growth.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

/// What a process at rest uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Kilobytes in memory.
    pub(crate) memory: u64,
    pub(crate) threads: u64,
    /// Open file descriptors.
    pub(crate) files: u64,
    /// Tasks of tokio.
    pub(crate) tasks: u64,
}

/// At rest a child may have one connection to each node more or less than before, each with a task, since one that
/// failed is opened again by the next call.
const MORE_FILES: u64 = 6;
const MORE_TASKS: u64 = 6;
/// Tokio keeps threads for the look-up of names for a while.
const MORE_THREADS: u64 = 3;
/// An allocator does not give everything back.
const MORE_MEMORY: u64 = 8 * 1024;

/// In words, for those who read the report.
pub(crate) const GROWTH: &str = "growth is, from the first rest after faults to the last: more than a quarter \
    and 8 MB of memory, 3 threads, 6 descriptors or 6 tasks";

impl Usage {
    /// Of this process.
    pub(crate) fn read(tasks: usize) -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|line| line.split_whitespace().next());
            let number = word.and_then(|word| word.parse().ok());
            number.ok_or_else(|| io::Error::other(format!("no {name} in /proc/self/status")))
        };
        Ok(Self {
            memory: field("VmRSS:")?,
            threads: field("Threads:")?,
            // Less the one that reads them.
            files: (fs::read_dir("/proc/self/fd")?.count() as u64).saturating_sub(1),
            tasks: tasks as u64,
        })
    }

    /// What has grown since then, in words.
    pub(crate) fn growth_since(&self, first: &Self) -> Vec<String> {
        let rows = [
            (
                "memory (kB)",
                first.memory,
                self.memory,
                first.memory / 4 + MORE_MEMORY,
            ),
            ("threads", first.threads, self.threads, MORE_THREADS),
            ("file descriptors", first.files, self.files, MORE_FILES),
            ("tasks", first.tasks, self.tasks, MORE_TASKS),
        ];
        let grown = rows
            .into_iter()
            .filter(|(_, from, to, more)| *to > from + more);
        grown
            .map(|(what, from, to, _)| format!("{what} grew from {from} to {to}"))
            .collect()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            memory,
            threads,
            files,
            tasks,
        } = self;
        write!(f, "{memory} {threads} {files} {tasks}")
    }
}

impl FromStr for Usage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<_>, _> = text.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[memory, threads, files, tasks]) => Ok(Self {
                memory,
                threads,
                files,
                tasks,
            }),
            _ => Err(format!("not four numbers: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_above_its_limit_has_grown() {
        let first = Usage {
            memory: 16 * 1024,
            threads: 5,
            files: 20,
            tasks: 10,
        };
        let last = Usage {
            memory: 28 * 1024,
            threads: 8,
            files: 26,
            tasks: 16,
        };
        assert_eq!(last.growth_since(&first), Vec::<String>::new());
        let last = Usage {
            memory: last.memory + 1,
            threads: 9,
            files: 27,
            tasks: 17,
        };
        assert_eq!(last.growth_since(&first).len(), 4);
    }
}
