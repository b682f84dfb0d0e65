//! Who is who.

use std::collections::HashSet;

use lock_core::{AcquireError, DistributedLockExt, LockRequest};

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
            // A random UUID of version 4, which no setting can replace.
            assert_eq!(token.len(), 36, "{token}");
            assert_eq!(&token[14..15], "4", "{token}");
            assert!("89ab".contains(&token[19..20]), "{token}");
            assert!(tokens.insert(token));
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
