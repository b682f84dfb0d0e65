//! Calls that end without their answer, and connections that are replaced because of them (N12).

use lock_core::node::Operation;

use super::Request;
use crate::sim::marks::Mark;
use crate::sim::world::World;

/// How many calls in a row may go unanswered before a connection counts as hung: as in the
/// backends.
const SILENT_CALLS: u32 = 3;

impl World {
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
