//! Who is who.

use std::collections::HashSet;

use futures::future::join_all;
use lock_core::{AcquireError, DistributedLockExt, LockRequest, ResumeError};

use super::process::OtherProcess;
use super::support::*;

const PROCESSES: usize = 8;

/// So many tokens each process makes.
pub(crate) const EACH: usize = 500;

/// C17.
#[test]
fn processes_that_start_together_share_no_token() {
    let servers = servers(1);
    let start = |_| OtherProcess::start("make tokens", &servers);
    let processes = (0..PROCESSES).map(start).collect::<Vec<_>>();
    let mut tokens = HashSet::new();
    for mut process in processes {
        loop {
            let token = process.next();
            if token == "done" {
                break;
            }
            // A random UUID of version 4, which no setting can replace, and then the process.
            let (id, note) = token.split_once(' ').unwrap();
            assert_eq!(id.len(), 36, "{token}");
            assert_eq!(&id[14..15], "4", "{token}");
            assert!("89ab".contains(&id[19..20]), "{token}");
            assert!(note.contains("pid "), "{token}");
            assert!(tokens.insert(id.to_owned()));
        }
    }
    assert_eq!(tokens.len(), PROCESSES * EACH);
}

/// C30.
#[apply(async_test!)]
async fn a_lock_that_is_taken_twice_by_one_task_is_contended_and_stays_held() {
    let servers = servers(3);
    let locks = locks(&servers).await;
    let request = LockRequest::new(KEY).ttl(60 * SECOND).max_wait(LONG);
    let guard = locks.lock(request.clone()).await.unwrap();
    let again = locks.lock(request.max_wait(500 * MS)).await;
    let Err(AcquireError::Contended(contended)) = again else {
        panic!("{again:?}");
    };
    // A pause that would end too late is not begun: it may be as long as 200 ms.
    let waited = contended.waited;
    assert!(waited >= 250 * MS && contended.attempts > 1, "{waited:?}");
    refused(&locks, LockRequest::new(KEY)).await;
    assert!(guard.is_valid());
    released(&guard).await.unwrap();
    until("released", LONG, || keys(&servers) == 0).await;
}

/// C73.
#[apply(async_test!)]
async fn a_lease_that_several_resume_is_one_guard_at_most() {
    let servers = servers(3);
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(locks(&servers).await);
    }
    let mut wins = 0;
    for _ in 0..20 {
        let request = LockRequest::new(KEY).ttl(60 * SECOND).max_wait(LONG);
        let guard = all[0].lock(request).await.unwrap();
        granted_everywhere(&guard).await;
        let lease = guard.into_lease().unwrap();
        let resumed = join_all(all.iter().map(|locks| locks.resume(&lease))).await;
        let mut guards = Vec::new();
        for result in resumed {
            match result {
                Ok(guard) => guards.push(guard),
                Err(ResumeError::Lost | ResumeError::Unavailable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(guards.len() < 2, "two guards of one lease");
        if let Some(guard) = guards.pop() {
            wins += 1;
            let again = all[1].resume(&lease).await;
            assert!(matches!(again, Err(ResumeError::Lost)), "it was used up");
            refused(&all[2], LockRequest::new(KEY)).await;
            guard.extend(60 * SECOND).await.unwrap();
            released(&guard).await.unwrap();
        }
        until("released", LONG, || keys(&servers) == 0).await;
    }
    assert!(wins > 0);
}
