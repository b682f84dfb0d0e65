//! What `tracing` hears.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use lock_core::{DistributedLockExt, LockRequest};
use lock_testkit::Fault;
use tokio::time::sleep;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::*;

/// Collects what is written.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

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
    pub(crate) fn start(level: tracing::Level) -> (Self, tracing::subscriber::DefaultGuard) {
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

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
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
