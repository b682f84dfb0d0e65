//! Holders in other processes.

use std::time::Duration;

use lock_core::LockRequest;

use crate::conformance::lock::child::{NAME, Part, read_count, write_count};
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, Failure, expect, expect_eq};

pub(crate) async fn a_killed_process_keeps_its_lock_until_the_ttl_ends(cx: &LockCx) -> CheckResult {
    let ttl = Duration::from_millis(2_000);
    let request = LockRequest::new(NAME);
    let mut child = cx.start_child(&Part::Hold(ttl))?;
    cx.ends("a start of a process", child.expect("held"))
        .await??;
    let held = cx.now();
    loop {
        let second = cx.ask(cx.lock(), &request).await?;
        if second.is_none() {
            break;
        }
        // It may have taken long until we heard of it.
        let is_late = cx.now().saturating_sub(held) > ttl / 2;
        expect(is_late, "a lock that another process holds", &second)?;
    }
    child.kill()?;
    let guard = cx.take(cx.lock(), request).await?;
    // The holder has had it since before we heard so.
    let kept = cx.now().saturating_sub(held);
    expect(guard.is_valid(), "the lock after the ttl", kept)
}

pub(crate) async fn processes_lose_no_update(cx: &LockCx) -> CheckResult {
    const TIMES: u32 = 80;
    let folder = tempfile::tempdir();
    let folder = folder.map_err(|error| Failure::setup("make a folder", &error))?;
    let path = folder.path().join("count");
    write_count(&path, 0)?;
    let part = Part::Count(TIMES, path.clone());
    let mut children = [cx.start_child(&part)?, cx.start_child(&part)?];
    for child in &mut children {
        cx.ends("a start of a process", child.expect("ready"))
            .await??;
    }
    // Neither can have finished before the other one starts.
    for child in &mut children {
        child.go()?;
    }
    for child in &mut children {
        cx.all_end("the turns of a process", child.expect("done"))
            .await??;
    }
    let expected = 2 * u64::from(TIMES);
    expect_eq("the counter", &expected, &read_count(&path)?)
}
