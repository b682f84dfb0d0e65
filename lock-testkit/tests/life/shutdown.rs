//! The end of a program.

use super::process::{OtherProcess, told};
use super::support::*;

/// C27.
#[apply(async_test_on_threads!)]
async fn a_process_that_is_told_to_end_leaves_no_lock() {
    let servers = servers(3);
    let process = OtherProcess::start("end on a signal", &servers);
    let (process, held) = told(process).await;
    assert_eq!((held.as_str(), keys(&servers)), ("held", 9));
    process.terminate();
    let (mut process, ended) = told(process).await;
    assert_eq!((ended.as_str(), keys(&servers)), ("ended", 0));
    until("the process ends", LONG, || process.has_ended()).await;
}
