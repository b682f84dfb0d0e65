//! What `tracing` hears.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use lock_core::runtime::{BoxFuture, ambient};
use lock_core::tick::TickJob;
use lock_core::{DistributedLockExt, LockRequest, Runtime};
use lock_testkit::Fault;
use tokio::time::sleep;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::*;

/// Collects what is written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Everything that this thread logs from now on, in lines.
    fn start(level: tracing::Level) -> (Self, tracing::subscriber::DefaultGuard) {
        // With one subscriber alone, tracing asks the thread that first comes to a line whether
        // anybody listens there, and keeps to its answer for all threads. With two it asks both.
        static SECOND: LazyLock<tracing::Dispatch> =
            LazyLock::new(|| tracing::Dispatch::new(tracing_subscriber::registry()));
        LazyLock::force(&SECOND);
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_max_level(level)
            .without_time()
            .with_ansi(false)
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn count(&self, what: &str) -> usize {
        self.text().matches(what).count()
    }
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_lock_can_be_followed_and_shows_no_token() {
    let (log, _on) = Log::start(tracing::Level::TRACE);
    let nodes = nodes(5);
    let locks = locks(&nodes);
    let guard = locks.lock(
        LockRequest::new("pay\nments")
            .ttl(3000 * MS)
            .auto_extend(true),
    );
    let guard = guard.await.unwrap();
    sleep(2000 * MS).await;
    guard.extend(3000 * MS).await.unwrap();
    assert!(locks.try_lock("pay\nments").await.unwrap().is_none());
    nodes[0].set_fault(Fault::Hang);
    guard.release().await.unwrap();
    sleep(1000 * MS).await;
    nodes[0].heal();
    sleep(5000 * MS).await;

    let text = log.text();
    for expected in [
        "DEBUG acquire{resource=pay\\nments}: lock_core: acquired resource=pay\\nments attempts=1 \
         waited_us=0 granted=5 nodes=5",
        "DEBUG acquire{resource=pay\\nments}: lock_core: contended resource=pay\\nments",
        "DEBUG lock_core: extended together locks=1 extended=1",
        "DEBUG lock_core: extended key=pay\\nments remaining_us=2968000",
        "DEBUG lock_core: release key=pay\\nments held_us=20",
        "outcome=\"released\"",
        "DEBUG lock_core: release owed node=\"memory-1\" key=pay\\nments",
        "DEBUG lock_core: node is suspect node=\"memory-1\"",
        "DEBUG lock_core: node answers again node=\"memory-1\"",
        "TRACE acquire{resource=pay\\nments}: lock_core: answered node=\"memory-2\" \
         operation=\"acquire\"",
        "not answered node=\"memory-1\" operation=\"release\" error=no answer in 100 ms",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains(guard.token()), "{text}");
    assert_eq!(log.count("WARN"), 0, "{text}");
}

#[tokio::test(start_paused = true)]
async fn only_a_loss_is_worth_a_warning() {
    let (log, _on) = Log::start(tracing::Level::INFO);
    let nodes = nodes(3);
    let locks = locks(&nodes);
    let request = |name: &str| LockRequest::new(name).ttl(3000 * MS).auto_extend(true);
    let stolen = locks.lock(request("stolen")).await.unwrap();
    let expired = locks.lock(request("expired")).await.unwrap();
    let released = locks.lock(request("released")).await.unwrap();
    released.release().await.unwrap();
    assert_eq!(log.text(), "");
    nodes
        .iter()
        .for_each(|node| node.set_foreign("stolen", "by somebody"));
    stolen.lost().await;
    nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    expired.lost().await;
    sleep(60_000 * MS).await;
    let text = log.text();
    assert_eq!(log.count("WARN lock_core: lost key=stolen"), 1, "{text}");
    assert_eq!(log.count("WARN lock_core: lost key=expired"), 1, "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// A wall clock that can be set.
#[derive(Debug)]
struct Settable {
    inner: Arc<dyn Runtime>,
    ahead_ms: AtomicU64,
}

impl Runtime for Settable {
    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn system_time(&self) -> SystemTime {
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        self.inner.system_time() + ahead
    }

    fn random(&self) -> [u8; 16] {
        self.inner.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.inner.spawn(task);
    }
}

/// Case C75.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_is_told_once_and_ticks_go_on() {
    let (log, _on) = Log::start(tracing::Level::WARN);
    let two_hours = 2 * 60 * 60 * 1_000;
    let clock = Arc::new(Settable {
        inner: ambient(),
        ahead_ms: AtomicU64::new(two_hours),
    });
    let job = TickJob::every("r", 1000 * MS).runtime(clock.clone());
    let mut ticks = job.build().unwrap().ticks().unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(ticks.next().await.unwrap());
    }
    assert_eq!(log.text(), "");
    clock.ahead_ms.store(0, Ordering::Relaxed);
    let set_back = tokio::time::Instant::now();
    for _ in 0..10 {
        seen.push(ticks.next().await.unwrap());
    }
    let took = set_back.elapsed();
    assert!(took <= 11_000 * MS, "{took:?}");
    seen.sort();
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    assert_eq!(
        log.count("the wall clock was set back"),
        1,
        "{}",
        log.text()
    );
    assert!(log.text().contains("job=r by_us=7"), "{}", log.text());
}
