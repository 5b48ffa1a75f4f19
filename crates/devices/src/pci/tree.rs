//! The tree of functions and buses.

use thiserror::Error;

use super::address::Address;
use super::function::{Below, Function, Routing};
use super::registers::{EXTENDED, SIZE};

/// A function's place in a [`HostBridge`](super::HostBridge). It stays valid for the bridge's
/// lifetime, regardless of guest accesses and inserted functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub(super) usize);

/// Reason why a function cannot be added at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A device number above 31 or a function number above 7.
    #[error("devices are numbered 0 to 31, functions 0 to 7")]
    Number,
    /// A link has device 0 only. An ARI device numbers its functions 0 to 255.
    #[error("only device 0 exists behind a port: give the function the ARI capability")]
    OneDevice,
    /// The place is occupied: remove its function first.
    #[error("a function is there already: remove it first")]
    Occupied,
    /// The given place is no bridge, or is empty.
    #[error("the given place has no bridge")]
    NoBridge,
    /// The place does not exist: the id belongs to another host bridge.
    #[error("the id belongs to another host bridge")]
    NoPlace,
}

/// A tree of places. Children follow their parents, so that no walk up or down loops, for any bus
/// numbers that a guest sets.
#[derive(Debug, Default)]
pub(super) struct Tree {
    places: Vec<Place>,
    /// Places on the root bus, by device and function.
    on_root: Vec<usize>,
    /// Counts changes; see `Place::version`.
    pub(super) version: u64,
    /// The version at which functions last moved, came or went.
    pub(super) moved: u64,
}

#[derive(Debug)]
struct Place {
    function: Option<Function>,
    parent: Option<usize>,
    devfn: u8,
    /// Places on the secondary bus, by device and function.
    behind: Vec<usize>,
    /// Version of the tree when the function last changed.
    version: u64,
    /// Whether the last change was a reset.
    is_reset: bool,
}

/// A bus reached through the bridges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    parent: Option<usize>,
    below: Below,
    /// Whether registers from 0x100 on are accessible.
    extended: bool,
}

impl Bus {
    const ROOT: Self = Self {
        parent: None,
        below: Below::Internal,
        extended: true,
    };

    /// Returns the bus behind a bridge on this bus.
    fn behind(self, bridge: usize, routing: Routing) -> Self {
        Self {
            parent: Some(bridge),
            below: routing.below,
            extended: self.extended && routing.below != Below::Conventional,
        }
    }
}

/// A set of bus numbers, one bit each: 0 to 127 and 128 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers(u128, u128);

impl Numbers {
    const NONE: Self = Self(0, 0);
    const ALL: Self = Self(!0, !0);

    /// Returns the numbers from `first` to `last`; empty if `first` is greater.
    fn range(first: u8, last: u8) -> Self {
        Self::up_to(last).without(match first.checked_sub(1) {
            Some(before) => Self::up_to(before),
            None => Self::NONE,
        })
    }

    fn up_to(last: u8) -> Self {
        match last.checked_sub(128) {
            None => Self(!0 >> (127 - last), 0),
            Some(last) => Self(!0, !0 >> (127 - last)),
        }
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0, self.1 & other.1)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0, self.1 & !other.1)
    }

    fn has(self, number: u8) -> bool {
        self.and(Self::range(number, number)) != Self::NONE
    }
}

/// A function that an access reaches, and its accessible size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) id: FunctionId,
    pub(super) size: usize,
}

impl Tree {
    /// Returns the function that responds at `address` with the current bus numbers.
    pub(super) fn route(&self, first: u8, address: Address) -> Option<Reached> {
        let bus = self.bus(first, address.bus())?;
        let on_it = self.on(bus.parent);
        let found = on_it
            .binary_search_by_key(&address.devfn(), |&at| self.places[at].devfn)
            .ok()?;
        self.reached(bus, on_it[found])
    }

    /// Returns all functions that respond on a bus, by device and function.
    pub(super) fn functions_on(&self, bus: Bus) -> impl Iterator<Item = (u8, Reached)> {
        let reached = move |at: usize| Some((self.places[at].devfn, self.reached(bus, at)?));
        self.on(bus.parent).iter().copied().filter_map(reached)
    }

    /// Returns the bus for each bus number, in one walk over the bridges. The results equal those
    /// of [`bus`](Self::bus).
    pub(super) fn buses(&self, first: u8) -> [Option<Bus>; 256] {
        let mut found = [None; 256];
        let mut walk = vec![(Bus::ROOT, first, Numbers::ALL)];
        while let Some((bus, number, numbers)) = walk.pop() {
            if numbers.has(number) {
                found[usize::from(number)] = Some(bus);
            }
            let mut left = numbers.without(Numbers::range(number, number));
            for &at in self.on(bus.parent) {
                let Some(routing) = self.passing(bus, at) else {
                    continue;
                };
                let passes = Numbers::range(routing.secondary, routing.subordinate);
                let behind = left.and(passes);
                if behind != Numbers::NONE {
                    walk.push((bus.behind(at, routing), routing.secondary, behind));
                    left = left.without(passes);
                }
            }
        }
        found
    }

    /// Returns the bus with this number. Each bridge forwards the buses from its secondary to its
    /// subordinate number (PCI-to-PCI Bridge Architecture 1.2, 3.1). If several bridges match, the
    /// first one forwards.
    fn bus(&self, first: u8, number: u8) -> Option<Bus> {
        let mut bus = Bus::ROOT;
        let mut current = first;
        while current != number {
            let (bridge, routing) = self.on(bus.parent).iter().find_map(|&at| {
                let routing = self.passing(bus, at)?;
                let passes = (routing.secondary..=routing.subordinate).contains(&number);
                passes.then_some((at, routing))
            })?;
            current = routing.secondary;
            bus = bus.behind(bridge, routing);
        }
        Some(bus)
    }

    /// Returns the routing of a bridge on this bus; `None` for an endpoint or a bridge that
    /// forwards nothing.
    fn passing(&self, bus: Bus, at: usize) -> Option<Routing> {
        self.reached(bus, at)?;
        self.routing(at).filter(|routing| !routing.resets)
    }

    fn reached(&self, bus: Bus, at: usize) -> Option<Reached> {
        let place = &self.places[at];
        let function = place.function.as_ref()?;
        let limit = if bus.extended { SIZE } else { EXTENDED };
        bus.below.has(place.devfn).then(|| Reached {
            id: FunctionId(at),
            size: function.size().min(limit),
        })
    }

    fn on(&self, parent: Option<usize>) -> &[usize] {
        parent.map_or(&self.on_root, |at| &self.places[at].behind)
    }

    fn routing(&self, at: usize) -> Option<Routing> {
        self.places[at].function.as_ref()?.routing()
    }

    pub(super) fn function(&self, id: FunctionId) -> Option<&Function> {
        self.places.get(id.0)?.function.as_ref()
    }

    /// Returns a function. The caller changes no stored register, except in
    /// [`change`](Self::change).
    pub(super) fn function_mut(&mut self, id: FunctionId) -> Option<&mut Function> {
        self.places.get_mut(id.0)?.function.as_mut()
    }

    /// Returns the version at which a function last changed.
    pub(super) fn version_of(&self, id: FunctionId) -> u64 {
        self.places.get(id.0).map_or(0, |place| place.version)
    }

    /// Returns every place with its function, if any.
    pub(super) fn all(&self) -> impl Iterator<Item = (FunctionId, Option<&Function>)> {
        self.places
            .iter()
            .enumerate()
            .map(|(at, place)| (FunctionId(at), place.function.as_ref()))
    }

    /// Changes a function and updates the state derived from it.
    pub(super) fn change<T>(
        &mut self,
        id: FunctionId,
        change: impl FnOnce(&mut Function) -> T,
    ) -> Option<T> {
        let function = self.function_mut(id)?;
        let before = function.routing();
        let result = change(function);
        let after = function.routing();
        self.touch(id.0);
        if before != after {
            self.moved = self.version;
        }
        let resets = |routing: Option<Routing>| routing.is_some_and(|routing| routing.resets);
        if resets(after) && !resets(before) {
            self.reset_behind(id.0);
        }
        Some(result)
    }

    fn touch(&mut self, at: usize) {
        self.version += 1;
        self.places[at].version = self.version;
        self.places[at].is_reset = false;
    }

    /// Resets all functions behind a bridge (secondary bus reset).
    fn reset_behind(&mut self, bridge: usize) {
        let mut behind = vec![false; self.places.len()];
        for at in bridge + 1..self.places.len() {
            let parent = self.places[at].parent;
            behind[at] = parent.is_some_and(|parent| parent == bridge || behind[parent]);
            if behind[at] {
                self.reset(at);
            }
        }
        self.moved = self.version;
    }

    pub(super) fn reset_all(&mut self) {
        (0..self.places.len()).for_each(|at| self.reset(at));
        self.moved = self.version;
    }

    /// Resets a function. A guest can reset a bus repeatedly: functions unchanged since their last
    /// reset are skipped.
    fn reset(&mut self, at: usize) {
        if self.places[at].is_reset {
            return;
        }
        if let Some(function) = &mut self.places[at].function {
            function.reset();
        }
        self.touch(at);
        self.places[at].is_reset = true;
    }

    pub(super) fn add(
        &mut self,
        parent: Option<FunctionId>,
        devfn: u8,
        function: Function,
    ) -> Result<FunctionId, TopologyError> {
        let parent = parent.map(|id| id.0);
        if let Some(bridge) = parent {
            let below = self.below(bridge).ok_or(TopologyError::NoBridge)?;
            if below.is_link() && devfn >= 8 && function.ari.is_none() {
                return Err(TopologyError::OneDevice);
            }
        }
        let search = self
            .on(parent)
            .binary_search_by_key(&devfn, |&at| self.places[at].devfn);
        let Err(position) = search else {
            return Err(TopologyError::Occupied);
        };
        let at = self.places.len();
        self.places.push(Place {
            function: Some(function),
            parent,
            devfn,
            behind: Vec::new(),
            version: 0,
            is_reset: false,
        });
        match parent {
            Some(bridge) => self.places[bridge].behind.insert(position, at),
            None => self.on_root.insert(position, at),
        }
        self.arrived(at);
        Ok(FunctionId(at))
    }

    pub(super) fn insert(
        &mut self,
        id: FunctionId,
        function: Function,
    ) -> Result<(), TopologyError> {
        let place = self.places.get_mut(id.0).ok_or(TopologyError::NoPlace)?;
        if place.function.is_some() {
            return Err(TopologyError::Occupied);
        }
        place.function = Some(function);
        self.arrived(id.0);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: FunctionId) -> Option<Function> {
        let function = self.places.get_mut(id.0)?.function.take()?;
        self.touch(id.0);
        self.moved = self.version;
        Some(function)
    }

    fn below(&self, bridge: usize) -> Option<Below> {
        let function = self.places.get(bridge)?.function.as_ref()?;
        function.routing().map(|routing| routing.below)
    }

    fn arrived(&mut self, at: usize) {
        self.touch(at);
        self.moved = self.version;
        self.introduce(at);
    }

    /// Updates the links between the functions of one device. Removed functions still count, so
    /// that the registers of the others do not change.
    fn introduce(&mut self, newcomer: usize) {
        let parent = self.places[newcomer].parent;
        let link = parent
            .and_then(|at| self.below(at))
            .is_some_and(Below::is_link);
        let device = self.places[newcomer].devfn >> 3;
        let of_device: Vec<usize> = self
            .on(parent)
            .iter()
            .copied()
            .filter(|&at| link || self.places[at].devfn >> 3 == device)
            .collect();
        let several = of_device.len() > 1;
        for (n, &at) in of_device.iter().enumerate() {
            // Only ARI devices number their functions consecutively.
            let next = of_device.get(n + 1).filter(|_| link);
            let next = next.map_or(0, |&at| self.places[at].devfn);
            let first = if link {
                n == 0
            } else {
                self.places[at].devfn & 7 == 0
            };
            if let Some(function) = &mut self.places[at].function {
                function.set_siblings(several && first, next);
            }
            self.touch(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::Class;

    #[test]
    fn a_bus_reset_touches_what_was_changed_since_the_last_one_and_nothing_else() {
        let mut tree = Tree::default();
        let bridge = Function::bridge(0x1af4, 0x10f3).build().unwrap();
        let bridge = tree.add(None, 0, bridge).unwrap();
        let behind: Vec<FunctionId> = (0..=255)
            .map(|devfn| {
                let function = Function::endpoint(0x1af4, 0x10f5, Class::new(0x12, 0, 0));
                tree.add(Some(bridge), devfn, function.build().unwrap())
                    .unwrap()
            })
            .collect();
        let mut resets = |changed: &[FunctionId]| {
            for &id in changed {
                tree.change(id, |function| function.write(0x3c, &[7]));
            }
            let before = tree.version;
            tree.change(bridge, |function| function.write(0x3e, &[0x40]));
            tree.change(bridge, |function| function.write(0x3e, &[0]));
            for &id in changed {
                assert_eq!(tree.function(id).unwrap().stored(0x3c), [0]);
            }
            // Subtracts the bridge's own two changes.
            tree.version - before - 2
        };
        assert_eq!(resets(&[]), 256);
        assert_eq!(resets(&[]), 0);
        assert_eq!(resets(&behind[3..5]), 2);
        assert_eq!(resets(&behind), 256);
    }
}
