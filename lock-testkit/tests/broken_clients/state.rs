//! The connections of the client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::NodeError;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::bug::Bug;
use crate::link::{Link, Settings};
use crate::wire::Line;

/// How many calls in a row may go unanswered.
const SILENT_CALLS: u32 = 3;

/// How long no connect is tried after one that failed.
const PAUSE: Duration = Duration::from_millis(10);

/// How many replaced connections may linger.
const LINGERING: usize = 4;

type Dial = Pin<Box<dyn Future<Output = Result<Link, NodeError>> + Send>>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) links: [Option<Arc<Link>>; 2],
    turn: usize,
    dial: Option<Dial>,
    /// Until when and why nothing is tried.
    pub(crate) pause: Option<(Instant, NodeError)>,
    lingering: VecDeque<AbortHandle>,
    leaked: Vec<Arc<Link>>,
    /// What is sent as soon as there is a connection, by the client that does so.
    pub(crate) queue: Vec<(Vec<u8>, oneshot::Sender<Line>)>,
    was_connected: bool,
}

impl State {
    /// The connection for the next command.
    pub(crate) async fn link(
        &mut self,
        settings: &Settings,
        deadline: Instant,
    ) -> Result<Arc<Link>, NodeError> {
        let bug = settings.bug;
        if bug == Bug::TwoConnections {
            self.turn = 1 - self.turn;
        }
        if let Some(link) = self.links[self.turn].take() {
            let silent = link.silent.load(Ordering::Relaxed) >= SILENT_CALLS;
            let is_hung = silent && bug != Bug::KeepsHungConnection;
            if link.is_open() && !is_hung && bug != Bug::ConnectsForEachCall {
                self.links[self.turn] = Some(Arc::clone(&link));
                return Ok(link);
            }
            self.retire(link, bug);
        }
        if self.was_connected && bug == Bug::NeverReconnects {
            return Err(NodeError::not_sent("the connection is closed"));
        }
        let link = Arc::new(self.dial(settings, deadline).await?);
        self.was_connected = true;
        self.links[self.turn] = Some(Arc::clone(&link));
        for (words, reply) in self.queue.drain(..) {
            let answer = link.send(words);
            tokio::spawn(async move {
                if let Ok(line) = answer.await {
                    // Its caller may have gone.
                    reply.send(line).ok();
                }
            });
        }
        Ok(link)
    }

    fn retire(&mut self, link: Arc<Link>, bug: Bug) {
        if !link.is_open() || bug == Bug::ConnectsForEachCall || bug == Bug::ForgetsUndo {
            return;
        }
        self.lingering.push_back(link.replace());
        if bug == Bug::LeaksConnections {
            self.leaked.push(link);
        } else if self.lingering.len() > LINGERING
            && let Some(oldest) = self.lingering.pop_front()
        {
            oldest.abort();
        }
    }

    async fn dial(&mut self, settings: &Settings, deadline: Instant) -> Result<Link, NodeError> {
        if let Some((until, error)) = &self.pause
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        loop {
            // It goes on when the next call comes, if this one has no time for it.
            let dial = self
                .dial
                .get_or_insert_with(|| Box::pin(Link::open(settings.clone())));
            let Ok(dialed) = timeout_at(deadline, dial).await else {
                return Err(NodeError::not_sent("still connecting"));
            };
            self.dial = None;
            match (dialed, settings.bug) {
                (Ok(link), _) => return Ok(link),
                (Err(_), Bug::WaitsForServer) => sleep(PAUSE).await,
                (Err(error), bug) => {
                    let late = bug == Bug::ReconnectsLate;
                    let pause = if late { PAUSE * 6000 } else { PAUSE };
                    self.pause = Some((Instant::now() + pause, error.clone()));
                    return Err(error);
                }
            }
        }
    }
}
