//! Distributed locks: the [`DistributedLock`] trait, and the Redlock algorithm over any Redis
//! client ([`RedisNode`]) and any async runtime ([`Runtime`]).

mod display;
mod error;
mod guard;
mod lock;
pub mod node;
mod redlock;
mod request;
mod retry;
pub mod runtime;
mod scripts;
pub mod tick;
mod ttl;

pub use error::{
    AcquireError, BuildError, Contended, ExtendError, InvalidInput, NodeReport, NodeReports,
    NodeVote, ReleaseError, TooSlow, Unavailable,
};
pub use guard::{HeldLock, LockGuard, Votes};
pub use lock::{DistributedLock, DistributedLockExt};
pub use node::{Command, NodeError, RedisNode, Reply, Token};
pub use redlock::{Redlock, RedlockBuilder};
pub use request::LockRequest;
pub use retry::{Jitter, RetryPolicy};
pub use runtime::Runtime;
pub use ttl::Ttl;
