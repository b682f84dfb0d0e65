//! The memory that this process uses, and what servers were sent.

use std::fs;

use lock_core::Reply;
use lock_testkit::RedisServer;

use crate::BenchResult;

/// The process's resident memory in bytes: all of it, whoever asked for it.
pub(crate) fn memory() -> BenchResult<f64> {
    let statm = fs::read_to_string("/proc/self/statm")
        .map_err(|error| format!("this system does not tell a process's memory: {error}"))?;
    let pages = statm.split(' ').nth(1).ok_or("/proc/self/statm is odd")?;
    Ok(pages.parse::<f64>()? * rustix::param::page_size() as f64)
}

/// How many commands about locks clients have sent to the servers, whether they set, extend or
/// release.
pub(crate) fn requests(servers: &[RedisServer]) -> BenchResult<u64> {
    let mut requests = 0;
    for server in servers {
        let Reply::Bytes(stats) = server.command(&["INFO", "commandstats"])? else {
            return Err("INFO has no text".into());
        };
        for line in String::from_utf8(stats)?.lines() {
            // Those inside scripts are counted under their own names.
            let sent = ["set", "eval", "evalsha"].iter().find_map(|name| {
                line.strip_prefix("cmdstat_")?
                    .strip_prefix(name)?
                    .strip_prefix(":calls=")
            });
            if let Some(calls) = sent.and_then(|rest| rest.split(',').next()) {
                requests += calls.parse::<u64>()?;
            }
        }
    }
    Ok(requests)
}
