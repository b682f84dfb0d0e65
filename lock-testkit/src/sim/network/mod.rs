//! The network between clients and servers: links, and what goes over them in order.

mod client;
mod connect;
mod cut;
pub(crate) mod rules;

use std::collections::VecDeque;
use std::time::Duration;

use futures::channel::oneshot;
use lock_core::node::{Command, NodeError, Operation, Reply};

use crate::sim::calls::OpenCall;
use crate::sim::coverage::Mark;
use crate::sim::operation::has_source;
use crate::sim::queue::Event;
use crate::sim::server::ServerId;
use crate::sim::tasks::ClientId;
use crate::sim::world::World;

pub(crate) use client::NetworkClient;
pub(crate) use connect::Dial;

/// How long a command may wait for its connection to be written: 10 s by the client's clock, which may be
/// slow.
const LATEST_WRITE: Duration = Duration::from_millis(10_500);

/// The client's end of the way to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointId {
    pub(crate) client: ClientId,
    pub(crate) server: ServerId,
}

/// The answer to a command.
type Answer = Result<Reply, NodeError>;

/// A request on its way.
#[derive(Clone, Debug)]
struct Request {
    operation: Operation,
    with_source: bool,
    /// The keeper wrote it behind a doubtful acquire.
    is_undo: bool,
}

/// One connection, from its making until it is forgotten.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: EndpointId,
    requests: VecDeque<Request>,
    replies: VecDeque<Answer>,
    /// Where the client waits for replies, in their order.
    waiting: VecDeque<oneshot::Sender<Answer>>,
    /// The last arrivals: nothing arrives before what was sent earlier.
    last_request_at: Duration,
    last_reply_at: Duration,
    /// How much longer than usual each message takes.
    lag: Duration,
    /// Tells the client that it broke; `None` once it has.
    broken: Option<oneshot::Sender<NodeError>>,
    /// The task of the client that writes and reads, once it was polled.
    task: Option<usize>,
    /// What waits for that task, since it stands still, and since when.
    unwritten: VecDeque<(Duration, Request, oneshot::Sender<Answer>)>,
    /// It stood still, so that its client may have closed it with more unwritten than it knows of.
    has_stalled: bool,
    /// It is half open: the server has forgotten it.
    is_deaf: bool,
    /// The client closed it.
    is_closed: bool,
}

/// The client's side of the way to one server.
#[derive(Debug, Default)]
pub(crate) struct Endpoint {
    /// The newest connection.
    link: Option<usize>,
    pub(crate) requests_blocked_until: Duration,
    pub(crate) replies_blocked_until: Duration,
    /// Calls that have begun and not ended, in their order.
    pub(crate) calls: Vec<OpenCall>,
    /// The most of them at a time.
    pub(crate) peak: usize,
    /// The number of the call that begins next, and of the last one whose command left.
    pub(crate) next_call: u64,
    pub(crate) last_sent: u64,
    /// Whether any call was answered.
    pub(crate) has_answered: bool,
    /// When the last call failed, or the last connection that stood still goes on.
    pub(crate) failed_at: Duration,
    /// Whether the last call had no answer.
    pub(crate) is_suspect: bool,
    /// Acquires in flight that were sent since.
    pub(crate) probes: usize,
    /// When the last of them was sent.
    pub(crate) probed_at: Duration,
}

impl EndpointId {
    pub(crate) fn new(client: ClientId, server: ServerId) -> Self {
        Self { client, server }
    }

    pub(crate) fn index(self) -> usize {
        self.client.0 * crate::sim::ledger::MAX_SERVERS + self.server.0
    }
}

impl Link {
    fn is_broken(&self) -> bool {
        self.broken.is_none()
    }

    /// Returns whether the client still has it.
    fn is_open(&self) -> bool {
        !self.is_broken() && !self.is_closed
    }
}

impl World {
    pub(crate) fn endpoint(&mut self, id: EndpointId) -> &mut Endpoint {
        let index = id.index();
        if self.endpoints.len() <= index {
            self.endpoints.resize_with(index + 1, Endpoint::default);
        }
        &mut self.endpoints[index]
    }

    /// Returns how many connections clients have open beside their newest ones.
    pub(crate) fn spare_connections(&self) -> usize {
        let newest = |link| self.endpoints.iter().any(|it| it.link == Some(link));
        let open = self.links.iter().enumerate().filter(|(_, it)| it.is_open());
        open.filter(|(link, _)| !newest(*link)).count()
    }

    fn way(&mut self) -> Duration {
        let rules = self.rules;
        rules.usual / 4 + self.chance.heavy(rules.usual, rules.longest)
    }

    /// Writes a command to a connection. Returns where its answer will come.
    fn write(
        &mut self,
        link: usize,
        command: &Command,
    ) -> Result<oneshot::Receiver<Answer>, NodeError> {
        let id = self.links[link].endpoint;
        if self.clients[id.client.0].is_dead {
            return Err(NodeError::not_sent("the process is dead"));
        }
        let is_undo = self.call_leaves(id, command);
        if !self.links[link].is_open() {
            return Err(NodeError::connection("broken pipe"));
        }
        if is_undo {
            self.mark(Mark::Undone);
        }
        let (sender, answer) = oneshot::channel();
        let request = Request {
            operation: command.operation().clone(),
            with_source: has_source(command),
            is_undo,
        };
        if self.stands_still(link) {
            let now = self.now;
            let unwritten = &mut self.links[link].unwritten;
            unwritten.push_back((now, request, sender));
        } else {
            self.links[link].waiting.push_back(sender);
            self.send(link, request);
        }
        Ok(answer)
    }

    /// Returns whether what is written to the connection waits for its task.
    fn stands_still(&self, link: usize) -> bool {
        let link = &self.links[link];
        let is_stalled = link.task.is_some_and(|task| self.stalled.contains(&task));
        is_stalled || !link.unwritten.is_empty()
    }

    /// Whose connection it is, and how long that client waits for an answer, if it stands still.
    fn stalled(&self, link: usize) -> Option<(ClientId, Duration)> {
        let client = self.links[link].endpoint.client;
        self.stands_still(link).then_some((client, self.patience))
    }

    /// Holds the task of a connection back for a while.
    pub(crate) fn stall(&mut self, link: usize, lasting: Duration) {
        let Some(task) = self.links[link].task else {
            return;
        };
        // One that stands still goes on at the end that was told first.
        if !self.links[link].is_open() || !self.stalled.insert(task) {
            return;
        }
        self.links[link].has_stalled = true;
        self.note(|| format!("connection {link} stands still"));
        let until = self.now + lasting;
        let id = self.links[link].endpoint;
        let endpoint = self.endpoint(id);
        endpoint.failed_at = endpoint.failed_at.max(until);
        self.after(lasting, move |world| {
            world.stalled.remove(&task);
            world.going_on.push_back(task);
        });
    }

    /// The task of a connection is polled: it writes what waits for it.
    fn drive(&mut self, link: usize) {
        let task = self.polled;
        let found = &mut self.links[link];
        found.task = Some(task);
        let unwritten = std::mem::take(&mut found.unwritten);
        for (since, request, sender) in unwritten {
            if self.now - since > LATEST_WRITE {
                let text = "a command leaves long after it was handed over";
                self.wrong_call("sending", self.links[link].endpoint, text);
            }
            self.links[link].waiting.push_back(sender);
            self.send(link, request);
        }
    }

    fn send(&mut self, link: usize, request: Request) {
        let way = self.way() + self.links[link].lag;
        let at = (self.now + way).max(self.links[link].last_request_at);
        let found = &mut self.links[link];
        found.last_request_at = at;
        let server = found.endpoint.server;
        let double = request.clone();
        found.requests.push_back(request);
        self.queue.push(at, Event::Request(link));
        if self.chance.happens(self.rules.duplicates) {
            let later = self.chance.heavy(20 * self.rules.usual, self.rules.longest);
            self.stray(server, double, at + later);
        }
    }

    /// Makes a request run at this moment, though no caller waits for it.
    fn stray(&mut self, server: ServerId, request: Request, at: Duration) {
        self.at(at, move |world| {
            let now = world.now;
            let found = &world.servers[server.0];
            if found.is_up && found.stalled_until <= now {
                let operation = &request.operation;
                // Its answer goes nowhere.
                drop(world.run_at_server(server, operation, request.with_source, true));
            }
        });
    }

    pub(crate) fn request_arrives(&mut self, link: usize) {
        let now = self.now;
        let found = &self.links[link];
        let (id, is_deaf) = (found.endpoint, found.is_deaf);
        if is_deaf || !self.servers[id.server.0].is_up {
            self.links[link].requests.pop_front();
            return;
        }
        let stalled = self.servers[id.server.0].stalled_until;
        let blocked = self.endpoint(id).requests_blocked_until;
        let free = stalled.max(blocked);
        if free > now {
            self.queue.push(free, Event::Request(link));
            return;
        }
        let Some(request) = self.links[link].requests.pop_front() else {
            return;
        };
        if self.chance.happens(self.rules.loses_request) {
            self.links[link].requests.push_front(request);
            self.cut(link);
            return;
        }
        // Its client has closed it, and cannot know.
        let is_stray = self.links[link].is_closed && self.links[link].has_stalled;
        let (operation, with_source) = (&request.operation, request.with_source);
        let answer = self.run_at_server(id.server, operation, with_source, is_stray);
        if answer.is_err() {
            // An undo is sent once, whatever its answer.
            self.lose_undos(id.server, &VecDeque::from([request]));
        }
        let loses_reply = self.chance.happens(self.rules.loses_reply);
        let way = self.way() + self.links[link].lag;
        let at = (now + way).max(self.links[link].last_reply_at);
        let found = &mut self.links[link];
        found.last_reply_at = at;
        found.replies.push_back(answer);
        self.queue.push(at, Event::Reply(link));
        if loses_reply {
            self.cut(link);
        }
    }

    pub(crate) fn reply_arrives(&mut self, link: usize) {
        let id = self.links[link].endpoint;
        let blocked = self.endpoint(id).replies_blocked_until;
        if blocked > self.now {
            self.queue.push(blocked, Event::Reply(link));
            return;
        }
        let found = &mut self.links[link];
        let Some(answer) = found.replies.pop_front() else {
            return;
        };
        if found.is_closed {
            self.refuse_reply(link);
        } else if let Some(waiting) = found.waiting.pop_front() {
            self.deliver(waiting, answer);
        }
    }
}
