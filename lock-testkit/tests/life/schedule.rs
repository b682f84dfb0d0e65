//! Jobs that run by a schedule.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use lock_core::tick::{Tick, TickJob};

use super::support::*;

/// Three instances for three seconds, with a server that dies meanwhile.
#[apply(async_test!)]
async fn a_job_runs_each_tick_once_and_one_at_a_time_while_a_server_dies() {
    let servers = servers(3);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let ticks = Mutex::new(Vec::<Tick>::new());
    // Longer than the period.
    let body = async |tick| {
        let others = now.fetch_add(1, Ordering::SeqCst);
        most.fetch_max(others + 1, Ordering::SeqCst);
        ticks.lock().unwrap().push(tick);
        sleep(250 * MS).await;
        now.fetch_sub(1, Ordering::SeqCst);
    };
    let locks = [
        locks(&servers).await,
        locks(&servers).await,
        locks(&servers).await,
    ];
    let instances = locks.iter().map(|locks| {
        let job = TickJob::every("job", 200 * MS).no_overlap(true);
        let job = job.late_limit(SECOND).build().unwrap();
        async move { job.run_until(sleep(3 * SECOND), locks, body).await }
    });
    let one_dies = async {
        sleep(SECOND).await;
        servers[1].kill().unwrap();
    };
    let (ends, ()) = futures::join!(join_all(instances), one_dies);
    for end in ends {
        end.unwrap();
    }
    let mut ticks = ticks.into_inner().unwrap();
    let runs = ticks.len();
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), runs, "a tick ran twice");
    assert!(runs >= 4, "{runs}");
    assert_eq!(most.into_inner(), 1);
}
