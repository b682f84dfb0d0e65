//! What operators are told of nodes: one event after the other, in the order in which they happened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::SystemTime;

use super::protocol::Quorum;
use crate::node::NodeError;
use crate::sync::locked;

/// An event of a node, or of all of them together.
#[derive(Debug)]
pub(crate) enum Item {
    Down { node: usize, error: NodeError },
    Up { node: usize },
    OutOfReach { up: usize },
    Back,
}

/// Counts the nodes that are down, and keeps the events until they are told.
///
/// An event is noted in the same critical section in which the health of its node changes, and told later, under
/// no mutex, by the one thread that has the turn. A slow observer delays what follows, and holds up nobody else.
#[derive(Debug, Default)]
pub(crate) struct News {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The nodes that are down, and since when, once that is known.
    down: BTreeMap<usize, Option<SystemTime>>,
    untold: VecDeque<Item>,
    is_being_told: bool,
}

/// The turn to tell one event, which ends with it.
struct Turn<'a> {
    news: &'a News,
    item: Item,
}

impl News {
    /// A node that was up is down. To be called under the mutex of its health.
    pub(crate) fn went_down(&self, node: usize, error: NodeError, quorum: Quorum) {
        let state = &mut *locked(&self.state);
        let before = state.down.len();
        state.down.insert(node, None);
        state.untold.push_back(Item::Down { node, error });
        let down = state.down.len();
        if quorum.blocked(down) && !quorum.blocked(before) {
            let up = quorum.nodes().saturating_sub(down);
            state.untold.push_back(Item::OutOfReach { up });
        }
    }

    /// A node that was down is up. To be called under the mutex of its health.
    pub(crate) fn came_up(&self, node: usize, quorum: Quorum) {
        let state = &mut *locked(&self.state);
        let before = state.down.len();
        state.down.remove(&node);
        state.untold.push_back(Item::Up { node });
        if quorum.blocked(before) && !quorum.blocked(state.down.len()) {
            state.untold.push_back(Item::Back);
        }
    }

    /// When the node [went down](Self::went_down). No clock is read under the mutex of its health.
    pub(crate) fn went_down_at(&self, node: usize, at: SystemTime) {
        if let Some(since) = locked(&self.state).down.get_mut(&node) {
            *since = Some(at);
        }
    }

    /// Since when the node is down, if it is.
    pub(crate) fn down_since(&self, node: usize) -> Option<SystemTime> {
        locked(&self.state).down.get(&node).copied().flatten()
    }

    /// Tells what was not told yet, unless somebody else is at it, who goes on with the rest. To be called under
    /// no mutex.
    pub(crate) fn tell(&self, tell: impl Fn(&Item)) {
        while let Some(turn) = self.next() {
            tell(&turn.item);
        }
    }

    fn next(&self) -> Option<Turn<'_>> {
        let state = &mut *locked(&self.state);
        if state.is_being_told {
            return None;
        }
        let item = state.untold.pop_front()?;
        state.is_being_told = true;
        Some(Turn { news: self, item })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        locked(&self.news.state).is_being_told = false;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn name(item: &Item) -> String {
        match item {
            Item::Down { node, .. } => format!("{node} down"),
            Item::Up { node } => format!("{node} up"),
            Item::OutOfReach { up } => format!("{up} left"),
            Item::Back => "back".to_owned(),
        }
    }

    #[test]
    fn what_happens_while_an_event_is_told_is_told_behind_it() {
        let (news, quorum) = (News::default(), Quorum::majority(3));
        let refused = || NodeError::connection("refused");
        let told = RefCell::new(Vec::new());
        news.went_down(0, refused(), quorum);
        news.tell(|item| {
            if told.borrow().is_empty() {
                news.went_down(1, refused(), quorum);
                news.came_up(0, quorum);
                news.tell(|_| panic!("it has the turn"));
            }
            told.borrow_mut().push(name(item));
        });
        assert_eq!(
            told.into_inner(),
            ["0 down", "1 down", "1 left", "0 up", "back"]
        );
    }

    #[test]
    fn a_listener_that_panics_gives_its_turn_back() {
        let (news, quorum) = (News::default(), Quorum::majority(1));
        news.went_down(0, NodeError::connection("refused"), quorum);
        let panics = || news.tell(|_| panic!("a bug in a subscriber"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        let told = RefCell::new(Vec::new());
        news.tell(|item| told.borrow_mut().push(name(item)));
        assert_eq!(told.into_inner(), ["0 left"]);
    }
}
