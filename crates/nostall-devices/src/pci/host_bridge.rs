//! The root of the tree, and a guest's ways to it.

use std::ops::RangeInclusive;

use super::address::Address;
use super::function::Function;
use super::registers::SIZE;
use super::tree::{FunctionId, Reached, TopologyError, Tree};

/// A PCI host bridge: the functions behind it, reached by ports and by ECAM.
///
/// Nothing that a guest does makes it grow, hang or panic. Where accesses go is
/// decided by the bridges' bus numbers as the guest last wrote them; numbers that
/// make no sense lead nowhere.
///
/// A write returns the registers that were [`Written`]. With them the device's owner notices
/// that a BAR moved ([`Function::bar`](super::Function::bar)) or an interrupt was enabled. A VMM
/// lets its [`Shadow`](super::Shadow) follow.
#[derive(Debug)]
pub struct HostBridge {
    pub(super) tree: Tree,
    first: u8,
    last: u8,
    /// CONFIG_ADDRESS, as it was last written.
    pub(super) index: u32,
}

/// Registers that a guest has written.
///
/// A write to a bridge can reset all functions behind it (Bridge Control register, 0x3e): after it,
/// ask the functions behind it for their BARs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of which function.
    pub function: FunctionId,
    /// The first of them.
    pub register: u16,
    /// How many bytes.
    pub length: u8,
}

impl HostBridge {
    /// A host bridge that decodes these buses. The root's own bus is the first; of
    /// an empty range, that is all.
    ///
    /// 256 buses need an ECAM window of 256 MiB, one bus 1 MiB.
    pub fn new(buses: RangeInclusive<u8>) -> Self {
        Self {
            tree: Tree::default(),
            first: *buses.start(),
            last: *buses.end().max(buses.start()),
            index: 0,
        }
    }

    /// The buses it decodes.
    pub fn buses(&self) -> RangeInclusive<u8> {
        self.first..=self.last
    }

    /// Returns the size of its ECAM window in bytes. It starts with the first bus. ACPI's MCFG
    /// table holds the address of bus 0, even if that is before the window.
    pub fn ecam_size(&self) -> u64 {
        (u64::from(self.last - self.first) + 1) << 20
    }

    /// A configuration read of 1, 2 or 4 bytes that do not cross a multiple of
    /// their number. All ones where nothing answers, and to any other access.
    pub fn read(&mut self, address: Address, register: u16, data: &mut [u8]) {
        data.fill(0xff);
        let Some(register) = natural(register, data.len()) else {
            return;
        };
        if let Some(reached) = self.reach(address, register)
            && let Some(function) = self.tree.function_mut(reached.id)
        {
            function.read(register, data);
        }
    }

    /// A configuration write, likewise. Elsewhere it does nothing.
    pub fn write(&mut self, address: Address, register: u16, data: &[u8]) -> Option<Written> {
        let at = natural(register, data.len())?;
        let reached = self.reach(address, at)?;
        self.tree
            .change(reached.id, |function| function.write(at, data))?;
        Some(Written {
            function: reached.id,
            register,
            length: data.len() as u8,
        })
    }

    /// A read from the ECAM window, `offset` bytes from its start: bus, device and
    /// function, and register in bits 27:20, 19:12 and 11:0 (PCI Express Base 4.0,
    /// 7.2.2).
    ///
    /// One of 1, 2 or 4 bytes at a multiple of their number is one configuration
    /// read. Any other (8 bytes, or unaligned), which no system need support, is
    /// made of such, as one from a [`Shadow`](super::Shadow)'s memory is.
    pub fn ecam_read(&mut self, offset: u64, data: &mut [u8]) {
        let mut rest = data;
        let mut at = Some(offset);
        while !rest.is_empty() {
            let size = piece(at, rest.len());
            let (now, later) = rest.split_at_mut(size);
            match at.and_then(|at| self.ecam_address(at)) {
                Some((address, register)) => self.read(address, register, now),
                None => now.fill(0xff),
            }
            at = at.and_then(|at| at.checked_add(size as u64));
            rest = later;
        }
    }

    /// A write to the ECAM window, likewise; one of 8 bytes at a multiple of 8 is
    /// two of 4. Any other does nothing.
    pub fn ecam_write(&mut self, offset: u64, data: &[u8]) -> Option<Written> {
        let (address, register) = self.ecam_address(offset)?;
        if data.len() != 8 {
            return self.write(address, register, data);
        }
        if register % 8 != 0 {
            return None;
        }
        let (low, high) = data.split_at(4);
        let first = self.write(address, register, low);
        let second = self.write(address, register + 4, high);
        match (first, second) {
            (Some(first), Some(_)) => Some(Written { length: 8, ..first }),
            (first, second) => first.or(second),
        }
    }

    fn ecam_address(&self, offset: u64) -> Option<(Address, u16)> {
        if offset >= self.ecam_size() {
            return None;
        }
        let bus = self.first + (offset >> 20) as u8;
        let register = offset as usize % SIZE;
        Some((Address::of(bus, (offset >> 12) as u8), register as u16))
    }

    fn reach(&self, address: Address, register: usize) -> Option<Reached> {
        self.find(address).filter(|reached| register < reached.size)
    }

    fn find(&self, address: Address) -> Option<Reached> {
        if !self.buses().contains(&address.bus()) {
            return None;
        }
        self.tree.route(self.first, address)
    }

    /// Which function answers at an address now.
    pub fn at(&self, address: Address) -> Option<FunctionId> {
        self.find(address).map(|reached| reached.id)
    }

    /// Every place, and the function in it, if there is one.
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, Option<&Function>)> {
        self.tree.all()
    }

    /// The function in a place.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.tree.function(id)
    }

    /// Puts a function on the root's bus.
    ///
    /// A device with several functions gets its multi-function bit, and one with
    /// ARI its next function, as they come.
    ///
    /// # Errors
    ///
    /// If there is no such address, or something is there.
    pub fn add(
        &mut self,
        device: u8,
        function: u8,
        what: Function,
    ) -> Result<FunctionId, TopologyError> {
        self.tree.add(None, devfn(device, function)?, what)
    }

    /// Puts a function on the bus behind a bridge. Function 8 of an ARI device is
    /// device 1, function 0 here.
    ///
    /// # Errors
    ///
    /// If there is no such address, something is there, or the bus cannot have it.
    pub fn add_behind(
        &mut self,
        bridge: FunctionId,
        device: u8,
        function: u8,
        what: Function,
    ) -> Result<FunctionId, TopologyError> {
        self.tree.add(Some(bridge), devfn(device, function)?, what)
    }

    /// Pulls a function out. Its place and the functions behind it read all ones, until another
    /// function is put in. (The VMM notifies the guest: it [`store`](Self::store)s the slot's
    /// status in its port.)
    pub fn remove(&mut self, id: FunctionId) -> Option<Function> {
        self.tree.remove(id)
    }

    /// Puts a function into a place that was left empty.
    ///
    /// # Errors
    ///
    /// If it is not empty, or there is no such place.
    pub fn insert(&mut self, id: FunctionId, what: Function) -> Result<(), TopologyError> {
        self.tree.insert(id, what)
    }

    /// A device's own write to its registers, of any bits: see
    /// [`Function::store`]. `None` if the place is empty.
    pub fn store(&mut self, id: FunctionId, register: u16, bytes: &[u8]) -> Option<()> {
        self.tree
            .change(id, |function| function.store(register, bytes))
    }

    /// A reset of the machine: every function, and the index of the ports.
    pub fn reset(&mut self) {
        self.tree.reset_all();
        self.index = 0;
    }
}

/// The register of an access that the specifications allow.
fn natural(register: u16, length: usize) -> Option<usize> {
    let at = usize::from(register);
    (matches!(length, 1 | 2 | 4) && at % length == 0 && at < SIZE).then_some(at)
}

/// How long an access can be at `at`, with so many bytes to go.
fn piece(at: Option<u64>, left: usize) -> usize {
    [4, 2]
        .into_iter()
        .find(|&size| size <= left && at.is_some_and(|at| at % size as u64 == 0))
        .unwrap_or(1)
}

fn devfn(device: u8, function: u8) -> Result<u8, TopologyError> {
    Address::new(0, device, function)
        .map(Address::devfn)
        .ok_or(TopologyError::Number)
}
