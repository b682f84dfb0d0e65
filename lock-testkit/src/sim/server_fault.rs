//! Errors that a server answers instead of running commands.

use std::time::Duration;

use lock_core::Token;
use lock_core::node::{NodeError, Operation};

use crate::memory::keyspace::Keyspace;

/// An error that a server answers instead of running commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerFault {
    /// Its memory is full: no new key can be set.
    Oom,
    /// It has become a replica: nothing can be written.
    ReadOnly,
    /// Its disk is full: nothing can be written.
    Misconf,
    /// It is loading its data: no command runs.
    Loading,
    /// Its user has lost the permissions: no command runs.
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

    /// Returns whether the fault keeps this operation from running.
    pub(super) fn refuses(
        self,
        keyspace: &mut Keyspace,
        operation: &Operation,
        at: Duration,
    ) -> bool {
        let mut held = |key: &[u8]| keyspace.get(key, at);
        let mut holds = |key: &[u8], token: &Token| held(key).as_deref() == Some(token.as_bytes());
        match (self, operation) {
            (Self::Loading | Self::NoPerm, _) => true,
            (_, Operation::Acquire { .. }) if operation.script_name().is_none() => true,
            // The scripts read first, and refuse before they would write.
            (_, Operation::Acquire { keys, token, .. }) => {
                let is_ours = |value: Vec<u8>| value == token.as_bytes();
                let held = keys.as_slice().iter().map(|key| held(key));
                let held = held.collect::<Vec<_>>();
                held.contains(&None) && held.into_iter().flatten().all(is_ours)
            }
            (_, Operation::Exchange { keys, old, new, .. }) => {
                let mut keys = keys.as_slice().iter();
                keys.any(|key| holds(key, new) || old.iter().any(|old| holds(key, old)))
            }
            (Self::Oom, _) | (_, Operation::Inspect { .. }) => false,
            (_, Operation::Extend { entries }) => {
                entries.iter().any(|entry| holds(&entry.key, &entry.token))
            }
            (_, Operation::Release { keys, token, .. }) => {
                keys.as_slice().iter().any(|key| holds(key, token))
            }
            _ => true,
        }
    }
}
