//! Pairs the replies of a connection with its requests.

use std::collections::VecDeque;

use super::words::{Kind, is_subscription, kind_of};

/// What happens to the reply to a request.
pub(super) enum Outcome {
    Pass,
    Cut,
    Lose,
    /// There will be none, because the request was not passed on. It is answered with this.
    Answer(Vec<u8>),
}

/// The requests that have no answer yet, in order.
#[derive(Default)]
pub(super) struct Pairing {
    requests: VecDeque<Request>,
    /// Whether messages may come, from now on.
    subscribed: bool,
}

struct Request {
    outcome: Outcome,
    is_subscription: bool,
}

impl Pairing {
    /// Notes that the client has sent a request of this name.
    pub(super) fn add(&mut self, name: &[u8], outcome: Outcome) {
        let is_subscription = is_subscription(name);
        self.subscribed |= is_subscription;
        self.requests.push_back(Request {
            outcome,
            is_subscription,
        });
    }

    /// Returns what happens to this frame from the server.
    pub(super) fn outcome_of(&mut self, frame: &[u8]) -> Outcome {
        let is_a_reply = match kind_of(frame, self.subscribed) {
            Kind::Reply => true,
            Kind::Confirmation => self.requests.front().is_some_and(|r| r.is_subscription),
            Kind::Message => false,
        };
        let request = is_a_reply.then(|| self.requests.pop_front()).flatten();
        request.map_or(Outcome::Pass, |request| request.outcome)
    }

    /// Returns an answer of the proxy itself whose turn it is.
    pub(super) fn next_answer(&mut self) -> Option<Vec<u8>> {
        let Outcome::Answer(answer) = &mut self.requests.front_mut()?.outcome else {
            return None;
        };
        let answer = std::mem::take(answer);
        self.requests.pop_front();
        Some(answer)
    }

    /// From now on no reply is lost.
    pub(super) fn forgive(&mut self) {
        for Request { outcome, .. } in &mut self.requests {
            if matches!(outcome, Outcome::Cut | Outcome::Lose) {
                *outcome = Outcome::Pass;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
    }
}
