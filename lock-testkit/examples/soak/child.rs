//! A process that holds locks.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lock_core::Redlock;
use lock_testkit::sim::Chance;
use tokio::sync::{mpsc, watch};

use crate::BoxError;
use crate::args::ChildArgs;
use crate::event::Event;
use crate::locks;
use crate::ticks;
use crate::usage::Usage;
use crate::work::{self, Kind};

/// What a child does at the same time.
const WORKERS: [Kind; 11] = [
    Kind::Plain,
    Kind::Plain,
    Kind::Plain,
    Kind::Plain,
    Kind::Extended,
    Kind::Extended,
    Kind::Several,
    Kind::Several,
    Kind::Dropped,
    Kind::Dropped,
    Kind::Ticks,
];

/// After the last worker has come to rest, releases may still be under way.
const CALM: Duration = Duration::from_millis(1_500);

/// How often it is looked whether all have come to rest.
const POLL: Duration = Duration::from_millis(10);

/// What the workers of a child share.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) locks: Redlock,
    shared: Arc<Shared>,
    is_working: watch::Receiver<bool>,
}

#[derive(Default)]
struct Shared {
    holds: AtomicU64,
    resting: AtomicUsize,
    output: Mutex<()>,
    counts: Mutex<std::collections::BTreeMap<String, u64>>,
}

impl Desk {
    /// Tells the soak something.
    pub(crate) fn tell(&self, event: &Event) {
        let _one_at_a_time = self.shared.output.lock().unwrap_or_else(|e| e.into_inner());
        let mut output = io::stdout().lock();
        let told = writeln!(output, "{event}").and_then(|()| output.flush());
        if told.is_err() {
            // The soak is gone.
            std::process::exit(1);
        }
    }

    /// Counts something, to be told at rest.
    pub(crate) fn count(&self, what: String) {
        let mut counts = self.shared.counts.lock().unwrap_or_else(|e| e.into_inner());
        *counts.entry(what).or_default() += 1;
    }

    /// A number for a hold.
    pub(crate) fn hold(&self) -> u64 {
        self.shared.holds.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_working(&self) -> bool {
        *self.is_working.borrow()
    }

    /// Waits until it is time to rest.
    pub(crate) async fn until_rest(&self) {
        // Its end is the end of the child.
        self.is_working.clone().wait_for(|it| !it).await.ok();
    }

    /// Rests until it is time to work. Returns at once if that is now.
    pub(crate) async fn rest(&self) {
        if self.is_working() {
            return;
        }
        self.shared.resting.fetch_add(1, Ordering::SeqCst);
        if self.is_working.clone().wait_for(|it| *it).await.is_err() {
            // The child is about to end.
            std::future::pending::<()>().await;
        }
        self.shared.resting.fetch_sub(1, Ordering::SeqCst);
    }

    async fn all_rest(&self) {
        while self.shared.resting.load(Ordering::SeqCst) < WORKERS.len() {
            tokio::time::sleep(POLL).await;
        }
        tokio::time::sleep(CALM).await;
    }

    fn tell_counts(&self) {
        let mut counts = self.shared.counts.lock().unwrap_or_else(|e| e.into_inner());
        for (what, times) in std::mem::take(&mut *counts) {
            self.tell(&Event::Count { what, times });
        }
    }
}

/// Lives until the soak closes our input.
pub(crate) fn run(args: &ChildArgs) -> Result<ExitCode, BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(live(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn live(args: &ChildArgs) -> Result<(), BoxError> {
    let owner = format!("child {}", args.number);
    let locks = locks::build(args.backend, args.rules, &args.nodes, owner)?;
    let (work, is_working) = watch::channel(false);
    let desk = Desk {
        locks,
        shared: Arc::default(),
        is_working,
    };
    let mut chance = Chance::new(args.seed);
    for kind in WORKERS {
        let (desk, chance) = (desk.clone(), Chance::new(chance.bits()));
        match kind {
            Kind::Ticks => tokio::spawn(ticks::run(desk)),
            kind => tokio::spawn(work::run(desk, kind, chance)),
        };
    }
    let mut words = listen();
    while let Some(word) = words.recv().await {
        let is_work = word == "work";
        work.send_replace(is_work);
        if !is_work {
            desk.all_rest().await;
            desk.tell_counts();
            let tasks = tokio::runtime::Handle::current().metrics();
            desk.tell(&Event::AtRest(Usage::read(tasks.num_alive_tasks())?));
        }
    }
    work.send_replace(false);
    desk.all_rest().await;
    if let Err(error) = desk.locks.shutdown().await {
        desk.tell(&Event::Failed(format!("a shutdown: {error}")));
    }
    Ok(())
}

/// The words of the soak, until it closes our input.
fn listen() -> mpsc::UnboundedReceiver<String> {
    let (sender, words) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for word in io::stdin().lock().lines() {
            // Without a listener, the child is about to end.
            let Ok(Ok(())) = word.map(|word| sender.send(word)) else {
                return;
            };
        }
    });
    words
}
