//! The faults of an in-process node.

use std::time::Duration;

/// A fault of a [`MemoryNode`](super::MemoryNode), see
/// [`set_fault`](super::MemoryNode::set_fault).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The server is down: each call fails at once with `connection refused`, and nothing was sent.
    ///
    /// Calls that wait for their answer when the server goes down lose their connection, and their
    /// commands never run. The keys stay; [`forget`](super::MemoryNode::forget) loses them.
    Refuse,
    /// The server is stopped, as by SIGSTOP: it takes each command and answers none, so calls end
    /// with `no answer` when their time is over.
    ///
    /// The commands wait in the order of the calls and run when the node resumes, even those whose
    /// callers have long given up. Their lifetimes count from then.
    Hang,
    /// The server answers each command with this error, code first
    /// (`OOM command not allowed when used memory > 'maxmemory'.`), and does not run it.
    Error(String),
    /// The server runs each command, but the connection breaks before the answer is back.
    LoseReply,
    /// Each command takes this long to arrive, and takes effect when it arrives. Its answer then
    /// comes back at once.
    ///
    /// Commands arrive in the order of the calls: a later call never overtakes an earlier one, not
    /// even after the fault has ended.
    Delay(Duration),
}

impl Fault {
    /// A [`Fault::Error`] of this line.
    pub fn error(line: impl Into<String>) -> Self {
        Self::Error(line.into())
    }
}
