//! What clients do with locks, each workload in a file of its own.

mod cancelling;
mod contending;
mod extending;
mod fencing;
mod handing;
mod keeping;
mod losing;
pub(crate) mod pairing;
mod renewing;
mod shutting;
mod ticking;

use super::cx::WorkloadCx;

/// What the clients of a run do.
pub trait Workload: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Starts its workers, with [`SimClient::spawn`]. They end when
    /// [`SimClient::goes_on`] returns `false`.
    ///
    /// [`SimClient::spawn`]: super::SimClient::spawn
    /// [`SimClient::goes_on`]: super::SimClient::goes_on
    fn start(&self, cx: &WorkloadCx);
}

/// Returns all workloads of this crate.
#[must_use]
pub fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(contending::Contending),
        Box::new(cancelling::Cancelling),
        Box::new(extending::Extending),
        Box::new(keeping::Keeping),
        Box::new(ticking::Ticking),
        Box::new(renewing::Renewing),
        Box::new(losing::Losing),
        Box::new(pairing::Pairing),
        Box::new(handing::Handing),
        Box::new(shutting::Shutting),
        Box::new(fencing::Fencing),
    ]
}
