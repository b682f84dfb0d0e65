//! What `tracing` hears.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

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
    sleep(1500 * MS).await;
    nodes[0].heal();
    sleep(5000 * MS).await;

    let text = log.text();
    // One name for all that happens to the lock.
    let acquired = text.lines().find(|line| line.contains("acquired")).unwrap();
    let (_, lock) = acquired.split_once("lock=").unwrap();
    let of_lock = format!("resource=pay\\nments lock={}", &lock[..8]);
    let events = [
        "acquired",
        "extended",
        "release",
        "release owed node=\"memory-1\"",
    ];
    for event in events.map(|event| format!("lock_core: {event} {of_lock} ")) {
        assert!(text.contains(event.trim_end()), "{event}\n{text}");
    }
    for expected in [
        "DEBUG acquire{resource=pay\\nments}: lock_core: acquired resource=pay\\nments lock=",
        " attempts=1 waited_us=0 granted=5 nodes=5",
        "DEBUG acquire{resource=pay\\nments}: lock_core: contended resource=pay\\nments",
        "DEBUG lock_core: extended together locks=1 extended=1",
        " remaining_us=2968000",
        " held_us=20",
        "outcome=\"released\"",
        "TRACE acquire{resource=pay\\nments}: lock_core: answered node=\"memory-2\" \
         operation=\"acquire\"",
        "not answered node=\"memory-1\" operation=\"release\" error=no answer in 1000 ms",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    // Its random part: a note stands behind it.
    assert!(!text.contains(&guard.token()[..36]), "{text}");
    assert_eq!(log.count("WARN"), 1, "the node that hung: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_and_a_quorum_are_one_warning_and_coming_back_is_one_line() {
    let (log, _on) = Log::start(tracing::Level::INFO);
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let attempts = async |count: u32| {
        for _ in 0..count {
            let request = LockRequest::new(KEY).max_wait(Duration::ZERO);
            drop(locks.lock(request).await);
            sleep(200 * MS).await;
        }
    };
    let mut seen = 0;
    let mut lines = |log: &Log| {
        let text = log.text();
        let new = text.lines().skip(seen).map(|line| line.trim().to_owned());
        let new = new.collect::<Vec<_>>();
        seen += new.len();
        new
    };
    attempts(10).await;
    assert_eq!(lines(&log), [""; 0]);

    nodes[1].set_fault(Fault::Hang);
    attempts(10).await;
    let down = "WARN lock_core: node is down node=\"memory-2\" error=no answer in 100 ms";
    assert_eq!(lines(&log), [down]);

    nodes[2].set_fault(Fault::error(
        "LOADING Redis is loading the dataset in memory",
    ));
    attempts(10).await;
    let down = "WARN lock_core: node is down node=\"memory-3\" error=LOADING Redis is loading the \
                dataset in memory";
    let quorum = "WARN lock_core: quorum is out of reach up=1 quorum=2";
    assert_eq!(lines(&log), [down, quorum]);

    nodes[1].heal();
    attempts(10).await;
    let up = "INFO lock_core: node is up again node=\"memory-2\"";
    assert_eq!(lines(&log), [up, "INFO lock_core: quorum is back"]);

    // It answers again, but not in time: every other time at first, and then always.
    for late in [true, false, true, false, true, true] {
        let delay = if late { 110 * MS } else { Duration::ZERO };
        nodes[2].set_fault(Fault::Delay(delay));
        attempts(2).await;
    }
    assert_eq!(lines(&log), [""; 0]);
    nodes[2].heal();
    attempts(10).await;
    let up = "INFO lock_core: node is up again node=\"memory-3\"";
    assert_eq!(lines(&log), [up]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_serves_extensions_alone_is_up_again_too() {
    let (log, _on) = Log::start(tracing::Level::INFO);
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let request = LockRequest::new(KEY).ttl(3000 * MS).auto_extend(true);
    let guard = locks.lock(request).await.unwrap();
    nodes[0].set_fault(Fault::Refuse);
    sleep(5000 * MS).await;
    nodes[0].heal();
    sleep(5000 * MS).await;
    assert!(guard.is_valid());
    let text = log.text();
    assert_eq!(log.count("WARN"), 1, "{text}");
    assert_eq!(log.count("INFO lock_core: node is up again"), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_one_warning() {
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
    let lost = |name: &str| log.count(&format!("WARN lock_core: lost resource={name} lock="));
    assert_eq!((lost("stolen"), lost("expired")), (1, 1), "{text}");
    // Nor are they told again at their end.
    stolen.release().await.unwrap_err();
    expired.release().await.unwrap_err();
    assert_eq!((lost("stolen"), lost("expired")), (1, 1), "{text}");
}

/// C82.
#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_in_its_own_statement_is_told_with_a_hint() {
    let (log, _on) = Log::start(tracing::Level::DEBUG);
    let nodes = nodes(3);
    let locks = warm_locks(&nodes).await;
    let hints = || log.count("guard was dropped at once");
    locks
        .lock("released")
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    locks.with_lock("scoped", async |_| ()).await.unwrap();
    let later = locks.lock("later").await.unwrap();
    sleep(MS).await;
    drop(later);
    assert_eq!(hints(), 0, "{}", log.text());

    nodes
        .iter()
        .for_each(|node| node.set_fault(Fault::Delay(20 * MS)));
    #[expect(clippy::let_underscore_must_use, reason = "it finds this mistake")]
    let _ = locks.lock("forgotten").await.unwrap();
    let text = log.text();
    assert_eq!(hints(), 1, "{text}");
    let hint = text
        .lines()
        .find(|line| line.contains("at once resource=forgotten lock="));
    assert!(
        hint.unwrap().contains("`let _ = ..` drops a guard"),
        "{text}"
    );
}
