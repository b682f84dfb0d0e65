//! Which server a command goes to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ClusterClient;
use super::member::Member;
use super::slots::SlotMap;
use crate::backend::place::Place;

/// The map, and what its servers are reached by.
pub(super) struct Routes<C: ClusterClient> {
    map: SlotMap,
    /// One for each place of the map.
    members: Vec<Arc<Member<C>>>,
}

impl<C: ClusterClient> Routes<C> {
    pub(super) fn empty() -> Self {
        Self {
            map: SlotMap::empty(),
            members: Vec::new(),
        }
    }

    pub(super) fn map(&self) -> &SlotMap {
        &self.map
    }

    /// The master of the slot; for a slot that nobody has, any server, which says so or knows better.
    pub(super) fn of(&self, slot: u16) -> Option<&Arc<Member<C>>> {
        let any = || usize::from(slot) % self.members.len().max(1);
        self.members.get(self.map.owner(slot).unwrap_or_else(any))
    }

    pub(super) fn at(&self, place: &Place) -> Option<&Arc<Member<C>>> {
        self.members.iter().find(|member| member.place == *place)
    }

    /// Returns whether the server at this place has the slot, as far as is known.
    pub(super) fn is_at(&self, slot: u16, place: &Place) -> bool {
        let owner = self.map.owner(slot);
        owner.is_some_and(|number| self.members[number].place == *place)
    }

    /// The masters, in an order that does not depend on who was asked.
    pub(super) fn masters(&self) -> Vec<&Arc<Member<C>>> {
        let numbered = self.members.iter().enumerate();
        let masters = numbered.filter(|(number, _)| self.map.is_master(*number));
        let mut masters: Vec<_> = masters.map(|(_, master)| master).collect();
        masters.sort_unstable_by(|one, other| one.place.cmp(&other.place));
        masters
    }

    /// The same with a server at this place, which has the slot from now on, if one is named. `None` if there are
    /// too many.
    pub(super) fn with(
        &self,
        place: &Place,
        slot: Option<u16>,
        make: impl FnOnce(&Place) -> Member<C>,
    ) -> Option<Self> {
        let mut map = self.map.clone();
        map.number(place)?;
        if let Some(slot) = slot {
            map.assign(slot, place);
        }
        let mut members = self.members.clone();
        if map.places().len() > members.len() {
            members.push(Arc::new(make(place)));
        }
        Some(Self { map, members })
    }

    /// The routes of a new map, and the servers that are not on it any more. One that was asked since the last map
    /// for a slot that it is about to get stays.
    pub(super) fn redrawn(
        &self,
        mut map: SlotMap,
        make: impl Fn(&Place) -> Member<C>,
    ) -> (Self, Vec<Arc<Member<C>>>) {
        let mut gone = Vec::new();
        for member in &self.members {
            let is_asked = member.is_asked.swap(false, Ordering::Relaxed);
            let is_known = map.places().contains(&member.place);
            let stays = is_known || (is_asked && map.number(&member.place).is_some());
            if !stays {
                gone.push(Arc::clone(member));
            }
        }
        let members = map.places().iter().map(|place| match self.at(place) {
            Some(member) => Arc::clone(member),
            None => Arc::new(make(place)),
        });
        let members = members.collect();
        (Self { map, members }, gone)
    }
}
