//! What both sides of a comparison have in common.

use std::time::{Duration, Instant};

use crate::BenchResult;

/// One way to take a lock and to give it back.
pub(crate) trait Side: Clone + Send + Sync + 'static {
    /// The name of a lock, in the form in which this side takes it.
    type Name: Send + Sync + 'static;

    fn name(resource: &str) -> Self::Name;

    /// Acquires a lock that is free, and releases it.
    fn pair(&self, name: &Self::Name) -> impl Future<Output = BenchResult<()>> + Send;
}

/// Acquires and releases one lock over and over, and says how long each pair took.
///
/// It runs on one of the runtime's workers, as tasks of an application do: the thread that blocks
/// on the runtime would have to be woken for every reply.
pub(crate) async fn one_by_one<S: Side>(
    side: &S,
    resource: &str,
    turn: Duration,
) -> BenchResult<Vec<Duration>> {
    let (side, name) = (side.clone(), S::name(resource));
    let task = tokio::spawn(async move {
        let mut took = Vec::new();
        let start = Instant::now();
        let mut now = start;
        while now.duration_since(start) < turn {
            side.pair(&name).await?;
            let end = Instant::now();
            took.push(end.duration_since(now));
            now = end;
        }
        Ok(took)
    });
    task.await?
}

/// How many pairs there were, and how long they took together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) pairs: u32,
    pub(crate) took: Duration,
}

impl Pace {
    pub(crate) fn per_second(self) -> f64 {
        f64::from(self.pairs) / self.took.as_secs_f64()
    }
}

/// Does so in many tasks at once, each with a lock of its own.
pub(crate) async fn all_at_once<S: Side>(
    side: &S,
    tasks: usize,
    turn: Duration,
) -> BenchResult<Pace> {
    let start = Instant::now();
    let tasks = (0..tasks).map(|task| {
        let (side, name) = (side.clone(), S::name(&format!("bench:{task}")));
        tokio::spawn(async move {
            let mut pairs = 0_u32;
            while start.elapsed() < turn {
                side.pair(&name).await?;
                pairs += 1;
            }
            BenchResult::Ok(pairs)
        })
    });
    let mut pairs = 0;
    for task in tasks.collect::<Vec<_>>() {
        pairs += task.await??;
    }
    Ok(Pace {
        pairs,
        took: start.elapsed(),
    })
}
