//! How connections end, and what becomes of what is on its way.

use std::collections::VecDeque;
use std::time::Duration;

use lock_core::node::NodeError;

use super::{EndpointId, Link, Request};
use crate::sim::coverage::Mark;
use crate::sim::operation::locks_of;
use crate::sim::server::ServerId;
use crate::sim::world::World;

impl World {
    /// Breaks a connection, and tells the client. What is under way towards the server is lost, or
    /// sometimes runs later; replies are lost.
    pub(crate) fn cut(&mut self, link: usize) {
        let found = &mut self.links[link];
        let Some(broken) = found.broken.take() else {
            return;
        };
        found.replies.clear();
        let server = found.endpoint.server;
        let waiting = std::mem::take(&mut found.waiting);
        let requests = std::mem::take(&mut found.requests);
        self.lose_unwritten(link);
        self.note(|| format!("connection {link} breaks"));
        for waiting in waiting {
            self.deliver(waiting, Err(NodeError::connection("the connection broke")));
        }
        self.deliver(broken, NodeError::connection("connection reset"));
        self.lose_undos(server, &requests);
        if self.chance.happens(self.rules.strays) {
            let later = self.chance.heavy(20 * self.rules.usual, self.rules.longest);
            for request in requests {
                self.stray(server, request, self.now + later);
            }
        }
    }

    /// Closes a connection on the client's side. What was written arrives nevertheless, unless the
    /// server learns first that its replies are refused.
    pub(super) fn close(&mut self, link: usize) {
        self.links[link].is_closed = true;
        self.lose_unwritten(link);
        self.note(|| format!("connection {link} is closed"));
    }

    /// What was not written is lost. Calls that wait for its answers are told by the keeper.
    fn lose_unwritten(&mut self, link: usize) {
        let found = &mut self.links[link];
        let (server, unwritten) = (found.endpoint.server, std::mem::take(&mut found.unwritten));
        let requests = unwritten.into_iter().map(|(_, request, _)| request);
        self.lose_undos(server, &requests.collect());
    }

    /// Refuses a reply to a connection that the client has closed. When the server hears of that,
    /// it drops what it has not run.
    pub(super) fn refuse_reply(&mut self, link: usize) {
        let way = self.way();
        self.after(way, move |world| world.forget_requests(link));
    }

    fn forget_requests(&mut self, link: usize) {
        let found = &mut self.links[link];
        let server = found.endpoint.server;
        let requests = std::mem::take(&mut found.requests);
        self.lose_undos(server, &requests);
    }

    /// Records that requests are lost. If a release that was written behind a doubtful acquire is
    /// among them (N12), and the acquire has run, no client can know of the key.
    pub(super) fn lose_undos(&mut self, server: ServerId, requests: &VecDeque<Request>) {
        for request in requests.iter().filter(|request| request.is_undo) {
            for (token, keys) in locks_of(&request.operation) {
                for key in keys {
                    if self.servers[server.0].facts.excuse(key, &token) {
                        self.mark(Mark::Ghost);
                    }
                }
            }
        }
    }

    /// Returns the links that did not break. An endpoint may have several: replaced ones linger.
    pub(crate) fn links_of(&self, matches: impl Fn(EndpointId) -> bool) -> Vec<usize> {
        let is_of = |(_, link): &(usize, &Link)| !link.is_broken() && matches(link.endpoint);
        let found = self.links.iter().enumerate().filter(is_of);
        found.map(|(number, _)| number).collect()
    }

    /// Makes all that is sent on the connection from now on take this much longer.
    pub(crate) fn lag(&mut self, link: usize, lag: Duration) {
        self.links[link].lag = lag;
    }

    /// Makes the server's end of a connection vanish without a word.
    pub(crate) fn deafen(&mut self, link: usize) {
        let found = &mut self.links[link];
        found.is_deaf = true;
        found.replies.clear();
        self.forget_requests(link);
    }
}
