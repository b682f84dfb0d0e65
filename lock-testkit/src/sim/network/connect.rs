//! How connections are made.

use std::collections::VecDeque;
use std::time::Duration;

use lock_core::node::NodeError;

use super::{EndpointId, Link, Request};
use crate::sim::marks::Mark;
use crate::sim::queue::Event;
use crate::sim::world::World;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_millis(250);

impl World {
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
}
