//! A shadow of a VMM's own configuration space.

use std::collections::BTreeMap;

use super::address::Address;
use super::function::Function;
use super::host_bridge::HostBridge;
use super::registers::SIZE;
use super::shadow::{Change, MAX_RUNS, Run, Shadow};
use super::tree::FunctionId;

/// A [`Shadow`] of one bus whose functions a VMM models itself. The VMM's model handles the accesses
/// that exit, and shows the mirror its registers.
///
/// Guest and VMM may run meanwhile: see [the module](super) about the order of changes.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
///
/// use nostall_devices::pci::{Address, MAX_RUNS, Mirror, Page, Run, Window};
///
/// /// In a VMM: memory that KVM maps with `KVM_MEM_READONLY`.
/// struct Memory(Vec<u8>, [Option<Run>; MAX_RUNS]);
///
/// impl Window for Memory {
///     type E = Infallible;
///
///     fn map(&mut self, slot: usize, run: Run, mapped: bool) -> Result<(), Infallible> {
///         self.1[slot] = mapped.then_some(run);
///         Ok(())
///     }
///
///     fn store(&mut self, offset: usize, word: u32) {
///         self.0[offset..offset + 4].copy_from_slice(&word.to_ne_bytes());
///     }
/// }
///
/// let memory = Memory(vec![0; Mirror::<Memory>::SIZE], [None; MAX_RUNS]);
/// let mut mirror = Mirror::new(memory);
/// let device = Address::new(0, 3, 0).unwrap();
/// mirror.show(device, Page::Registers(&[0xf4, 0x1a, 0xf0, 0x10]))?;
/// assert_eq!(mirror.window().0[3 << 15..][..4], [0xf4, 0x1a, 0xf0, 0x10]);
/// assert_eq!(mirror.window().0[4 << 15..][..4], [0xff; 4]); // no device
/// assert_eq!(mirror.window().1.iter().flatten().count(), 1);
/// mirror.show(device, Page::Traps)?;
/// assert_eq!(mirror.window().1.iter().flatten().count(), 2); // before and after the page
/// # Ok::<(), Infallible>(())
/// ```
#[derive(Debug)]
pub struct Mirror<W> {
    window: W,
    bridge: HostBridge,
    /// Places by device and function number.
    places: BTreeMap<u8, FunctionId>,
    shadow: Shadow,
    slots: [Option<Run>; MAX_RUNS],
}

/// A function's page, as the guest reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page<'a> {
    /// All ones: there is no function.
    Absent,
    /// The function's first registers. After another page the rest reads 0; else it stays as it is.
    Registers(&'a [u8]),
    /// Each read exits: it may have an effect, or its value changes by itself.
    Traps,
}

/// A guest's view of a bus: memory of [`Mirror::SIZE`] bytes, mapped in pieces.
pub trait Window {
    /// Error of a failed mapping.
    type E;

    /// Maps a run of the memory into the guest, read-only, or unmaps it. Slots are numbered from 0,
    /// below [`MAX_RUNS`].
    ///
    /// # Errors
    ///
    /// If it cannot be mapped or unmapped.
    fn map(&mut self, slot: usize, run: Run, mapped: bool) -> Result<(), Self::E>;

    /// Stores a word at a byte offset into the memory, whole. Virtual CPUs may be reading it.
    fn store(&mut self, offset: usize, word: u32);
}

impl<W: Window> Mirror<W> {
    /// Size of the window in bytes.
    pub const SIZE: usize = 1 << 20;

    /// Creates the mirror of a bus without functions. Nothing is mapped before the first call of
    /// [`show`](Self::show).
    pub fn new(window: W) -> Self {
        let bridge = HostBridge::new(0..=0);
        Self {
            window,
            shadow: Shadow::new(&bridge, 0..=0),
            bridge,
            places: BTreeMap::new(),
            slots: [None; MAX_RUNS],
        }
    }

    /// Shows `page` at `address`, whose bus number is ignored. Call it before the guest goes on,
    /// after each access that exited, reads included, and after each change by a device. It credits
    /// the guest with one exit: see [`Shadow::follow`]. Only the first call is free of charge. So a
    /// bus whose functions are shown one by one may exit for some hundred accesses.
    ///
    /// # Errors
    ///
    /// The first error of the window. Each call tries again what failed before.
    pub fn show(&mut self, address: Address, page: Page<'_>) -> Result<(), W::E> {
        self.place(address, page);
        for change in self.shadow.follow(&self.bridge) {
            match change {
                Change::Unmap(_) => {}
                Change::Map(run, _) => {
                    let mut contents = vec![0; run.length as usize];
                    self.shadow.copy(run.offset, &mut contents);
                    self.store(run.offset, &contents);
                }
                Change::Update { offset, bytes } => self.store(offset, &bytes),
                Change::Clear(run) => self.store(run.offset, &vec![0xff; run.length as usize]),
            }
        }
        let runs: Vec<_> = self.shadow.runs().collect();
        for slot in 0..MAX_RUNS {
            if let Some(run) = self.slots[slot].filter(|run| !runs.contains(run)) {
                self.set(slot, run, false)?;
            }
        }
        for run in runs {
            let is_new = !self.slots.contains(&Some(run));
            // Without a free slot the run is not mapped, and its reads exit.
            let free = self.slots.iter().position(Option::is_none);
            if let Some(slot) = free.filter(|_| is_new) {
                self.set(slot, run, true)?;
            }
        }
        Ok(())
    }

    /// Returns the window.
    pub const fn window(&self) -> &W {
        &self.window
    }

    fn place(&mut self, address: Address, page: Page<'_>) {
        let id = self.places.get(&devfn(address)).copied();
        let function = id.and_then(|id| self.bridge.function(id));
        let traps = function.map(|function| function.is_volatile_below(SIZE));
        match (page, id) {
            (Page::Traps, _) if traps == Some(true) => return,
            (Page::Registers(registers), Some(id)) if traps == Some(false) => {
                self.bridge.store(id, 0, registers);
                return;
            }
            _ => {}
        }
        if let Some(id) = id {
            self.bridge.remove(id);
        }
        let function = match page {
            Page::Absent => return,
            Page::Registers(registers) => Function::mirror(registers, false),
            Page::Traps => Function::mirror(&[], true),
        };
        let (device, number) = (address.device(), address.function());
        // The place is free, and its numbers are in range.
        if let Some(id) = id {
            let _ = self.bridge.insert(id, function);
        } else if let Ok(id) = self.bridge.add(device, number, function) {
            self.places.insert(devfn(address), id);
        }
    }

    fn set(&mut self, slot: usize, run: Run, mapped: bool) -> Result<(), W::E> {
        self.window.map(slot, run, mapped)?;
        self.slots[slot] = mapped.then_some(run);
        Ok(())
    }

    /// Stores bytes in whole words. Offset and length are multiples of 4.
    fn store(&mut self, offset: u64, bytes: &[u8]) {
        for (at, word) in (offset as usize..).step_by(4).zip(bytes.as_chunks().0) {
            self.window.store(at, u32::from_ne_bytes(*word));
        }
    }
}

const fn devfn(address: Address) -> u8 {
    address.device() << 3 | address.function()
}
