//! A set of the nodes of one lock.

/// A set of nodes by their index in the configured order, as bits of one word, so that it can be
/// shared as an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(pub(crate) u64);

impl NodeSet {
    /// The most nodes a lock can have.
    pub(crate) const MAX_NODES: usize = 64;

    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn of(node: usize) -> Self {
        Self(1 << node)
    }

    pub(crate) fn all(nodes: usize) -> Self {
        (0..nodes).fold(Self::EMPTY, Self::with)
    }

    pub(crate) fn with(self, node: usize) -> Self {
        Self(self.0 | Self::of(node).0)
    }

    pub(crate) fn without(self, node: usize) -> Self {
        Self(self.0 & !Self::of(node).0)
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 & Self::of(node).0 != 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        // From bit to bit: this is done several times for each lock, and there are few nodes.
        let mut rest = self;
        std::iter::from_fn(move || {
            let node = (!rest.is_empty()).then(|| rest.0.trailing_zeros() as usize)?;
            rest = rest.without(node);
            Some(node)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_not_taken_out() {
        let set = NodeSet::all(3).without(1).with(63);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 2, 63]);
        assert_eq!(NodeSet::EMPTY.iter().next(), None);
        assert!(NodeSet::all(64).iter().eq(0..64));
        assert_eq!((set.len(), set.is_empty()), (3, false));
        assert_eq!(NodeSet::all(64).len(), 64);
        assert!(NodeSet::EMPTY.is_empty());
    }
}
