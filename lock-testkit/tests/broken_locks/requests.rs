//! What a broken lock makes of a request.

use std::time::Duration;

use lock_core::{LockRequest, Ttl};

use crate::mutants::Bug;

/// The name that is locked instead of the one asked for.
pub(crate) fn key(bug: Bug, name: &[u8], instance: usize) -> Vec<u8> {
    match bug {
        Bug::ExclusionPerInstance => [format!("{instance}:").as_bytes(), name].concat(),
        Bug::NamesCutShort => name[..name.len().min(4)].to_vec(),
        Bug::NamesCutAt255 => name[..name.len().min(255)].to_vec(),
        Bug::NamesAsText => String::from_utf8_lossy(name).into_owned().into_bytes(),
        Bug::NamesFolded => name.to_ascii_lowercase(),
        Bug::NamesCutAtNul => {
            let until_nul: Vec<_> = name.iter().copied().take_while(|b| *b != 0).collect();
            if until_nul.is_empty() {
                name.to_vec()
            } else {
                until_nul
            }
        }
        Bug::NamesTrimmed => name.trim_ascii().to_vec(),
        Bug::EmptyNameTaken if name.is_empty() => b"empty".to_vec(),
        _ => name.to_vec(),
    }
}

/// The request that is made instead.
pub(crate) fn request(bug: Bug, asked: &LockRequest, instance: usize) -> LockRequest {
    let gives_up = asked.options().fail_if_unavailable;
    let is_impatient = gives_up && bug == Bug::GivesUpOnHolders;
    let mut made = several(bug, asked, instance)
        .fail_if_held(asked.options().fail_if_held && bug != Bug::NeverGivesUp || is_impatient)
        .fail_if_unavailable(gives_up && bug != Bug::OutagesWaitedOut);
    if let Some(asked) = asked.options().ttl {
        made = made.ttl(ttl(bug, asked));
    }
    if let Some(retry) = asked.options().retry {
        made = made.retry(retry);
    }
    if let Some(max_wait) = asked.options().max_wait {
        made = made.max_wait(wait(bug, max_wait.limit()));
    }
    if let Some(auto_extend) = asked.options().auto_extend {
        made = made.auto_extend(auto_extend && bug != Bug::NotExtended);
    }
    if let Some(max_hold) = asked
        .options()
        .max_hold
        .filter(|_| bug != Bug::MaxHoldIgnored)
    {
        made = made.max_hold(max_hold);
    }
    if let Some(fencing) = asked.options().fencing {
        made = made.fencing(fencing);
    }
    match bug {
        Bug::HoldIgnored => made,
        Bug::LongHoldMended => {
            let limit = asked.options().ttl.unwrap_or(Duration::MAX);
            made.hold_at_least(asked.options().hold_at_least.min(limit))
        }
        _ => made.hold_at_least(asked.options().hold_at_least),
    }
}

/// The resources that are locked instead of those asked for.
fn several(bug: Bug, asked: &LockRequest, instance: usize) -> LockRequest {
    let names = asked.resources().collect::<Vec<_>>();
    match (bug, &names[..]) {
        (Bug::SeveralIsFirst, [first, _, ..]) => LockRequest::new(first),
        (Bug::SeveralJoined, [_, _, ..]) => LockRequest::new(names.concat()),
        _ => LockRequest::many(names.iter().map(|name| key(bug, name, instance))),
    }
}

pub(crate) fn ttl(bug: Bug, asked: Duration) -> Duration {
    match bug {
        Bug::BadTtlMended => asked.clamp(Duration::from_millis(100), Ttl::MAX.as_duration()),
        _ => asked,
    }
}

fn wait(bug: Bug, asked: Option<Duration>) -> Option<Duration> {
    match (bug, asked) {
        (Bug::WaitEndsAtOnce, _) => Some(Duration::ZERO),
        (Bug::NoLimitIsOne, None) => Some(Duration::from_millis(10)),
        (Bug::WaitNeverEnds, _) => None,
        (Bug::WaitOfZeroWaits, Some(Duration::ZERO)) => Some(Duration::from_millis(100)),
        (_, asked) => asked,
    }
}
