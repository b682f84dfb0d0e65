//! Which server has which slots, by what the servers say. No IO, no time.

use std::collections::BTreeMap;

use crate::backend::place::Place;
use crate::node::Reply;
use crate::slot::SLOTS;

/// The most servers that are kept in mind: no cluster has more than a thousand.
const MAX_PLACES: usize = 1024;

/// Of a slot that nobody has.
const NOBODY: u16 = u16::MAX;

/// The masters of a cluster, and the slots of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotMap {
    places: Vec<Place>,
    /// The number of a place for each slot.
    owners: Box<[u16]>,
}

impl SlotMap {
    pub(super) fn empty() -> Self {
        Self {
            places: Vec::new(),
            owners: vec![NOBODY; usize::from(SLOTS)].into(),
        }
    }

    /// Reads a reply to `CLUSTER SLOTS`, or returns `None` if it is none. A server of which it says only the port
    /// has the `host` that was asked. Slots of a server of which nothing is known are nobody's.
    pub(super) fn read(reply: &Reply, host: &str) -> Option<Self> {
        let Reply::Array(ranges) = reply else {
            return None;
        };
        if ranges.len() > usize::from(SLOTS) {
            return None;
        }
        let mut map = Self::empty();
        for range in ranges {
            let Reply::Array(parts) = range else {
                return None;
            };
            let [
                Reply::Int(first),
                Reply::Int(last),
                Reply::Array(master),
                ..,
            ] = &parts[..]
            else {
                return None;
            };
            let (first, last) = (slot_of(*first)?, slot_of(*last)?);
            if first > last {
                return None;
            }
            if let Some(number) = place_of(master, host)?.and_then(|place| map.number(&place)) {
                map.owners
                    .get_mut(usize::from(first)..=usize::from(last))?
                    .fill(number);
            }
        }
        Some(map)
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The number of the place that has the slot, if one has it.
    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = self.owners.get(usize::from(slot)).copied();
        owner.filter(|owner| *owner != NOBODY).map(usize::from)
    }

    /// Returns whether the place at this number has any slot.
    pub(super) fn is_master(&self, number: usize) -> bool {
        self.owners
            .iter()
            .any(|owner| usize::from(*owner) == number)
    }

    /// The number of a place, which may be a new one; `None` if there are too many.
    pub(super) fn number(&mut self, place: &Place) -> Option<u16> {
        let known = self.places.iter().position(|known| known == place);
        let number = match known {
            Some(number) => number,
            None if self.places.len() < MAX_PLACES => {
                self.places.push(place.clone());
                self.places.len() - 1
            }
            None => return None,
        };
        u16::try_from(number).ok()
    }

    /// The slot is there from now on. Returns whether that is news.
    pub(super) fn assign(&mut self, slot: u16, place: &Place) -> bool {
        let Some(number) = self.number(place) else {
            return false;
        };
        match self.owners.get_mut(usize::from(slot)) {
            Some(owner) => std::mem::replace(owner, number) != number,
            None => false,
        }
    }

    /// What more than half of these answers say of each slot, and what was known before where they disagree: a
    /// server that lies or is behind is outvoted, or changes nothing.
    pub(super) fn agreed(answers: &[Self], before: &Self) -> Self {
        if let [only] = answers {
            return only.clone();
        }
        let mut agreed = Self::empty();
        for slot in 0..SLOTS {
            let mut votes = BTreeMap::<_, usize>::new();
            for answer in answers {
                *votes.entry(answer.place_of(slot)).or_default() += 1;
            }
            let any = votes.keys().copied().flatten().next();
            let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
            let place = match most {
                Some((place, votes)) if votes * 2 > answers.len() => place,
                // Whoever is asked knows better.
                _ => before.place_of(slot).or(any),
            };
            if let Some(place) = place {
                agreed.assign(slot, place);
            }
        }
        agreed
    }

    fn place_of(&self, slot: u16) -> Option<&Place> {
        self.owner(slot).and_then(|number| self.places.get(number))
    }

    /// Returns whether each slot is where the other map has it.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        (0..SLOTS).all(|slot| self.place_of(slot) == other.place_of(slot))
    }
}

fn slot_of(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// Where a master is; `Some(None)` if the server does not know.
fn place_of(master: &[Reply], asked: &str) -> Option<Option<Place>> {
    let [host, Reply::Int(port), ..] = master else {
        return None;
    };
    let host = match host {
        Reply::Nil => asked.as_bytes(),
        Reply::Bytes(host) if host.is_empty() => asked.as_bytes(),
        Reply::Bytes(host) => host,
        _ => return None,
    };
    let port = u16::try_from(*port).ok()?;
    Some(Place::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    fn range(first: i64, last: i64, host: Reply, port: i64) -> Reply {
        let master = Reply::Array(vec![host, Reply::Int(port), bytes("id")]);
        let replica = Reply::Array(vec![bytes("10.0.0.9"), Reply::Int(9), bytes("id")]);
        Reply::Array(vec![Reply::Int(first), Reply::Int(last), master, replica])
    }

    fn read(ranges: Vec<Reply>) -> Option<SlotMap> {
        SlotMap::read(&Reply::Array(ranges), "asked")
    }

    fn shown(map: &SlotMap, slot: u16) -> String {
        map.place_of(slot)
            .map_or_else(|| "nobody".to_owned(), ToString::to_string)
    }

    #[test]
    fn a_map_is_read_of_addresses_names_and_ports_alone() {
        let map = read(vec![
            range(0, 99, bytes("10.0.0.1"), 7001),
            range(100, 100, bytes("Redis-2.Internal"), 7002),
            range(101, 200, Reply::Nil, 7003),
            range(201, 300, bytes(""), 7003),
            range(301, 400, bytes("::1"), 7004),
            range(401, 500, bytes("?"), 7005),
            range(501, 600, bytes("10.0.0.1"), 0),
            range(16_000, 16_383, bytes("10.0.0.1"), 7001),
        ])
        .unwrap();
        for (slot, place) in [
            (0, "10.0.0.1:7001"),
            (99, "10.0.0.1:7001"),
            (100, "redis-2.internal:7002"),
            (101, "asked:7003"),
            (300, "asked:7003"),
            (301, "[::1]:7004"),
            (401, "nobody"),
            (501, "nobody"),
            (700, "nobody"),
            (16_383, "10.0.0.1:7001"),
        ] {
            assert_eq!(shown(&map, slot), place, "{slot}");
        }
        assert_eq!(map.places().len(), 4);
        assert!(map.is_master(0) && !map.is_master(4));
    }

    #[test]
    fn what_makes_no_sense_is_no_map() {
        let host = || bytes("10.0.0.1");
        for reply in [
            Reply::ok(),
            Reply::Array(vec![Reply::ok()]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(1)])]),
            Reply::Array(vec![range(-1, 1, host(), 1)]),
            Reply::Array(vec![range(0, 16_384, host(), 1)]),
            Reply::Array(vec![range(2, 1, host(), 1)]),
            Reply::Array(vec![range(0, 1, host(), 65_536)]),
            Reply::Array(vec![range(0, 1, Reply::Int(1), 1)]),
            Reply::Array(vec![range(0, 0, host(), 1); 16_385]),
        ] {
            assert_eq!(SlotMap::read(&reply, "asked"), None);
        }
        assert_eq!(read(Vec::new()), Some(SlotMap::empty()));
    }

    #[test]
    fn a_server_that_disagrees_is_outvoted_and_two_that_disagree_change_nothing() {
        let at = |port| read(vec![range(0, 9, bytes("h"), port)]).unwrap();
        let nobody = SlotMap::empty;
        for (answers, expected) in [
            (vec![], "h:1"),
            (vec![at(2)], "h:2"),
            (vec![nobody()], "nobody"),
            (vec![at(2), at(2)], "h:2"),
            (vec![at(2), at(3)], "h:1"),
            (vec![at(2), nobody()], "h:1"),
            (vec![at(2), at(1), at(2)], "h:2"),
            (vec![at(2), at(3), at(4)], "h:1"),
            (vec![nobody(), nobody(), at(2)], "nobody"),
        ] {
            let agreed = SlotMap::agreed(&answers, &at(1));
            assert_eq!(shown(&agreed, 5), expected, "{answers:?}");
            assert_eq!(shown(&agreed, 10), "nobody");
        }
    }

    #[test]
    fn without_a_map_before_any_server_is_better_than_none() {
        let at = |port| read(vec![range(0, 9, bytes("h"), port)]).unwrap();
        let agreed = SlotMap::agreed(&[at(2), at(3)], &SlotMap::empty());
        assert_eq!(shown(&agreed, 5), "h:2");
        assert_eq!(shown(&agreed, 10), "nobody");
    }

    #[test]
    fn a_slot_moves_alone_and_the_number_of_servers_is_bounded() {
        let mut map = read(vec![range(0, 9, bytes("h"), 1)]).unwrap();
        let place = |port| Place::new(b"h", port).unwrap();
        let before = map.clone();
        assert!(map.assign(3, &place(2)));
        assert!(!map.assign(3, &place(2)), "it is there");
        assert_eq!(shown(&map, 3), "h:2");
        assert_eq!(shown(&map, 4), "h:1");
        assert!(!map.says_the_same(&before));
        assert!(map.assign(3, &place(1)));
        assert!(map.says_the_same(&before), "whoever else is known");
        for port in 1..2000 {
            map.assign(5, &place(port));
        }
        assert_eq!(map.places().len(), MAX_PLACES);
        assert_eq!(shown(&map, 5), "h:1024");
    }
}
