//! What the nodes say about a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::display::{Hidden, Name};
use crate::node::{NodeError, note_of};

/// What the nodes say about a lock: its keys and their holders; from
/// [`Redlock::inspect`](crate::Redlock::inspect).
///
/// It was true when the nodes answered, and says nothing about the moment after: to be sure of a
/// lock, acquire it.
#[derive(Clone, Debug)]
pub struct Inspection {
    quorum: usize,
    nodes: Vec<NodeInspection>,
}

/// What one node says about a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeInspection {
    /// The node's label.
    pub label: Arc<str>,
    /// The lock's key at this node, `None` if there is none, or why the node did not answer.
    pub found: Result<Option<LockKey>, NodeError>,
}

/// The key of a lock, at one node or at a quorum of them. Its `Debug` does not show the token.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockKey {
    /// The key's value, cut to 128 bytes: the holder's token, with its note. `None` if the key is not a
    /// string, and so not a lock.
    pub token: Option<Vec<u8>>,
    /// What is left of the key's life; `None` if it has no expiry.
    pub ttl: Option<Duration>,
}

impl LockKey {
    /// Who holds the lock, in the holder's own words, if it left a note
    /// ([`RedlockBuilder::owner`](crate::RedlockBuilder::owner)). Nobody has checked them.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        note_of(self.token.as_deref()?)
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockKey")
            .field("token", &Hidden(&self.token))
            .field("owner", &self.owner())
            .field("ttl", &self.ttl)
            .finish()
    }
}

impl Inspection {
    pub(crate) fn new(quorum: usize, nodes: Vec<NodeInspection>) -> Self {
        Self { quorum, nodes }
    }

    /// Returns whether any node has a key.
    pub(crate) fn is_seen(&self) -> bool {
        let found = |node: &NodeInspection| matches!(node.found, Ok(Some(_)));
        self.nodes.iter().any(found)
    }

    /// What each node says, in the configured order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeInspection] {
        &self.nodes
    }

    /// Returns whether the lock is taken: `Some(false)` if it is free at a quorum of nodes,
    /// `Some(true)` if so many nodes have a key that it cannot be, `None` if too few nodes answered.
    #[must_use]
    pub fn is_locked(&self) -> Option<bool> {
        let keys = self
            .nodes
            .iter()
            .filter_map(|node| node.found.as_ref().ok());
        let (taken, free): (Vec<_>, Vec<_>) = keys.partition(|key| key.is_some());
        if free.len() >= self.quorum {
            Some(false)
        } else if taken.len() + self.quorum > self.nodes.len() {
            Some(true)
        } else {
            None
        }
    }

    /// Returns the key that a quorum of nodes has in common, if there is one. Its ttl is how long a
    /// quorum will have it, unless it is extended or released.
    #[must_use]
    pub fn holder(&self) -> Option<LockKey> {
        let keys = || {
            self.nodes
                .iter()
                .filter_map(|node| node.found.as_ref().ok()?.as_ref())
        };
        keys().find_map(|key| {
            let token = key.token.as_ref()?;
            let same = keys().filter(|other| other.token.as_ref() == Some(token));
            let mut ttls = same.map(|key| key.ttl).collect::<Vec<_>>();
            // The longest first; a key without expiry is longer than any.
            ttls.sort_by_key(|ttl| std::cmp::Reverse(ttl.unwrap_or(Duration::MAX)));
            let ttl = *ttls.get(self.quorum - 1)?;
            Some(LockKey { ttl, ..key.clone() })
        })
    }
}

/// The locks that the nodes know; from [`Redlock::list`](crate::Redlock::list).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing {
    /// Each lock of which a node has a key, in the order of their names.
    pub locks: Vec<ListedLock>,
    /// Whether there are more than were asked for.
    pub is_cut: bool,
    /// The nodes that did not list all that they have, by their labels, and why. A lock that they alone know
    /// is missing.
    pub failures: Vec<(Arc<str>, NodeError)>,
}

/// One lock of a [`Listing`].
#[derive(Clone)]
#[non_exhaustive]
pub struct ListedLock {
    /// What is locked, without the lock's prefix. A tick that was claimed is one too: `{job}:{tick}`.
    pub resource: Vec<u8>,
    /// What each node says about it.
    pub inspection: Inspection,
}

impl fmt::Debug for ListedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedLock")
            .field("resource", &Name(&self.resource))
            .field("inspection", &self.inspection)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: Option<u8>, millis: Option<u64>) -> LockKey {
        LockKey {
            token: token.map(|token| vec![token]),
            ttl: millis.map(Duration::from_millis),
        }
    }

    /// A letter is a token, `-` a free node, `x` one that failed, `h` a key of another type.
    fn inspection(quorum: usize, nodes: &str) -> Inspection {
        let mut millis = 0;
        let node = |letter| {
            millis += 10;
            let found = match letter {
                '-' => Ok(None),
                'x' => Err(NodeError::connection("broken")),
                'h' => Ok(Some(key(None, None))),
                token => Ok(Some(key(Some(token as u8), Some(millis)))),
            };
            let label = Arc::from("label");
            NodeInspection { label, found }
        };
        Inspection::new(quorum, nodes.chars().map(node).collect())
    }

    #[test]
    fn a_lock_is_taken_when_no_quorum_is_free_for_certain() {
        let table = [
            ("-----", Some(false)),
            ("---aa", Some(false)),
            ("--aaa", Some(true)),
            ("--abc", Some(true)),
            ("hhh--", Some(true)),
            ("--xaa", None),
            ("---xx", Some(false)),
            ("aaaxx", Some(true)),
            ("xxxxx", None),
        ];
        for (nodes, expected) in table {
            assert_eq!(inspection(3, nodes).is_locked(), expected, "{nodes}");
        }
    }

    #[test]
    fn a_holder_is_named_by_a_quorum_for_as_long_as_a_quorum_has_its_key() {
        let holder = |nodes| inspection(3, nodes).holder();
        let named = |ttl| Some(key(Some(b'a'), Some(ttl)));
        assert_eq!(holder("aaaaa"), named(30));
        assert_eq!(holder("-aaxa"), named(20));
        assert_eq!(holder("abaxb"), None);
        assert_eq!(holder("hhhhh"), None);
        assert_eq!(holder("-----"), None);
    }

    #[test]
    fn no_token_is_shown() {
        let holder = inspection(1, "T").holder();
        let shown = format!("{holder:?} {:?}", inspection(2, "TTx-h"));
        assert!(shown.contains("Some(1 bytes)"), "{shown}");
        assert!(!shown.contains("84") && !shown.contains("\"T"), "{shown}");
    }
}
