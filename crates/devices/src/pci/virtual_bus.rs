//! A host bridge as seen by a driver in a guest.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nostall_io::Registers;

use super::host_bridge::HostBridge;
use super::memory::{ShadowCounts, ShadowMemory};
use super::shadow::Shadow;
use super::tree::FunctionId;

/// A [`HostBridge`] that a driver in the same process reaches through register windows:
/// [`ports`](Self::ports) and [`ecam`](Self::ecam). The ECAM window may be shadowed.
///
/// Clones and windows share one bridge. Each access that a VMM would have to handle counts as one
/// [`exit`](Self::exits).
#[derive(Clone, Debug)]
pub struct VirtualBus(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    bridge: RefCell<HostBridge>,
    shadow: Option<RefCell<(Shadow, ShadowMemory)>>,
    exits: Cell<u64>,
    vanishing: RefCell<Vec<(u64, FunctionId)>>,
}

/// Register window for the ports 0xcf8 to 0xcff: offset 0 is 0xcf8.
#[derive(Clone, Debug)]
pub struct PortWindow(VirtualBus);

/// Register window for ECAM, starting with the first bus.
#[derive(Clone, Debug)]
pub struct EcamWindow(VirtualBus);

impl VirtualBus {
    /// Creates a bus where every access is an exit.
    pub fn new(bridge: HostBridge) -> Self {
        Self::with(bridge, None)
    }

    /// Creates a bus with a shadowed ECAM window: only writes and reads that cannot be shadowed are
    /// exits.
    pub fn shadowed(bridge: HostBridge) -> Self {
        let shadow = Shadow::new(&bridge, bridge.buses());
        Self::with(bridge, Some(shadow))
    }

    fn with(bridge: HostBridge, shadow: Option<Shadow>) -> Self {
        let bus = Self(Rc::new(Inner {
            bridge: RefCell::new(bridge),
            shadow: shadow.map(|shadow| RefCell::new((shadow, ShadowMemory::new()))),
            exits: Cell::new(0),
            vanishing: RefCell::default(),
        }));
        bus.follow();
        bus
    }

    /// Returns a window for the ports.
    pub fn ports(&self) -> PortWindow {
        PortWindow(self.clone())
    }

    /// Returns a window for ECAM.
    pub fn ecam(&self) -> EcamWindow {
        EcamWindow(self.clone())
    }

    /// Gives the host's side access to the bridge, and then updates the shadow.
    pub fn with_bridge<T>(&self, act: impl FnOnce(&mut HostBridge) -> T) -> T {
        let result = act(&mut self.0.bridge.borrow_mut());
        self.follow();
        result
    }

    /// Returns the number of accesses so far that a VMM would have to handle.
    pub fn exits(&self) -> u64 {
        self.0.exits.get()
    }

    /// Returns the shadow's cost to the VMM so far; all zeros without a shadow.
    pub fn shadow_counts(&self) -> ShadowCounts {
        let shadow = self.0.shadow.as_ref();
        shadow.map_or_else(ShadowCounts::default, |shadow| shadow.borrow().1.counts())
    }

    /// Removes a function after `accesses` more accesses to the bus, as if it were unplugged.
    pub fn vanish_after(&self, accesses: u64, function: FunctionId) {
        self.0.vanishing.borrow_mut().push((accesses, function));
    }

    fn read(&self, data: &mut [u8], how: impl FnOnce(&mut HostBridge, &mut [u8])) {
        self.0.exits.set(self.0.exits.get().wrapping_add(1));
        how(&mut self.0.bridge.borrow_mut(), data);
        self.follow();
    }

    fn write(&self, how: impl FnOnce(&mut HostBridge)) {
        self.access();
        self.0.exits.set(self.0.exits.get().wrapping_add(1));
        self.with_bridge(how);
    }

    /// Fills `data` from the shadow's memory; returns `false` if the read traps.
    fn read_memory(&self, offset: u64, data: &mut [u8]) -> bool {
        let shadow = self.0.shadow.as_ref();
        shadow.is_some_and(|shadow| shadow.borrow().1.read(offset, data))
    }

    /// Counts one access, and removes the functions whose countdown has ended.
    fn access(&self) {
        let mut vanishing = self.0.vanishing.borrow_mut();
        if vanishing.is_empty() {
            return;
        }
        let mut gone = Vec::new();
        vanishing.retain_mut(|(left, function)| {
            if *left == 0 {
                gone.push(*function);
            }
            *left = left.saturating_sub(1);
            gone.last() != Some(function)
        });
        drop(vanishing);
        for function in gone {
            self.with_bridge(|bridge| bridge.remove(function));
        }
    }

    fn follow(&self) {
        if let Some(shadow) = &self.0.shadow {
            let (shadow, memory) = &mut *shadow.borrow_mut();
            let changes = shadow.follow(&self.0.bridge.borrow());
            let applied = memory.apply(&changes, shadow);
            debug_assert_eq!(applied, Ok(()), "every change of a shadow applies");
        }
    }
}

impl PortWindow {
    fn read<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut data = [0xff; N];
        self.0.access();
        self.0.read(&mut data, |bridge, data| {
            bridge.port_read(port(offset), data)
        });
        data
    }

    fn write(&self, offset: usize, data: &[u8]) {
        self.0.write(|bridge| {
            bridge.port_write(port(offset), data);
        });
    }
}

/// Clamps an offset beyond the eight ports to one that has no register.
fn port(offset: usize) -> u16 {
    u16::try_from(offset).unwrap_or(u16::MAX)
}

impl Registers for PortWindow {
    fn read8(&self, offset: usize) -> u8 {
        u8::from_le_bytes(self.read(offset))
    }
    fn write8(&self, offset: usize, value: u8) {
        self.write(offset, &value.to_le_bytes());
    }
    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.read(offset))
    }
    fn write16(&self, offset: usize, value: u16) {
        self.write(offset, &value.to_le_bytes());
    }
    fn read32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.read(offset))
    }
    fn write32(&self, offset: usize, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }
}

impl EcamWindow {
    /// Returns the size of the window in bytes.
    pub fn size(&self) -> usize {
        self.0.0.bridge.borrow().ecam_size() as usize
    }

    fn read<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut data = [0xff; N];
        let offset = offset as u64;
        self.0.access();
        if !self.0.read_memory(offset, &mut data) {
            self.0
                .read(&mut data, |bridge, data| bridge.ecam_read(offset, data));
        }
        data
    }

    fn write(&self, offset: usize, data: &[u8]) {
        self.0.write(|bridge| {
            bridge.ecam_write(offset as u64, data);
        });
    }
}

impl Registers for EcamWindow {
    fn read8(&self, offset: usize) -> u8 {
        u8::from_le_bytes(self.read(offset))
    }
    fn write8(&self, offset: usize, value: u8) {
        self.write(offset, &value.to_le_bytes());
    }
    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.read(offset))
    }
    fn write16(&self, offset: usize, value: u16) {
        self.write(offset, &value.to_le_bytes());
    }
    fn read32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.read(offset))
    }
    fn write32(&self, offset: usize, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }
}
