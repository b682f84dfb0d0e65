//! The calls in flight on one connection, and their deadlines.
//!
//! A timer for each call costs more than the rest of the keeper, and is nearly always cancelled. So a
//! call that waits leaves its waker here, and the task of the connection wakes those that are
//! overdue. The task sleeps until the earliest deadline that it saw; a call wakes it only if its own
//! deadline is earlier than that.

use std::task::Waker;
use std::time::Duration;

use slab::Slab;

use super::doubts::Marks;

#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Slab<Slot>,
    /// When the task looks here next; `None` if it does not know of any deadline.
    next_look: Option<Duration>,
    /// The shortest wait that began since the task's last look.
    shortest: Option<Duration>,
}

#[derive(Debug)]
struct Slot {
    /// `None` if the call was woken because it is overdue.
    waker: Option<Waker>,
    /// `None` if it is beyond the end of the clock, or was noticed.
    deadline: Option<Duration>,
    marks: Marks,
}

impl Calls {
    /// Returns the slot of the new call, and whether the task has to look earlier because of it.
    pub(super) fn enter(
        &mut self,
        now: Duration,
        within: Duration,
        waker: Waker,
        marks: Marks,
    ) -> (usize, bool) {
        let deadline = now.checked_add(within);
        let index = self.slots.insert(Slot {
            waker: Some(waker),
            deadline,
            marks,
        });
        self.shortest = earlier(self.shortest, Some(within));
        let is_earlier = deadline.is_some_and(|at| self.next_look.is_none_or(|next| at < next));
        if is_earlier {
            self.next_look = deadline;
        }
        (index, is_earlier)
    }

    /// The waker of a call that may go on waiting; `None` if it is overdue.
    pub(super) fn waker(&mut self, index: usize) -> Option<&mut Waker> {
        self.slots.get_mut(index)?.waker.as_mut()
    }

    pub(super) fn marks(&self, index: usize) -> Marks {
        let slot = self.slots.get(index);
        slot.map(|slot| slot.marks).unwrap_or_default()
    }

    /// The call is over. Its waker is foreign code, and is to be dropped outside of any lock.
    pub(super) fn leave(&mut self, index: usize) -> (Marks, Option<Waker>) {
        let slot = self.slots.try_remove(index);
        slot.map_or_else(Default::default, |slot| (slot.marks, slot.waker))
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Marks the calls that are overdue, and finds out when to look again. Returns their wakers.
    pub(super) fn look(&mut self, now: Duration) -> (Vec<Waker>, Option<Duration>) {
        let mut overdue = Vec::new();
        let mut next = None;
        for (_, slot) in &mut self.slots {
            match slot.deadline {
                Some(deadline) if deadline <= now => {
                    slot.deadline = None;
                    overdue.extend(slot.waker.take());
                }
                deadline => next = earlier(next, deadline),
            }
        }
        // Calls come and go faster than deadlines pass: as long as there were some, the task looks
        // again, so that a lonely call does not have to wake it.
        let shortest = self.shortest.take();
        self.next_look = next.or(shortest.and_then(|within| now.checked_add(within)));
        (overdue, self.next_look)
    }

    /// Takes the wakers of all calls that wait: no answer will come any more.
    pub(super) fn end(&mut self) -> Vec<Waker> {
        let wakers = self.slots.iter_mut();
        wakers.filter_map(|(_, slot)| slot.waker.take()).collect()
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn enter(calls: &mut Calls, now: Duration, within: Duration) -> (usize, bool) {
        calls.enter(now, within, Waker::noop().clone(), Marks::default())
    }

    #[test]
    fn the_task_is_woken_for_the_earliest_deadline_alone() {
        let mut calls = Calls::default();
        let (first, wakes) = enter(&mut calls, MS, 100 * MS);
        assert!(wakes);
        assert!(!enter(&mut calls, 2 * MS, 100 * MS).1);
        assert!(enter(&mut calls, 2 * MS, 10 * MS).1);
        assert!(!enter(&mut calls, 2 * MS, Duration::MAX).1, "it never ends");
        assert_eq!(calls.in_flight(), 4);
        calls.leave(first);
        assert_eq!(calls.in_flight(), 3);
        assert!(!enter(&mut calls, 3 * MS, 100 * MS).1);
    }

    #[test]
    fn a_look_finds_what_is_overdue_and_the_next_deadline() {
        let mut calls = Calls::default();
        let (long, _) = enter(&mut calls, MS, 100 * MS);
        let (short, _) = enter(&mut calls, MS, 10 * MS);
        let (endless, _) = enter(&mut calls, MS, Duration::MAX);
        let (overdue, next) = calls.look(10 * MS);
        assert!(overdue.is_empty());
        assert_eq!(next, Some(11 * MS));
        let (overdue, next) = calls.look(11 * MS);
        assert_eq!(overdue.len(), 1);
        assert_eq!(next, Some(101 * MS));
        assert!(calls.waker(short).is_none());
        assert!(calls.waker(long).is_some() && calls.waker(endless).is_some());
        assert_eq!(calls.end().len(), 2);
        assert!(calls.waker(long).is_none());
    }

    #[test]
    fn while_calls_come_and_go_the_task_looks_by_itself_and_then_rests() {
        let mut calls = Calls::default();
        let (call, _) = enter(&mut calls, MS, 10 * MS);
        calls.leave(call);
        assert_eq!(calls.look(11 * MS).1, Some(21 * MS));
        assert!(!enter(&mut calls, 12 * MS, 10 * MS).1);
        calls.leave(0);
        assert_eq!(calls.look(21 * MS).1, Some(31 * MS));
        assert_eq!(calls.look(31 * MS).1, None);
    }
}
