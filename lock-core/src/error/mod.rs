//! One error type per operation. Contention is never reported as an outage, nor the reverse.

mod acquire;
mod hold;
mod invalid;
mod report;
mod resume;
mod scope;
mod shutdown;

pub use acquire::{AcquireError, Contended, TooSlow, Unavailable};
pub use hold::{ExtendError, ReleaseError};
pub use invalid::{BuildError, InvalidInput};
pub use report::{NodeReport, NodeReports, NodeVote};
pub use resume::{ForceReleaseError, ResumeError};
pub use scope::WithLockError;
pub use shutdown::ShutdownError;
