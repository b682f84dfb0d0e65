//! How connections are made.

use std::collections::VecDeque;
use std::time::Duration;

use futures::channel::oneshot;
use lock_core::node::NodeError;

use super::{EndpointId, Link};
use crate::sim::coverage::Mark;
use crate::sim::queue::Event;
use crate::sim::world::World;

/// Where the client waits for a connect to succeed or fail.
pub(crate) type Dial = oneshot::Sender<Result<Line, NodeError>>;

/// A connection that was made.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) link: usize,
    pub(super) broken: oneshot::Receiver<NodeError>,
}

impl World {
    pub(super) fn dial(&mut self, id: EndpointId) -> oneshot::Receiver<Result<Line, NodeError>> {
        let (dial, line) = oneshot::channel();
        let round_trip = self.way() + self.way();
        self.queue
            .push(self.now + round_trip, Event::Connect(id, dial));
        line
    }

    pub(crate) fn connect_goes_on(&mut self, id: EndpointId, dial: Dial) {
        if dial.is_canceled() {
            return;
        }
        let server = &self.servers[id.server.0];
        let (is_up, stalled) = (server.is_up, server.stalled_until);
        let endpoint = self.endpoint(id);
        let mut free = endpoint
            .requests_blocked_until
            .max(endpoint.replies_blocked_until);
        if is_up {
            free = free.max(stalled);
        }
        if free > self.now {
            // The client hears nothing until then.
            self.queue.push(free, Event::Connect(id, dial));
        } else if is_up {
            let line = self.connected(id);
            self.deliver(dial, Ok(line));
        } else {
            self.deliver(dial, Err(NodeError::not_sent("connection refused")));
        }
    }

    fn connected(&mut self, id: EndpointId) -> Line {
        self.mark(Mark::Connected);
        let (sender, broken) = oneshot::channel();
        let link = self.links.len();
        self.links.push(Link {
            endpoint: id,
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            waiting: VecDeque::new(),
            last_request_at: Duration::ZERO,
            last_reply_at: Duration::ZERO,
            lag: Duration::ZERO,
            broken: Some(sender),
            task: None,
            unwritten: VecDeque::new(),
            has_stalled: false,
            is_deaf: false,
            is_closed: false,
        });
        let (client, server) = (id.client.0, id.server.0);
        self.note(|| format!("connection {link} of client {client} to node {server} is up"));
        let before = self.endpoint(id).link.replace(link);
        if before.is_some_and(|before| !self.links[before].is_broken()) {
            // Only a client that gave up a silent connection makes another one beside it.
            self.mark(Mark::Replaced);
        }
        Line { link, broken }
    }
}
