//! The PCI host bridge, and the guest's access methods.

use std::ops::RangeInclusive;

use super::address::Address;
use super::function::Function;
use super::registers::SIZE;
use super::tree::{FunctionId, Reached, TopologyError, Tree};

/// A PCI host bridge with its functions, accessible through ports and ECAM.
///
/// No guest access makes it grow, hang or panic. Accesses are routed with the bridges' bus numbers
/// as last written by the guest. Invalid numbers lead nowhere.
///
/// A write returns the registers that were [`Written`]. They show the device's owner that a BAR
/// moved ([`Function::bar`](super::Function::bar)) or an interrupt was enabled. A VMM also updates
/// its [`Shadow`](super::Shadow).
#[derive(Debug)]
pub struct HostBridge {
    pub(super) tree: Tree,
    first: u8,
    last: u8,
    /// CONFIG_ADDRESS as last written, without reserved bits.
    pub(super) index: u32,
}

/// Registers that a guest has written.
///
/// A write to a bridge's Bridge Control register (0x3e) can reset all functions behind the bridge.
/// After such a write, read the BARs of those functions again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Function that was written.
    pub function: FunctionId,
    /// Offset of the first register.
    pub register: u16,
    /// Number of bytes.
    pub length: u8,
}

impl HostBridge {
    /// Creates a host bridge that decodes `buses`; the first is the root bus. An empty range
    /// decodes only its first bus.
    ///
    /// ECAM needs 1 MiB per bus: 256 MiB for 256 buses.
    pub fn new(buses: RangeInclusive<u8>) -> Self {
        Self {
            tree: Tree::default(),
            first: *buses.start(),
            last: *buses.end().max(buses.start()),
            index: 0,
        }
    }

    /// Returns the decoded buses.
    pub fn buses(&self) -> RangeInclusive<u8> {
        self.first..=self.last
    }

    /// Returns the size of the ECAM window in bytes. The window starts with the first bus. ACPI's
    /// MCFG table holds the address of bus 0, even if that is before the window.
    pub fn ecam_size(&self) -> u64 {
        (u64::from(self.last - self.first) + 1) << 20
    }

    /// Handles a configuration read of 1, 2 or 4 naturally aligned bytes. Other accesses, and those
    /// to an absent function, read all ones.
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

    /// Handles a configuration write of 1, 2 or 4 naturally aligned bytes. It ignores all other
    /// writes.
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

    /// Handles a read at `offset` bytes into the ECAM window. Bits 27:20 of the offset are the bus,
    /// 19:12 device and function, and 11:0 the register (PCI Express Base 4.0, 7.2.2).
    ///
    /// A naturally aligned access of 1, 2 or 4 bytes is one configuration read. Any other access (8
    /// bytes, or unaligned) is split into such reads. Systems need not support these accesses; a
    /// [`Shadow`](super::Shadow)'s memory returns the same bytes.
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

    /// Handles a write at `offset` bytes into the ECAM window. An aligned write of 8 bytes is two
    /// writes of 4. Other accesses that are not naturally aligned are ignored.
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

    /// Returns the function that currently responds at `address`.
    pub fn at(&self, address: Address) -> Option<FunctionId> {
        self.find(address).map(|reached| reached.id)
    }

    /// Returns every place, with its function unless it is empty.
    pub fn functions(&self) -> impl Iterator<Item = (FunctionId, Option<&Function>)> {
        self.tree.all()
    }

    /// Returns the function in a place; `None` if it is empty.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.tree.function(id)
    }

    /// Adds a function on the root bus.
    ///
    /// Adding a function updates the multi-function bit of its device, and the next function number
    /// of ARI devices.
    ///
    /// # Errors
    ///
    /// If the device or function number is out of range, or a function is already there.
    pub fn add(
        &mut self,
        device: u8,
        function: u8,
        what: Function,
    ) -> Result<FunctionId, TopologyError> {
        self.tree.add(None, devfn(device, function)?, what)
    }

    /// Adds a function on the bus behind a bridge. Function 8 of an ARI device is device 1,
    /// function 0 here.
    ///
    /// # Errors
    ///
    /// If the number is out of range, a function is already there, `bridge` is not a bridge, or the
    /// bus cannot have this device.
    pub fn add_behind(
        &mut self,
        bridge: FunctionId,
        device: u8,
        function: u8,
        what: Function,
    ) -> Result<FunctionId, TopologyError> {
        self.tree.add(Some(bridge), devfn(device, function)?, what)
    }

    /// Removes a function. Its place and the functions behind it read all ones until another
    /// function is inserted. The VMM notifies the guest: it [`store`](Self::store)s the slot status
    /// in the port.
    pub fn remove(&mut self, id: FunctionId) -> Option<Function> {
        self.tree.remove(id)
    }

    /// Inserts a function into an empty place.
    ///
    /// # Errors
    ///
    /// If the place is not empty or does not exist.
    pub fn insert(&mut self, id: FunctionId, what: Function) -> Result<(), TopologyError> {
        self.tree.insert(id, what)
    }

    /// Stores bytes on behalf of a device: see [`Function::store`]. Returns `None` if the place is
    /// empty.
    pub fn store(&mut self, id: FunctionId, register: u16, bytes: &[u8]) -> Option<()> {
        self.tree
            .change(id, |function| function.store(register, bytes))
    }

    /// Resets the machine: every function, and the index of the ports.
    pub fn reset(&mut self) {
        self.tree.reset_all();
        self.index = 0;
    }
}

/// Returns the register of a naturally aligned access of 1, 2 or 4 bytes.
fn natural(register: u16, length: usize) -> Option<usize> {
    let at = usize::from(register);
    (matches!(length, 1 | 2 | 4) && at % length == 0 && at < SIZE).then_some(at)
}

/// Returns the size of the next access at `at`, with `left` bytes to go.
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
