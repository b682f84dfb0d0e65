//! Connections between clients and servers: links, and what goes over them in order.

mod cell;
mod connect;
mod cut;
mod doubt;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{NodeError, Operation, Reply};

use crate::sim::queue::Event;
use crate::sim::server::ServerId;
use crate::sim::tasks::ClientId;
use crate::sim::world::World;

pub(crate) use cell::Cell;

/// The client's end of the way to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointId {
    pub(crate) client: ClientId,
    pub(crate) server: ServerId,
}

/// How the network behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkRules {
    /// The usual way in one direction, and the longest.
    pub(crate) usual: Duration,
    pub(crate) longest: Duration,
    /// How likely it is that a connection breaks before a request runs, or behind it.
    pub(crate) loses_request: f64,
    pub(crate) loses_reply: f64,
    /// How likely it is that a request runs a second time.
    pub(crate) duplicates: f64,
    /// How likely it is that requests of a broken connection run later nevertheless.
    pub(crate) strays: f64,
}

impl Default for NetworkRules {
    fn default() -> Self {
        Self {
            usual: Duration::from_micros(200),
            longest: Duration::from_millis(2),
            loses_request: 0.0,
            loses_reply: 0.0,
            duplicates: 0.0,
            strays: 0.0,
        }
    }
}

/// A call's request, as it waits or travels.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) with_source: bool,
    /// Written behind a doubtful acquire when its connection was replaced.
    pub(crate) is_undo: bool,
    /// Whoever waits for the reply.
    pub(crate) cell: Option<Arc<Cell>>,
    pub(crate) number: u64,
}

#[derive(Debug)]
struct Answer {
    cell: Option<Arc<Cell>>,
    number: u64,
    result: Result<Reply, NodeError>,
}

/// One connection, from its making until it is forgotten.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: EndpointId,
    requests: VecDeque<Request>,
    replies: VecDeque<Answer>,
    /// Nothing arrives before what was sent earlier.
    last_request_at: Duration,
    last_reply_at: Duration,
    /// How much longer than usual each message takes.
    lag: Duration,
    next: u64,
    /// The client knows that it broke.
    is_broken: bool,
    /// The server closed it or never sees it again.
    is_deaf: bool,
    /// It went silent, and another was made in its stead.
    is_replaced: bool,
    /// Calls that were sent and given up before their answer, with the release that belongs
    /// behind an acquire.
    doubts: VecDeque<(u64, Option<Operation>)>,
    /// Calls in a row that got no answer.
    silent: u32,
}

/// The client's side of the way to one server.
#[derive(Debug, Default)]
pub(crate) struct Endpoint {
    link: Option<usize>,
    /// When a connect that runs was begun.
    connecting_since: Option<Duration>,
    waiting: VecDeque<Request>,
    no_connect_before: Duration,
    pub(crate) requests_blocked_until: Duration,
    pub(crate) replies_blocked_until: Duration,
    pub(crate) in_flight: usize,
    pub(crate) peak: usize,
    /// Whether any call was answered.
    pub(crate) has_answered: bool,
    /// When the last call failed.
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

impl World {
    pub(crate) fn endpoint(&mut self, id: EndpointId) -> &mut Endpoint {
        let index = id.index();
        if self.endpoints.len() <= index {
            self.endpoints.resize_with(index + 1, Endpoint::default);
        }
        &mut self.endpoints[index]
    }

    fn way(&mut self) -> Duration {
        let rules = self.rules;
        rules.usual / 4 + self.chance.heavy(rules.usual, rules.longest)
    }

    /// Sends a request, or lets it wait for the connect. An error says that it was not sent.
    pub(crate) fn call(&mut self, id: EndpointId, request: Request) -> Result<(), NodeError> {
        if let Some(link) = self.endpoint(id).link {
            self.send(link, request);
            return Ok(());
        }
        let now = self.now;
        let endpoint = self.endpoint(id);
        if endpoint.connecting_since.is_none() {
            if now < endpoint.no_connect_before {
                return Err(NodeError::not_sent("cannot connect, pausing"));
            }
            endpoint.connecting_since = Some(now);
            let round_trip = self.way() + self.way();
            self.queue.push(now + round_trip, Event::Connect(id));
        }
        self.endpoint(id).waiting.push_back(request);
        Ok(())
    }

    pub(crate) fn send(&mut self, link: usize, mut request: Request) {
        let way = self.way() + self.links[link].lag;
        let at = (self.now + way).max(self.links[link].last_request_at);
        let found = &mut self.links[link];
        request.number = found.next;
        found.next += 1;
        found.last_request_at = at;
        if let Some(cell) = &request.cell {
            let mut state = cell.state();
            state.sent = Some((link, request.number));
            state.silent = found.silent;
        }
        let server = found.endpoint.server;
        let double = request.clone();
        found.requests.push_back(request);
        self.queue.push(at, Event::Request(link));
        if self.chance.happens(self.rules.duplicates) {
            let later = self.chance.heavy(20 * self.rules.usual, self.rules.longest);
            self.stray(server, double, at + later);
        }
    }

    /// A request that runs at that moment though nobody waits for it.
    fn stray(&mut self, server: ServerId, request: Request, at: Duration) {
        self.at(at, move |world| {
            let now = world.now;
            let found = &world.servers[server.0];
            if found.is_up && found.stalled_until <= now {
                let operation = &request.operation;
                // Its reply goes nowhere.
                drop(world.run_at_server(server, operation, request.with_source, true));
            }
        });
    }

    pub(crate) fn request_arrives(&mut self, link: usize) {
        let now = self.now;
        let found = &self.links[link];
        let (id, is_deaf, is_broken) = (found.endpoint, found.is_deaf, found.is_broken);
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
        if !is_broken && self.chance.happens(self.rules.loses_request) {
            self.links[link].requests.push_front(request);
            self.cut(link);
            return;
        }
        let result = self.run_at_server(
            id.server,
            &request.operation,
            request.with_source,
            is_broken,
        );
        if request.is_undo && result.is_err() {
            // Nobody waits for its answer, so nobody sends it again.
            self.lose_undos(id.server, &VecDeque::from([request]));
            return;
        }
        if is_broken {
            return;
        }
        let loses_reply = self.chance.happens(self.rules.loses_reply);
        let way = self.way() + self.links[link].lag;
        let at = (now + way).max(self.links[link].last_reply_at);
        let found = &mut self.links[link];
        found.last_reply_at = at;
        found.replies.push_back(Answer {
            cell: request.cell,
            number: request.number,
            result,
        });
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
        // Replies come in order: who was sent before has had its turn.
        found.silent = 0;
        while found
            .doubts
            .front()
            .is_some_and(|(number, _)| *number <= answer.number)
        {
            found.doubts.pop_front();
        }
        if let Some(cell) = answer.cell {
            cell.complete(answer.result);
        }
    }
}
