//! Connections between clients and servers: links, and what goes over them in order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use lock_core::node::{NodeError, Operation, Reply};

use super::locked;
use super::marks::Mark;
use super::queue::Event;
use super::server::ServerId;
use super::tasks::ClientId;
use super::world::World;

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

/// What a call shares with the network.
#[derive(Debug)]
pub(crate) struct Cell(Mutex<CellState>);

#[derive(Debug)]
pub(crate) struct CellState {
    pub(crate) result: Option<Result<Reply, NodeError>>,
    pub(crate) waker: Option<Waker>,
    /// The link and its number there, once the request was sent.
    pub(crate) sent: Option<(usize, u64)>,
    /// How many calls in a row had no answer when it was sent.
    pub(crate) silent: u32,
    pub(crate) is_over: bool,
}

impl Cell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(CellState {
            result: None,
            waker: None,
            sent: None,
            silent: 0,
            is_over: false,
        })))
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, CellState> {
        locked(&self.0)
    }

    fn complete(&self, result: Result<Reply, NodeError>) {
        let mut state = self.state();
        if state.is_over || state.result.is_some() {
            return;
        }
        state.result = Some(result);
        if let Some(waker) = state.waker.take() {
            waker.wake();
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

/// How many calls in a row may go unanswered before a connection counts as hung: as in the
/// backends.
const SILENT_CALLS: u32 = 3;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_millis(250);

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
        self.client.0 * super::ledger::MAX_SERVERS + self.server.0
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

    pub(crate) fn connect_goes_on(&mut self, id: EndpointId) {
        let now = self.now;
        let Some(since) = self.endpoint(id).connecting_since else {
            return;
        };
        let server = &self.servers[id.server.0];
        let (is_up, stalled) = (server.is_up, server.stalled_until);
        let endpoint = self.endpoint(id);
        let free = endpoint
            .requests_blocked_until
            .max(endpoint.replies_blocked_until)
            .max(stalled);
        let timeout = since + CONNECT_TIMEOUT;
        if is_up && free > now && timeout > now {
            self.queue.push(free.min(timeout), Event::Connect(id));
            return;
        }
        let endpoint = self.endpoint(id);
        endpoint.connecting_since = None;
        let waiting = std::mem::take(&mut endpoint.waiting);
        if is_up && free <= now {
            self.connected(id, waiting);
            return;
        }
        let backoff = self.chance.duration(LONGEST_BACKOFF / 5, LONGEST_BACKOFF);
        self.endpoint(id).no_connect_before = now + backoff;
        for request in waiting {
            if let Some(cell) = request.cell {
                cell.complete(Err(NodeError::not_sent("cannot connect")));
            }
        }
    }

    fn connected(&mut self, id: EndpointId, waiting: VecDeque<Request>) {
        self.mark(Mark::Connected);
        let link = self.links.len();
        self.links.push(Link {
            endpoint: id,
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            last_request_at: Duration::ZERO,
            last_reply_at: Duration::ZERO,
            lag: Duration::ZERO,
            next: 0,
            is_broken: false,
            is_deaf: false,
            is_replaced: false,
            doubts: VecDeque::new(),
            silent: 0,
        });
        self.endpoint(id).link = Some(link);
        for request in waiting {
            let left = request
                .cell
                .as_ref()
                .is_some_and(|cell| cell.state().is_over);
            if !left {
                self.send(link, request);
            }
        }
    }

    /// A connection breaks, and the client learns it. What is under way towards the server is lost
    /// or, sometimes, runs later; replies are lost.
    pub(crate) fn cut(&mut self, link: usize) {
        let found = &mut self.links[link];
        if found.is_broken {
            return;
        }
        found.is_broken = true;
        let id = found.endpoint;
        let replies = std::mem::take(&mut found.replies);
        let mut requests = std::mem::take(&mut found.requests);
        found.doubts.clear();
        let endpoint = self.endpoint(id);
        if endpoint.link == Some(link) {
            endpoint.link = None;
        }
        self.note(|| {
            format!(
                "the connection of {} to node {} breaks",
                id.client.0, id.server.0
            )
        });
        let cells = requests
            .iter_mut()
            .filter_map(|request| request.cell.take())
            .chain(replies.into_iter().filter_map(|answer| answer.cell))
            .collect::<Vec<_>>();
        for cell in cells {
            cell.complete(Err(NodeError::connection("the connection broke")));
        }
        self.lose_undos(id.server, &requests);
        if self.chance.happens(self.rules.strays) {
            let later = self.chance.heavy(20 * self.rules.usual, self.rules.longest);
            for request in requests {
                self.stray(id.server, request, self.now + later);
            }
        }
    }

    /// Requests are lost. Where a release that was written behind a doubtful acquire is among them
    /// (N12), and the acquire has run, nobody can know of the key.
    fn lose_undos(&mut self, server: ServerId, requests: &VecDeque<Request>) {
        for request in requests.iter().filter(|request| request.is_undo) {
            if let Operation::Release { key, token, .. } = &request.operation
                && let Some(fact) = self.servers[server.0].facts.get_mut(&key[..])
                && fact.token == *token
            {
                fact.is_ghost = true;
                self.mark(Mark::Ghost);
            }
        }
    }

    /// The links of an endpoint that the client has not seen break, if any. There may be several:
    /// replaced ones linger.
    pub(crate) fn links_of(&self, matches: impl Fn(EndpointId) -> bool) -> Vec<usize> {
        let is_of = |(_, link): &(usize, &Link)| !link.is_broken && matches(link.endpoint);
        let found = self.links.iter().enumerate().filter(is_of);
        found.map(|(number, _)| number).collect()
    }

    /// Whatever is sent on the connection from now on takes so much longer.
    pub(crate) fn lag(&mut self, link: usize, lag: Duration) {
        self.links[link].lag = lag;
    }

    /// The server's end of a connection vanishes without a word.
    pub(crate) fn deafen(&mut self, link: usize) {
        let found = &mut self.links[link];
        found.is_deaf = true;
        found.replies.clear();
        let server = found.endpoint.server;
        let requests = std::mem::take(&mut found.requests);
        self.lose_undos(server, &requests);
    }

    /// A call that was sent ends without its answer: its time is over or its caller is gone.
    pub(crate) fn give_up(
        &mut self,
        (link, number): (usize, u64),
        silent: u32,
        operation: &Operation,
        timed_out: bool,
    ) {
        let found = &mut self.links[link];
        if found.is_broken {
            return;
        }
        let client = found.endpoint.client;
        let undo = operation.undo();
        if self.clients[client.0].is_dead {
            return;
        }
        let found = &mut self.links[link];
        if found.is_replaced {
            self.send_undo(link, undo);
            return;
        }
        let after = found.doubts.iter().rposition(|(other, _)| *other < number);
        let place = after.map_or(0, |place| place + 1);
        found.doubts.insert(place, (number, undo));
        // Calls that time out in one stall of the server are one sign of a hung connection.
        if timed_out && found.silent == silent {
            found.silent += 1;
            if found.silent >= SILENT_CALLS {
                self.replace(link);
            }
        }
    }

    /// Lets a silent connection go, behind the releases that belong behind its doubtful acquires.
    fn replace(&mut self, link: usize) {
        let found = &mut self.links[link];
        found.is_replaced = true;
        let id = found.endpoint;
        let doubts = std::mem::take(&mut found.doubts);
        self.endpoint(id).link = None;
        self.mark(Mark::Replaced);
        self.note(|| {
            format!(
                "{} replaces its connection to node {}",
                id.client.0, id.server.0
            )
        });
        for (_, undo) in doubts {
            self.send_undo(link, undo);
        }
    }

    fn send_undo(&mut self, link: usize, undo: Option<Operation>) {
        let Some(operation) = undo else {
            return;
        };
        self.mark(Mark::Undone);
        let request = Request {
            operation,
            with_source: true,
            is_undo: true,
            cell: None,
            number: 0,
        };
        self.send(link, request);
    }
}
