//! The events to come, by true time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use futures::channel::oneshot;

use super::network::{Dial, EndpointId};
use super::world::World;

/// An event that happens at a moment.
pub(crate) enum Event {
    /// A timer of a client has run out.
    Timer(oneshot::Sender<()>),
    /// The next request of a link reaches the server.
    Request(usize),
    /// The next reply of a link reaches the client.
    Reply(usize),
    /// A connect succeeds or fails, or waits on.
    Connect(EndpointId, Dial),
    /// Any other change of the world.
    Act(Box<dyn FnOnce(&mut World) + Send>),
}

impl Event {
    /// Returns a number for the hash of events.
    pub(crate) fn code(&self) -> u64 {
        match self {
            Self::Timer(_) => 1,
            Self::Request(link) => 2 + ((*link as u64) << 8),
            Self::Reply(link) => 3 + ((*link as u64) << 8),
            Self::Connect(endpoint, _) => 4 + ((endpoint.index() as u64) << 8),
            Self::Act(_) => 5,
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.code())
    }
}

/// Events in the order in which they happen; those of one moment in the order in which they were
/// pushed.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    at: Duration,
    number: u64,
    event: Event,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: Duration, event: Event) {
        let number = self.next;
        self.next += 1;
        self.heap.push(Entry { at, number, event });
    }

    /// Takes the next event if it happens no later than `limit`.
    pub(crate) fn pop(&mut self, limit: Duration) -> Option<(Duration, Event)> {
        if self.heap.peek()?.at > limit {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }

    pub(crate) fn take_all(&mut self) -> Vec<Event> {
        self.heap.drain().map(|entry| entry.event).collect()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap hands out the greatest first.
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}
