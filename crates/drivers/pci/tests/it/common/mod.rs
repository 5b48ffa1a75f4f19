//! A tree of functions with arbitrary registers, behind an ECAM window.

#![allow(dead_code)] // each test file uses a part

use std::cell::{Cell, RefCell};

use nostall_io::{Counting, Registers};
use nostall_pci::registers::*;
use nostall_pci::{Address, ConfigAccess, Ecam};

/// A function: the values of its registers, and their writable bits.
#[derive(Clone)]
pub struct Fake {
    pub bytes: Vec<u8>,
    pub writable: Vec<u8>,
    /// Set if it responds to all device numbers on its bus.
    pub ghosts: bool,
    /// Number of accesses before it vanishes.
    pub lives: Cell<u32>,
}

impl Fake {
    /// Returns an endpoint with this device ID and class.
    pub fn new(device: u16, class: u32) -> Self {
        let mut fake = Self {
            bytes: vec![0; 4096],
            writable: vec![0; 4096],
            ghosts: false,
            lives: Cell::new(u32::MAX),
        };
        fake.set32(VENDOR_ID, u32::from(device) << 16 | 0x1af4);
        fake.set32(REVISION_ID, class << 8 | 1);
        fake.set32(SUBSYSTEM_VENDOR_ID, 0x0002_1af4);
        fake.set32(INTERRUPT_LINE, 0x010b);
        fake.mask16(COMMAND, 0x0407);
        fake
    }

    pub fn host_bridge() -> Self {
        Self::new(0x0600, 0x06_0000)
    }

    /// Returns a bridge with windows of every kind.
    pub fn bridge(device: u16, primary: u8, secondary: u8, subordinate: u8) -> Self {
        let mut fake = Self::new(device, 0x06_0400);
        fake.set32(SUBSYSTEM_VENDOR_ID, 0);
        fake.bytes[0x0e] = 1;
        fake.set32(
            PRIMARY_BUS,
            u32::from_le_bytes([primary, secondary, subordinate, 0x40]),
        );
        fake.mask32(PRIMARY_BUS, 0x00ff_ffff);
        fake.set16(IO_BASE, 0x0101);
        fake.mask16(IO_BASE, 0xf0f0);
        fake.mask32(IO_BASE_UPPER, !0);
        fake.mask32(MEMORY_BASE, 0xfff0_fff0);
        fake.set32(PREFETCHABLE_BASE, 0x0001_0001);
        fake.mask32(PREFETCHABLE_BASE, 0xfff0_fff0);
        fake.mask32(PREFETCHABLE_BASE_UPPER, !0);
        fake.mask32(PREFETCHABLE_LIMIT_UPPER, !0);
        fake
    }

    pub fn multi(mut self) -> Self {
        self.bytes[usize::from(HEADER_TYPE)] |= 0x80;
        self
    }

    pub fn ghost(mut self) -> Self {
        self.ghosts = true;
        self
    }

    pub fn lives(self, accesses: u32) -> Self {
        self.lives.set(accesses);
        self
    }

    /// Adds capabilities: the register and first word of each. Their pointers are filled in.
    pub fn capabilities(mut self, list: &[(u8, u32)]) -> Self {
        self.set16(STATUS, 0x10);
        let mut pointer = usize::from(CAPABILITIES_POINTER);
        for (at, word) in list {
            self.bytes[pointer] = *at;
            self.set32((*at).into(), word & 0xffff_00ff);
            pointer = usize::from(*at) + 1;
        }
        self
    }

    /// Adds the PCI Express capability at 0x40, with port type `kind`.
    pub fn express(self, kind: u32) -> Self {
        self.capabilities(&[(0x40, (kind << 4 | 2) << 16 | 0x10)])
    }

    /// Makes this a port that can forward ARI. It does so if `forwards` is set.
    pub fn ari_port(mut self, forwards: bool) -> Self {
        self.set32(0x40 + EXPRESS_DEVICE_CAPABILITIES_2, EXPRESS_ARI_SUPPORTED);
        let enable = if forwards { EXPRESS_ARI_ENABLE } else { 0 };
        self.set16(0x40 + EXPRESS_DEVICE_CONTROL_2, enable);
        self.mask16(0x40 + EXPRESS_DEVICE_CONTROL_2, EXPRESS_ARI_ENABLE);
        self
    }

    /// Adds the ARI capability, with `next` as the next function.
    pub fn ari(mut self, next: u8) -> Self {
        self.set32(0x100, 0x0001_000e);
        self.set16(0x104, u16::from(next) << 8);
        self.express(0)
    }

    /// Adds a BAR of `size` bytes in `slot`, with type bits `flags`.
    pub fn bar(mut self, slot: u16, flags: u32, size: u64) -> Self {
        let register = BASE_ADDRESS + 4 * slot;
        let mask = !(size - 1);
        self.set32(register, flags);
        self.mask32(
            register,
            mask as u32 & !0xf | if flags & 1 == 1 { mask as u32 & 0xc } else { 0 },
        );
        if flags & 7 == 4 {
            self.mask32(register + 4, (mask >> 32) as u32);
        }
        self
    }

    pub fn rom(mut self, size: u32) -> Self {
        let at = if self.bytes[0x0e] & 0x7f == 1 {
            BRIDGE_EXPANSION_ROM
        } else {
            EXPANSION_ROM
        };
        self.mask32(at, !(size - 1) | ROM_ENABLE);
        self
    }

    pub fn set16(&mut self, register: u16, value: u16) {
        let at = usize::from(register);
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    pub fn set32(&mut self, register: u16, value: u32) {
        let at = usize::from(register);
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn get32(&self, register: u16) -> u32 {
        let at = usize::from(register);
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    pub fn mask16(&mut self, register: u16, mask: u16) {
        let at = usize::from(register);
        self.writable[at..at + 2].copy_from_slice(&mask.to_le_bytes());
    }

    pub fn mask32(&mut self, register: u16, mask: u32) {
        let at = usize::from(register);
        self.writable[at..at + 4].copy_from_slice(&mask.to_le_bytes());
    }

    fn buses(&self) -> Option<(u8, u8)> {
        matches!(self.bytes[0x0e] & 0x7f, 1 | 2).then(|| (self.bytes[0x19], self.bytes[0x1a]))
    }
}

/// A tree of functions. The present bus numbers of the bridges route accesses.
#[derive(Default)]
pub struct Tree {
    pub functions: RefCell<Vec<Node>>,
    /// Indexes of the functions on the root bus, followed by those below each function.
    below: RefCell<Vec<Vec<usize>>>,
    /// Number of accesses that two bridges would forward because of the same bus number. Here, the
    /// first bridge gets them. On a machine, the other bridge or both may get them.
    pub disputed: Cell<u32>,
}

pub struct Node {
    pub parent: Option<usize>,
    pub devfn: u8,
    pub fake: Fake,
}

impl Tree {
    /// Adds a function below the bridge `parent`, or to the root bus.
    pub fn put(&self, parent: Option<usize>, device: u8, function: u8, fake: Fake) -> usize {
        let mut functions = self.functions.borrow_mut();
        functions.push(Node {
            parent,
            devfn: device << 3 | function,
            fake,
        });
        let index = functions.len() - 1;
        let mut below = self.below.borrow_mut();
        below.resize(index + 2, Vec::new());
        below[parent.map_or(0, |parent| parent + 1)].push(index);
        index
    }

    /// Returns the index of the function that an access reaches.
    fn route(&self, bus: u8, devfn: u8) -> Option<usize> {
        let (functions, below) = (self.functions.borrow(), self.below.borrow());
        let on_bus = |at: Option<usize>| {
            let behind = below.get(at.map_or(0, |at| at + 1));
            let behind = behind.into_iter().flatten().copied();
            behind.map(|index| (index, &functions[index]))
        };
        let (mut at, mut on) = (None, 0);
        while on != bus {
            let mut leading = on_bus(at).filter_map(|(index, node)| {
                let (secondary, subordinate) = node.fake.buses()?;
                let leads = (secondary..=subordinate).contains(&bus);
                (leads && secondary > on).then_some((index, secondary))
            });
            let (index, secondary) = leading.next()?;
            if leading.next().is_some() {
                self.disputed.set(self.disputed.get() + 1);
            }
            (at, on) = (Some(index), secondary);
        }
        on_bus(at)
            .find(|(_, node)| node.devfn == devfn || node.fake.ghosts && devfn & 7 == 0)
            .map(|(index, _)| index)
    }

    fn target(&self, offset: usize) -> Option<(usize, usize)> {
        let index = self.route((offset >> 20) as u8, (offset >> 12) as u8)?;
        let functions = self.functions.borrow();
        let lives = &functions[index].fake.lives;
        if lives.get() == 0 {
            return None;
        }
        if lives.get() != u32::MAX {
            lives.set(lives.get() - 1);
        }
        Some((index, offset & 0xfff))
    }

    fn get(&self, offset: usize, bytes: &mut [u8]) {
        bytes.fill(0xff);
        if let Some((index, at)) = self.target(offset) {
            bytes.copy_from_slice(&self.functions.borrow()[index].fake.bytes[at..at + bytes.len()]);
        }
    }

    fn set(&self, offset: usize, bytes: &[u8]) {
        if let Some((index, at)) = self.target(offset) {
            let fake = &mut self.functions.borrow_mut()[index].fake;
            for (n, byte) in bytes.iter().enumerate() {
                let mask = fake.writable[at + n];
                fake.bytes[at + n] = fake.bytes[at + n] & !mask | byte & mask;
            }
        }
    }

    /// Returns the ECAM window of the tree, with counted accesses.
    pub fn ecam(&self) -> Ecam<Counting<&Self>> {
        Ecam::new(Counting::new(self), 0, 0..=255)
    }

    /// Returns all registers of all functions.
    pub fn contents(&self) -> Vec<Vec<u8>> {
        let functions = self.functions.borrow();
        functions
            .iter()
            .map(|node| node.fake.bytes.clone())
            .collect()
    }
}

impl Registers for &Tree {
    fn read8(&self, offset: usize) -> u8 {
        let mut bytes = [0];
        self.get(offset, &mut bytes);
        bytes[0]
    }
    fn write8(&self, offset: usize, value: u8) {
        self.set(offset, &[value]);
    }
    fn read16(&self, offset: usize) -> u16 {
        let mut bytes = [0; 2];
        self.get(offset, &mut bytes);
        u16::from_le_bytes(bytes)
    }
    fn write16(&self, offset: usize, value: u16) {
        self.set(offset, &value.to_le_bytes());
    }
    fn read32(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.get(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }
    fn write32(&self, offset: usize, value: u32) {
        self.set(offset, &value.to_le_bytes());
    }
}

pub fn at(bus: u8, device: u8, function: u8) -> Address {
    Address::new(bus, device, function).unwrap()
}

/// Returns the function at `address`, which must exist.
pub fn function(access: &impl ConfigAccess, address: Address) -> nostall_pci::Function {
    nostall_pci::Function::read(access.at(address))
        .unwrap()
        .unwrap()
}
