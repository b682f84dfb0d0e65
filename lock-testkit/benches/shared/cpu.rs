//! The time on cores that this process takes.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::BenchResult;

/// How long all threads of the process have run on a core.
pub(crate) fn cpu_time() -> BenchResult<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let secs = Duration::from_secs(u64::try_from(time.tv_sec)?);
    Ok(secs + Duration::from_nanos(u64::try_from(time.tv_nsec)?))
}
