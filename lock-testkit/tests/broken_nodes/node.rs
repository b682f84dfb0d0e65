//! A node with one bug.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::node::{Keys, Operation, Subscription};
use lock_core::{Command, NodeError, RedisNode, Reply, Token};
use lock_testkit::conformance::node::{Entry, NodeBed};

use crate::mutants::Bug;
use crate::{
    acquiring, concurrency, exchanging, extending, fencing, forms, guarding, inspecting, keys,
    releasing, scripts, several,
};

pub(crate) type Answer = Result<Reply, NodeError>;

/// A node over a good one, into whose server it also reaches directly.
#[derive(Clone, Debug)]
pub(crate) struct BrokenNode {
    pub(crate) well: Arc<dyn RedisNode>,
    pub(crate) server: Arc<dyn NodeBed>,
    pub(crate) state: Arc<State>,
    pub(crate) bug: Bug,
}

/// What the nodes of one server remember.
#[derive(Debug, Default)]
pub(crate) struct State(Mutex<Memory>);

#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) known_scripts: HashSet<&'static str>,
    pub(crate) calls: usize,
    pub(crate) in_flight: usize,
    pub(crate) last: Option<Answer>,
    pub(crate) orphans: VecDeque<Answer>,
    pub(crate) late: Vec<Operation>,
    pub(crate) broken: bool,
}

impl State {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap()
    }
}

#[async_trait]
impl RedisNode for BrokenNode {
    async fn execute(&self, command: &Command, _within: Duration) -> Answer {
        if let Err(refused) = scripts::enter(self, command) {
            return scripts::refused(self, command, refused).await;
        }
        let operation = keys::altered(self.bug, command.operation());
        let answer = concurrency::run(self, &operation).await;
        forms::altered(self.bug, &operation, answer)
    }

    async fn subscribe(&self, channel: &[u8]) -> Result<Subscription, NodeError> {
        self.well.subscribe(channel).await
    }

    fn label(&self) -> &str {
        self.well.label()
    }
}

impl BrokenNode {
    /// Carries it out, with the bugs that change what is carried out.
    pub(crate) async fn run(&self, operation: &Operation) -> Answer {
        let instead = match operation {
            Operation::Acquire {
                keys,
                token,
                guard: Some(guard),
                ..
            } => guarding::acquire(self, keys, *token, guard, operation).await,
            Operation::Bootstrap { key, .. } => guarding::bootstrap(self, key, operation).await,
            Operation::Acquire {
                keys,
                token,
                fence: Some(fence),
                ..
            } => fencing::acquire(self, keys, *token, fence, operation.clone()).await,
            Operation::Confirm {
                keys,
                token,
                fence,
                granted,
                raised,
            } => fencing::confirm(self, keys, *token, fence, [*granted, *raised]).await,
            Operation::Acquire {
                keys, token, ttl, ..
            } => match keys {
                Keys::Several(keys) => several::acquire(self, keys, *token, *ttl).await,
                Keys::One(key) if operation.script_name().is_some() => {
                    acquiring::set_or_tell(self, key, *token, *ttl).await
                }
                Keys::One(key) => acquiring::set(self, key, *token, *ttl).await,
            },
            Operation::Extend { entries } => extending::extend(self, entries).await,
            Operation::Exchange { keys, new, ttl, .. } => {
                let (ttl, well) = (ttl.as_duration(), operation.clone());
                exchanging::exchange(self, keys, *new, ttl, well).await
            }
            Operation::Release { keys, token, keep } => match keys {
                Keys::One(key) => releasing::release(self, key, *token, *keep).await,
                Keys::Several(keys) => several::release(self, keys, *token, *keep).await,
            },
            Operation::Inspect { key } => inspecting::inspect(self, key).await,
            Operation::Remove { key } => inspecting::remove(self, key).await,
            Operation::Scan { prefix, .. } => inspecting::scan(self, prefix).await,
            Operation::Describe => inspecting::describe(self).await,
            _ => None,
        };
        match instead {
            Some(answer) => answer,
            None => self.do_well(operation.clone()).await,
        }
    }

    /// As a good node does.
    pub(crate) async fn do_well(&self, operation: Operation) -> Answer {
        let within = Duration::from_secs(1);
        self.well.execute(&Command::from(operation), within).await
    }

    pub(crate) async fn look(&self, key: &[u8]) -> Entry {
        self.server.look(key).await.unwrap()
    }

    pub(crate) async fn put(&self, key: &[u8], entry: &Entry) {
        self.server.put(key, entry).await.unwrap();
    }

    /// Lets others run, each call for another while. Tokio runs dozens of tasks before it turns to
    /// the future that it blocks on, so the differences are large.
    pub(crate) async fn pause_for_a_while(&self) {
        self.state.lock().calls += 1;
        let times = self.state.lock().calls % 4 * 100;
        for _ in 0..=times {
            pause().await;
        }
    }

    /// The value of a key that is a string.
    pub(crate) async fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.look(key).await {
            Entry::Value { value, .. } => Some(value),
            _ => None,
        }
    }

    pub(crate) async fn holds(&self, key: &[u8], token: Token) -> bool {
        self.value(key).await.as_deref() == Some(token.as_bytes())
    }

    /// What is left of a key's life: `None` for a key that is missing or lives for ever.
    pub(crate) async fn left(&self, key: &[u8]) -> Option<Duration> {
        match self.look(key).await {
            Entry::Value { ttl, .. } => ttl,
            _ => None,
        }
    }
}

pub(crate) fn living(value: &[u8], ttl: Duration) -> Entry {
    Entry::Value {
        value: value.to_vec(),
        ttl: Some(ttl),
    }
}

pub(crate) fn is(answer: &Answer, reply: &Reply) -> bool {
    answer.as_ref().is_ok_and(|found| found == reply)
}

/// Lets other tasks run.
pub(crate) async fn pause() {
    let mut polled = false;
    poll_fn(|context| {
        if polled {
            return Poll::Ready(());
        }
        polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
