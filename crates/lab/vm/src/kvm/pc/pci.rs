//! The PCI host bridge, with as few exits as the options allow.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::time::Instant;

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{IoEventAddress, VmFd};
use nostall_devices::pci::{Change, Contents, HostBridge, MAX_RUNS, Run, Shadow, Topology};

use super::mapping::SharedMemory;
use super::ring::Place;
use super::vm::failed;
use crate::Error;
use crate::exits::MapChanges;
use crate::kvm::PciMode;
use crate::process::MemoryFile;

/// Index and data port (PCI Local Bus 3.0, 3.2.2.3.2).
pub const PORTS: RangeInclusive<u16> = 0xcf8..=0xcff;

/// Address of the ECAM window.
pub const ECAM: u64 = 0xe000_0000;

/// The bridge's buses: twice as many as [`Topology`] needs, with an ECAM window of 16 MiB.
pub const BUSES: RangeInclusive<u8> = 0..=15;

/// Size of one bus in the window, in bytes.
const BUS: usize = 1 << 20;

/// First memory slot for the window's runs, behind those of RAM and the serial port. All of them
/// are below the 509 that every KVM has.
const FIRST_SLOT: u32 = 2;
const _: () = assert!(FIRST_SLOT as usize + (*BUSES.end() as usize + 1) * MAX_RUNS <= 509);

/// A register of configuration space, with its access method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Offset from the index port.
    Port(u16),
    /// Offset in the ECAM window.
    Ecam(u64),
}

/// The host bridge, and its mappings in KVM.
pub struct PciBus {
    bridge: HostBridge,
    shadow: Option<Mapped>,
}

/// Returns the PCI devices of the machine.
pub fn devices() -> Result<Topology, Error> {
    Topology::new(BUSES).map_err(|error| Error::Unbootable(format!("no PCI devices: {error}")))
}

impl PciBus {
    /// Creates the bus for `bridge` and enables the mode.
    pub fn new(bridge: HostBridge, way: PciMode, vm: &VmFd) -> Result<Self, Error> {
        if way == PciMode::PortsCoalesced {
            let index = IoEventAddress::Pio((*PORTS.start()).into());
            vm.register_coalesced_mmio(index, 4)
                .map_err(failed("collect writes"))?;
        }
        let shadow = (way == PciMode::EcamShadow).then(|| Mapped::new(&bridge));
        let mut this = Self {
            shadow: shadow.transpose()?,
            bridge,
        };
        this.follow(vm)?;
        Ok(this)
    }

    /// Returns the access method of `place`; `None` if it does not belong to the bridge.
    pub fn find(&self, place: Place) -> Option<At> {
        match place {
            Place::Port(port) => PORTS
                .contains(&port)
                .then(|| At::Port(port - PORTS.start())),
            Place::Memory(address) => {
                let offset = address.checked_sub(ECAM)?;
                (offset < self.bridge.ecam_size()).then_some(At::Ecam(offset))
            }
        }
    }

    /// Handles a guest's read. The caller then calls [`follow`](Self::follow), because a read earns
    /// credit.
    pub fn read(&mut self, at: At, data: &mut [u8]) {
        match at {
            At::Port(offset) => self.bridge.port_read(offset, data),
            At::Ecam(offset) => self.bridge.ecam_read(offset, data),
        }
    }

    /// Handles a guest's write. The caller then calls [`follow`](Self::follow).
    pub fn write(&mut self, at: At, data: &[u8]) {
        // The written function is not needed: no device reacts to writes.
        match at {
            At::Port(offset) => self.bridge.port_write(offset, data),
            At::Ecam(offset) => self.bridge.ecam_write(offset, data),
        };
    }

    /// Updates the guest's memory after each exit that the bridge handled. The guest's only CPU
    /// must not be running, because a mapping is absent while it changes.
    pub fn follow(&mut self, vm: &VmFd) -> Result<(), Error> {
        match &mut self.shadow {
            Some(shadow) => shadow.follow(&self.bridge, vm),
            None => Ok(()),
        }
    }

    /// Returns the number of mapping changes so far.
    pub fn maps(&self) -> MapChanges {
        let shadow = self.shadow.as_ref();
        shadow.map_or_else(MapChanges::default, |shadow| shadow.maps)
    }
}

/// Runs of the shadow, each in its own memory slot.
struct Mapped {
    shadow: Shadow,
    /// Slots by the runs' start in the window.
    runs: BTreeMap<u64, Slot>,
    /// One bus of ones: the contents of all mapped pages without a function.
    all_ones: MemoryFile,
    /// Memory of all buses without a function.
    ones: SharedMemory,
    maps: MapChanges,
}

struct Slot {
    number: u32,
    /// Memory of the run; `None` if it is all ones.
    memory: Option<SharedMemory>,
}

impl Mapped {
    /// Creates the state without mappings.
    fn new(bridge: &HostBridge) -> io::Result<Self> {
        let all_ones = MemoryFile::new(&[0xff; BUS])?;
        Ok(Self {
            shadow: Shadow::new(bridge, bridge.buses()),
            runs: BTreeMap::new(),
            ones: SharedMemory::over(&all_ones, BUS)?,
            all_ones,
            maps: MapChanges::default(),
        })
    }

    fn follow(&mut self, bridge: &HostBridge, vm: &VmFd) -> Result<(), Error> {
        let changes = self.shadow.follow(bridge);
        if changes.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let mut maps = 0;
        for change in changes {
            maps += u64::from(matches!(change, Change::Unmap(_) | Change::Map(..)));
            match change {
                Change::Unmap(run) => self.unmap(run, vm)?,
                Change::Map(run, contents) => self.map(run, contents, vm)?,
                Change::Update { offset, bytes } => self.update(offset, &bytes),
                Change::Clear(run) => self.clear(run)?,
            }
        }
        if maps > 0 {
            self.maps.record(maps, start.elapsed());
        }
        Ok(())
    }

    fn map(&mut self, run: Run, contents: Contents, vm: &VmFd) -> Result<(), Error> {
        let memory = self.memory(run, contents)?;
        let used: Vec<_> = self.runs.values().map(|slot| slot.number).collect();
        let number = (FIRST_SLOT..).find(|number| !used.contains(number));
        let slot = Slot {
            number: number.unwrap_or(u32::MAX),
            memory,
        };
        let host = slot.memory.as_ref().unwrap_or(&self.ones).address();
        set_slot(vm, slot.number, run, run.length, host)?;
        self.runs.insert(run.offset, slot);
        Ok(())
    }

    /// Returns memory for a run; `None` if `ones` has the contents.
    fn memory(&self, run: Run, contents: Contents) -> io::Result<Option<SharedMemory>> {
        let length = run.length as usize;
        Ok(match contents {
            Contents::AllOnes => None,
            Contents::Functions => {
                let memory = SharedMemory::over(&self.all_ones, length)?;
                for (offset, bytes) in self.shadow.pages(run) {
                    memory.store((offset - run.offset) as usize, bytes);
                }
                Some(memory)
            }
        })
    }

    fn unmap(&mut self, run: Run, vm: &VmFd) -> Result<(), Error> {
        if let Some(slot) = self.runs.remove(&run.offset) {
            let host = slot.memory.as_ref().unwrap_or(&self.ones).address();
            set_slot(vm, slot.number, run, 0, host)?;
        }
        Ok(())
    }

    fn update(&self, offset: u64, bytes: &[u8]) {
        if let Some((memory, at)) = self.at(offset) {
            memory.store(at, bytes);
        }
    }

    fn clear(&self, run: Run) -> io::Result<()> {
        match self.at(run.offset) {
            Some((memory, at)) => memory.forget(at, run.length as usize),
            None => Ok(()),
        }
    }

    /// Returns the memory of the mapped run at this offset of the window, and the offset within it.
    fn at(&self, offset: u64) -> Option<(&SharedMemory, usize)> {
        let (start, slot) = self.runs.range(..=offset).next_back()?;
        Some((slot.memory.as_ref()?, (offset - start) as usize))
    }
}

/// Maps a run read-only; a length of 0 unmaps it.
fn set_slot(vm: &VmFd, slot: u32, run: Run, length: u64, host: u64) -> Result<(), Error> {
    let region = kvm_userspace_memory_region {
        slot,
        flags: KVM_MEM_READONLY,
        guest_phys_addr: ECAM + run.offset,
        memory_size: length,
        userspace_addr: host,
    };
    // SAFETY: the memory is at least as long as the run, and outlives the mapping or the machine's
    // run. The guest can only read it, and this process accesses it with atomics.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("map configuration space"))
}

#[cfg(test)]
mod tests {
    use nostall_devices::pci::{Class, Function, PortType};

    use super::*;

    const PORTS: u8 = 240;

    /// Returns a bridge with 240 root ports, each with one function behind it.
    fn bridge() -> HostBridge {
        let mut bridge = HostBridge::new(0..=PORTS);
        for n in 0..PORTS {
            let port = Function::bridge(0x1af4, 0x10f1).express(PortType::RootPort);
            let port = bridge.add(n / 8, n % 8, port.build().unwrap()).unwrap();
            let endpoint = Function::endpoint(0x1af4, 0x10f5, Class::new(0x12, 0, 0));
            bridge
                .add_behind(port, 0, 0, endpoint.build().unwrap())
                .unwrap();
            bridge.store(port, 0x18, &[0, n + 1, n + 1]).unwrap();
        }
        bridge
    }

    /// Returns the size of this process's private memory in the mapping, in KiB.
    fn private(memory: &SharedMemory, len: u64) -> u64 {
        let addresses = memory.address()..memory.address() + len;
        let mut inside = false;
        let mut sum = 0;
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let (first, rest) = line.split_once(' ').unwrap();
            if let Some((start, _)) = first.split_once('-') {
                inside = addresses.contains(&u64::from_str_radix(start, 16).unwrap());
            } else if inside && first == "Anonymous:" {
                let kib = rest.trim().strip_suffix(" kB").unwrap();
                sum += kib.parse::<u64>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn a_machine_with_240_ports_has_one_private_page_per_function() {
        let mut bridge = bridge();
        let mut mapped = Mapped::new(&bridge).unwrap();
        let mut memories = Vec::new();
        for change in mapped.shadow.follow(&bridge) {
            let Change::Map(run, contents) = change else {
                panic!("{change:?}");
            };
            let memory = mapped.memory(run, contents).unwrap();
            memories.push((run, memory.unwrap()));
        }
        // One memory, and thus one memory slot, for each bus.
        assert_eq!(memories.len(), usize::from(PORTS) + 1);
        let read = |memory: &SharedMemory, offset: u64| {
            let word = memory.word(offset as usize).unwrap();
            word.load(std::sync::atomic::Ordering::Relaxed)
        };
        let mut absent = 0;
        for (run, memory) in &memories {
            for at in (0..run.length).step_by(0x400) {
                let mut answered = [0; 4];
                bridge.ecam_read(run.offset + at, &mut answered);
                absent += u32::from(answered == [0xff; 4]);
                let seen = read(memory, at).to_le_bytes();
                assert_eq!(seen, answered, "{:#x}", run.offset + at);
            }
        }
        assert!(absent > 200_000, "{absent} reads of absent functions");
        let all = memories
            .iter()
            .map(|(run, memory)| private(memory, run.length));
        let pages = all.sum::<u64>() * 1024 / crate::kvm::pc::PAGE as u64;
        assert_eq!(
            pages,
            2 * u64::from(PORTS),
            "for 240 ports and 240 functions"
        );
    }

    #[test]
    fn a_removed_function_frees_its_page() {
        let bridge = bridge();
        let mut mapped = Mapped::new(&bridge).unwrap();
        let _ = mapped.shadow.follow(&bridge);
        let root = Run {
            offset: 0,
            length: BUS as u64,
        };
        let memory = mapped.memory(root, Contents::Functions).unwrap().unwrap();
        let before = private(&memory, root.length);
        memory.forget(0x3000, 0x1000).unwrap();
        assert_eq!(private(&memory, root.length), before - 4);
        let word = memory.word(0x3000).unwrap();
        assert_eq!(word.load(std::sync::atomic::Ordering::Relaxed), !0);
        assert!(memory.forget(BUS, 0x1000).is_err(), "outside");
    }
}
