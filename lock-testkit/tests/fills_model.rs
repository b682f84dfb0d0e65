//! The rule by which nodes that missed a lock get its key while it is held, as a model of a few lines: every
//! interleaving of acquires, fills, releases, expiry and restarts of three nodes, with messages that
//! take any time and arrive in any order. One that takes for ever is one that was lost.

use std::collections::HashSet;

const NODES: usize = 3;
const QUORUM: usize = 2;
/// The node that has missed the first lock.
const MISSED: usize = 2;
const LOCKS: usize = 2;
const TTL: u8 = 2;
const END: u8 = 4;

/// A part of the rule that is left out, to see that its absence shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// A fill sets the key only if it is absent.
    Absence,
    /// A fill that was carried out behind the release is released.
    ReleaseBehind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Word {
    Acquire,
    Fill { ttl: u8 },
    Release,
}

/// A message under way: what, of which lock, to which node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    word: Word,
    lock: usize,
    node: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asking,
    Held,
    Over,
}

/// One acquisition, as its client sees it. Nodes are bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Lock {
    phase: Phase,
    started: u8,
    granted: u8,
    refused: u8,
    is_filled: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    /// The lock whose key each node has, and when it expires.
    nodes: [Option<(usize, u8)>; NODES],
    locks: [Lock; LOCKS],
    /// In order, so that equal states are equal.
    messages: Vec<Message>,
    restarts: u8,
    /// A node forgot a lock of which there was no spare copy.
    is_bare_forgotten: bool,
}

/// What was found wrong.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// A lock that is valid has no quorum of keys, so that another one can be won.
    Undone,
    KeyLeft,
}

/// Adds the state that a change leads to.
type Step<'a> = dyn FnMut(&dyn Fn(&mut State)) + 'a;

fn bit(node: usize) -> u8 {
    1 << node
}

impl State {
    /// The first lock was won by two nodes, and the third has not got its command yet, or never does. Which ones
    /// these are does not matter.
    fn first(restarts: u8) -> Self {
        let idle = Lock {
            phase: Phase::Idle,
            started: 0,
            granted: 0,
            refused: 0,
            is_filled: false,
        };
        let held = Lock {
            phase: Phase::Held,
            granted: bit(0) | bit(1),
            ..idle
        };
        let mut state = Self {
            now: 0,
            nodes: [Some((0, TTL)), Some((0, TTL)), None],
            locks: [held, idle],
            messages: Vec::new(),
            restarts,
            is_bare_forgotten: false,
        };
        state.send(Word::Acquire, 0, MISSED);
        state
    }

    fn send(&mut self, word: Word, lock: usize, node: usize) {
        let message = Message { word, lock, node };
        // One that is under way already says the same.
        if let Err(place) = self.messages.binary_search(&message) {
            self.messages.insert(place, message);
        }
    }

    fn is_valid(&self, lock: usize) -> bool {
        let Lock { phase, started, .. } = self.locks[lock];
        phase == Phase::Held && self.now < started + TTL
    }

    fn copies(&self, lock: usize) -> usize {
        let is_copy = |key: &&Option<(usize, u8)>| key.is_some_and(|(owner, _)| owner == lock);
        self.nodes.iter().filter(is_copy).count()
    }

    fn end(&mut self, lock: usize) {
        self.locks[lock].phase = Phase::Over;
        (0..NODES).for_each(|node| self.send(Word::Release, lock, node));
    }

    /// The message arrives. Returns whether the node has granted, where that is asked.
    fn arrive(&mut self, message: Message, without: Without) -> Option<bool> {
        let Message { word, lock, node } = message;
        let key = &mut self.nodes[node];
        let is_own = key.is_some_and(|(owner, _)| owner == lock);
        let ttl = match word {
            Word::Release => {
                if is_own {
                    *key = None;
                }
                return None;
            }
            Word::Acquire => TTL,
            Word::Fill { ttl } => ttl,
        };
        let overwrites = without == Without::Absence && word != Word::Acquire;
        if key.is_none() || overwrites {
            *key = Some((lock, self.now + ttl));
            return Some(true);
        }
        Some(is_own)
    }

    /// The client hears the answer.
    fn hear(&mut self, message: Message, is_granted: bool, without: Without) {
        let Message { word, lock, node } = message;
        let it = &mut self.locks[lock];
        match (is_granted, it.phase) {
            (false, _) => it.refused |= bit(node),
            (true, Phase::Over) if without == Without::ReleaseBehind && word != Word::Acquire => {}
            (true, Phase::Over) => self.send(Word::Release, lock, node),
            (true, _) => it.granted |= bit(node),
        }
    }

    fn next(&self, without: Without) -> Vec<Self> {
        let mut next = Vec::new();
        let mut step = |change: &dyn Fn(&mut Self)| {
            let mut state = self.clone();
            change(&mut state);
            next.push(state);
        };
        for index in 0..self.messages.len() {
            step(&|state| {
                let message = state.messages.remove(index);
                if let Some(is_granted) = state.arrive(message, without) {
                    state.hear(message, is_granted, without);
                }
            });
        }
        for lock in 0..LOCKS {
            self.steps_of(lock, &mut step);
        }
        if self.now < END {
            step(&|state| {
                state.now += 1;
                for key in &mut state.nodes {
                    *key = key.filter(|(_, expires)| state.now < *expires);
                }
            });
        }
        for node in 0..NODES {
            if let (Some((lock, _)), 1..) = (self.nodes[node], self.restarts) {
                step(&|state| {
                    state.is_bare_forgotten |= state.is_valid(lock) && state.copies(lock) <= QUORUM;
                    // One that is not won yet has none to spare either.
                    state.is_bare_forgotten |= state.locks[lock].phase == Phase::Asking;
                    state.restarts -= 1;
                    state.nodes[node] = None;
                });
            }
        }
        next
    }

    fn steps_of(&self, lock: usize, step: &mut Step<'_>) {
        let it = self.locks[lock];
        match it.phase {
            Phase::Idle => step(&|state| {
                state.locks[lock].phase = Phase::Asking;
                state.locks[lock].started = state.now;
                (0..NODES).for_each(|node| state.send(Word::Acquire, lock, node));
            }),
            Phase::Asking => {
                let is_in_time = self.now < it.started + TTL;
                if it.granted.count_ones() as usize >= QUORUM && is_in_time {
                    step(&|state| state.locks[lock].phase = Phase::Held);
                }
            }
            // How the second one ends does not matter to the first.
            Phase::Held if lock == 0 => step(&|state| state.end(lock)),
            Phase::Held | Phase::Over => {}
        }
        let left = (it.started + TTL).saturating_sub(self.now);
        let may_fill = (it.granted | it.refused) & bit(MISSED) == 0 && !it.is_filled;
        if lock == 0 && self.is_valid(lock) && may_fill && left > 0 {
            step(&|state| {
                state.locks[lock].is_filled = true;
                state.send(Word::Fill { ttl: left }, lock, MISSED);
            });
        }
    }

    fn wrong(&self) -> Option<Wrong> {
        let mut valid = (0..LOCKS).filter(|lock| self.is_valid(*lock));
        if valid.any(|lock| self.copies(lock) < QUORUM) && !self.is_bare_forgotten {
            return Some(Wrong::Undone);
        }
        let is_over = |key: &(usize, u8)| self.locks[key.0].phase == Phase::Over;
        let is_left = self.nodes.iter().flatten().any(is_over);
        (is_left && self.messages.is_empty()).then_some(Wrong::KeyLeft)
    }
}

/// Goes through all states that can be reached, up to the first that is wrong.
fn explore(restarts: u8, without: Without) -> (usize, Option<Wrong>) {
    let first = State::first(restarts);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        if let Some(wrong) = state.wrong() {
            return (seen.len(), Some(wrong));
        }
        for next in state.next(without) {
            if !seen.contains(&next) {
                seen.insert(next.clone());
                open.push(next);
            }
        }
    }
    (seen.len(), None)
}

#[test]
fn fills_break_nothing_and_a_spare_copy_is_a_restart_survived() {
    for restarts in [0, 1] {
        let (states, wrong) = explore(restarts, Without::Nothing);
        println!("{states} states with {restarts} restarts");
        assert_eq!(wrong, None, "with {restarts} restarts");
        assert!(states > 10_000, "it looked at {states} states alone");
    }
}

#[test]
fn each_part_of_the_rule_is_needed() {
    for (without, expected) in [
        (Without::Absence, Wrong::Undone),
        (Without::ReleaseBehind, Wrong::KeyLeft),
    ] {
        assert_eq!(explore(0, without).1, Some(expected));
    }
}
