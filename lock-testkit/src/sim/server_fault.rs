//! What a server answers instead of running commands.

use lock_core::node::NodeError;

/// What a server answers instead of running commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerFault {
    /// Memory is full: nothing new can be set.
    Oom,
    /// It became a replica: nothing can be written.
    ReadOnly,
    /// Its disk is full: nothing can be written.
    Misconf,
    /// It reads its data in: no command runs.
    Loading,
    /// Somebody took the permissions away: no command runs.
    NoPerm,
}

impl ServerFault {
    pub(crate) fn error(self) -> NodeError {
        NodeError::server(match self {
            Self::Oom => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::Misconf => "MISCONF Redis is configured to save RDB snapshots, but cannot.",
            Self::Loading => "LOADING Redis is loading the dataset in memory",
            Self::NoPerm => "NOPERM this user has no permissions to run this command",
        })
    }
}
