//! One connection through the proxy.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::ProxyFault;
use super::frames::{Frames, Next, words};
use super::leg::{FULL, Got, Leg};
use super::pairing::{Outcome, Pairing};
use super::shared::Shared;
use super::words::is_handshake;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What happens to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    GoOn,
    Cut,
}

pub(super) struct Link {
    client: Option<Leg>,
    server: Option<Leg>,
    requests: Frames,
    replies: Frames,
    pairing: Pairing,
    /// Replies on their way to the client, with the instant at which they arrived.
    held: VecDeque<(Instant, Vec<u8>)>,
    replies_lost: bool,
    /// Bytes were lost, so none may follow.
    dead: bool,
}

impl Link {
    pub(super) fn open(client: TcpStream, target: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            client: Some(Leg::accepted(client)?),
            server: Some(Leg::dial(target)?),
            requests: Frames::of_requests(),
            replies: Frames::of_replies(),
            pairing: Pairing::default(),
            held: VecDeque::new(),
            replies_lost: false,
            dead: false,
        })
    }

    pub(super) fn has_client(&self) -> bool {
        self.client.as_ref().is_some_and(|client| !client.ended())
    }

    pub(super) fn leg(&self, side: Side) -> Option<&Leg> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }

    /// Returns whether bytes from this side are to be read now.
    pub(super) fn wants_read(&self, side: Side, shared: &Shared) -> bool {
        let has_room = || match side {
            Side::Client => self.server.as_ref().is_none_or(|leg| leg.waiting() < FULL),
            Side::Server => self.replies_waiting() < FULL,
        };
        self.leg(side).is_some_and(Leg::wants_read) && (self.vanishes(shared) || has_room())
    }

    /// Returns when the next reply that is held back is to be delivered.
    pub(super) fn next_due(&self, shared: &Shared) -> Option<Instant> {
        let (arrival, _) = self.held.front()?;
        shared.due(*arrival)
    }

    fn replies_waiting(&self) -> usize {
        let held: usize = self.held.iter().map(|(_, reply)| reply.len()).sum();
        held + self.client.as_ref().map_or(0, Leg::waiting)
    }

    fn vanishes(&self, shared: &Shared) -> bool {
        self.dead || shared.is_black_hole()
    }

    /// Lets both directions end here, without closing anything.
    pub(super) fn die(&mut self) {
        self.dead = true;
        self.held.clear();
        self.pairing.clear();
        for leg in [&mut self.client, &mut self.server].into_iter().flatten() {
            leg.clear();
        }
    }

    /// Does what [`die`](Self::die) does, if something is on its way.
    pub(super) fn die_if_in_flight(&mut self) {
        let to_server = self.server.as_ref().map_or(0, Leg::waiting);
        if to_server + self.replies_waiting() > 0 {
            self.die();
        }
    }

    /// From now on no reply is lost that has not been lost.
    pub(super) fn forgive(&mut self) {
        self.pairing.forgive();
    }

    /// Returns whether only the server's side is left, because the server did not notice that the
    /// client has closed.
    pub(super) fn is_orphan(&self) -> bool {
        self.dead && !self.has_client()
    }

    pub(super) fn read(&mut self, side: Side, buffer: &mut [u8], shared: &mut Shared) -> Fate {
        let leg = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let Some(leg) = leg else { return Fate::GoOn };
        match leg.read(buffer) {
            Got::Nothing => return Fate::GoOn,
            Got::Bytes(count) => {
                if self.vanishes(shared) {
                    self.die();
                }
                match side {
                    Side::Client => self.requests.push(&buffer[..count]),
                    Side::Server => self.replies.push(&buffer[..count]),
                }
            }
            Got::End => self.end(side, shared),
        }
        match side {
            Side::Client => self.handle_requests(shared),
            Side::Server => self.handle_replies(),
        }
    }

    /// Passes on as it is what was begun and is not whole.
    fn end(&mut self, side: Side, shared: &Shared) {
        let vanishes = self.vanishes(shared);
        match side {
            Side::Client => {
                let rest = self.requests.take_rest();
                if vanishes {
                    self.client = None;
                } else {
                    self.forward(&rest);
                }
            }
            Side::Server => {
                let rest = self.replies.take_rest();
                self.server = None;
                self.reply(rest);
            }
        }
    }

    fn handle_requests(&mut self, shared: &mut Shared) -> Fate {
        loop {
            match self.requests.next() {
                Next::Wait => return Fate::GoOn,
                Next::Raw(bytes) => self.forward_raw(&bytes),
                Next::Frame(frame) => match words(&frame) {
                    Some(words) => {
                        if self.handle_request(&frame, &words, shared) == Fate::Cut {
                            return Fate::Cut;
                        }
                    }
                    None => {
                        self.requests.make_raw();
                        self.forward_raw(&frame);
                    }
                },
            }
        }
    }

    fn handle_request(&mut self, frame: &[u8], words: &[Vec<u8>], shared: &mut Shared) -> Fate {
        let Some(name) = words.first() else {
            // An empty request has no reply.
            self.forward(frame);
            return Fate::GoOn;
        };
        // Also for a connection that is already dead.
        shared.record.add(words.to_vec());
        if self.dead {
            return Fate::GoOn;
        }
        let outcome = match &shared.fault {
            _ if is_handshake(name) => Outcome::Pass,
            Some(ProxyFault::CutAfterRequest) => {
                shared.fault = None;
                return Fate::Cut;
            }
            Some(ProxyFault::CutBeforeReply) => {
                shared.fault = None;
                Outcome::Cut
            }
            Some(ProxyFault::LoseReply) => {
                shared.fault = None;
                Outcome::Lose
            }
            Some(ProxyFault::Answer(answer)) => Outcome::Answer(answer.clone()),
            _ => Outcome::Pass,
        };
        if !matches!(outcome, Outcome::Answer(_)) {
            self.forward(frame);
        }
        self.pairing.add(name, outcome);
        self.answer();
        Fate::GoOn
    }

    fn handle_replies(&mut self) -> Fate {
        loop {
            match self.replies.next() {
                Next::Wait => return Fate::GoOn,
                Next::Raw(bytes) => self.reply(bytes),
                Next::Frame(frame) => match self.pairing.outcome_of(&frame) {
                    Outcome::Cut => return Fate::Cut,
                    Outcome::Lose => self.replies_lost = true,
                    Outcome::Pass | Outcome::Answer(_) => {
                        self.reply(frame);
                        self.answer();
                    }
                },
            }
        }
    }

    /// Gives the proxy's own answers whose turn it is.
    fn answer(&mut self) {
        while let Some(answer) = self.pairing.next_answer() {
            self.reply(answer);
        }
    }

    fn forward(&mut self, bytes: &[u8]) {
        if let (Some(server), false) = (&mut self.server, self.dead) {
            server.push(bytes);
        }
    }

    fn forward_raw(&mut self, bytes: &[u8]) {
        self.replies.make_raw();
        self.forward(bytes);
    }

    fn reply(&mut self, bytes: Vec<u8>) {
        let arrives = self.client.is_some() && !self.replies_lost && !self.dead;
        if arrives && !bytes.is_empty() {
            self.held.push_back((Instant::now(), bytes));
        }
    }

    /// Writes what can and may be written, and closes what is to be closed. Returns whether anything
    /// is left of the connection.
    pub(super) fn write(&mut self, now: Instant, shared: &Shared) -> bool {
        self.write_to(Side::Client, false, now, shared);
        self.write_to(Side::Server, false, now, shared);
        if self.vanishes(shared) {
            return self.has_client() || self.server.is_some();
        }
        if self.server.is_none() {
            return self.client.is_some() && self.replies_waiting() > 0;
        }
        true
    }

    pub(super) fn write_to(
        &mut self,
        side: Side,
        is_writable: bool,
        now: Instant,
        shared: &Shared,
    ) {
        let vanishes = self.vanishes(shared);
        let client_ended = !self.has_client();
        match (side, &mut self.client, &mut self.server) {
            (Side::Client, Some(client), _) => {
                while let Some((arrival, reply)) = self.held.front() {
                    if shared.due(*arrival).is_none_or(|due| due > now) {
                        break;
                    }
                    client.push(reply);
                    self.held.pop_front();
                }
                // The client has gone without reading its replies.
                if client.write(is_writable).is_err() {
                    self.client = None;
                    self.held.clear();
                }
            }
            (Side::Server, _, Some(server)) => {
                let mut written = server.write(is_writable);
                if client_ended && !vanishes {
                    written = written.and_then(|()| server.finish_writes());
                }
                // The server may have answered before the connection broke, and that is still to be read.
                if written.is_err() && !server.only_reads() {
                    self.server = None;
                }
            }
            _ => {}
        }
    }

    /// Closes both sides. Bytes that have come before and may pass are still delivered.
    pub(super) fn cut(mut self, shared: &Shared) {
        // The turn may have begun before the latest reply came.
        let now = Instant::now();
        self.write_to(Side::Client, false, now, shared);
        self.write_to(Side::Server, false, now, shared);
    }
}
