//! One error type per operation. Contention is never reported as an outage, nor the reverse.

mod acquire;
mod hold;
mod invalid;
mod redlock;
mod report;
mod scope;

pub use acquire::{AcquireError, Contended, TooSlow, Unavailable};
pub use hold::{ExtendError, Loss, ReleaseError};
pub use invalid::{BuildError, InvalidInput};
pub use redlock::{BootstrapError, FlushError, ForceReleaseError, ResumeError, ShutdownError};
pub use report::{NodeReport, NodeReports, NodeVote};
pub use scope::WithLockError;
