//! The PCI host bridge, offered with as few exits as was asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::str::FromStr;

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{IoEventAddress, VmFd};
use nostall_devices::pci::{Change, Contents, HostBridge, Run, Shadow, Topology};

use super::failed;
use super::mapping::SharedMemory;
use super::ring::Place;
use crate::Error;

/// The index and the data port (PCI Local Bus 3.0, 3.2.2.3.2).
pub const PORTS: RangeInclusive<u16> = 0xcf8..=0xcff;

/// Where all of configuration space lies in memory.
pub const ECAM: u64 = 0xe000_0000;

/// What the bridge decodes: twice what [`Topology`] needs, and a window of 16 MiB.
pub const BUSES: RangeInclusive<u8> = 0..=15;

/// One bus in that window.
const BUS: usize = 1 << 20;

/// The first memory slot that is free for runs of the window.
const FIRST_SLOT: u32 = 2;

/// How PCI configuration space is offered to the guest. It is always there by ports
/// and by ECAM; the rest differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pci {
    /// Every access is an exit.
    #[default]
    Trap,
    /// Writes to the index port are collected by the host's kernel, as in QEMU, so
    /// that an access by ports is one exit and not two.
    PortsCoalesced,
    /// The ECAM window is memory that the guest can read. Writes are exits, and what
    /// they change is in that memory before the guest goes on. On AMD, where a guest's
    /// uncached mapping holds for it, a read is no exit but slower than RAM; that is not
    /// tested.
    EcamShadow,
}

impl Pci {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Trap, Self::PortsCoalesced, Self::EcamShadow];

    /// The stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::PortsCoalesced => "ports-coalesced",
            Self::EcamShadow => "ecam-shadow",
        }
    }
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pci {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|way| way.name() == name)
            .ok_or(())
    }
}

/// A place in configuration space, by one of the ways to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Counted from the index port.
    Port(u16),
    /// In the ECAM window.
    Ecam(u64),
}

/// The host bridge, and what KVM does of it.
pub struct PciBus {
    bridge: HostBridge,
    shadow: Option<Mapped>,
}

/// Ready made devices.
pub fn devices() -> Result<Topology, Error> {
    Topology::new(BUSES).map_err(|error| Error::Unbootable(format!("no PCI devices: {error}")))
}

impl PciBus {
    /// The devices behind `bridge`, and `way` put into effect.
    pub fn new(bridge: HostBridge, way: Pci, vm: &VmFd) -> Result<Self, Error> {
        if way == Pci::PortsCoalesced {
            let index = IoEventAddress::Pio((*PORTS.start()).into());
            vm.register_coalesced_mmio(index, 4)
                .map_err(failed("collect writes"))?;
        }
        let shadow = (way == Pci::EcamShadow).then(|| Mapped::new(&bridge));
        let mut this = Self {
            shadow: shadow.transpose()?,
            bridge,
        };
        this.follow(vm)?;
        Ok(this)
    }

    /// What lies at `place`, or `None` if this bridge has nothing there.
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

    /// A guest's read.
    pub fn read(&mut self, at: At, data: &mut [u8]) {
        match at {
            At::Port(offset) => self.bridge.port_read(offset, data),
            At::Ecam(offset) => self.bridge.ecam_read(offset, data),
        }
    }

    /// A guest's write. Whoever writes lets the shadow [`follow`](Self::follow).
    pub fn write(&mut self, at: At, data: &[u8]) {
        // No device behind it does anything: nobody asks what was written.
        match at {
            At::Port(offset) => self.bridge.port_write(offset, data),
            At::Ecam(offset) => self.bridge.ecam_write(offset, data),
        };
    }

    /// Brings the guest's memory in line with the bridge. The guest's one CPU must
    /// not be running: it would see a mapping gone that is only being changed.
    pub fn follow(&mut self, vm: &VmFd) -> Result<(), Error> {
        match &mut self.shadow {
            Some(shadow) => shadow.follow(&self.bridge, vm),
            None => Ok(()),
        }
    }
}

/// The shadow's runs, each in a memory slot.
struct Mapped {
    shadow: Shadow,
    /// By where they start in the window.
    runs: BTreeMap<u64, Slot>,
    /// What every bus without a function reads.
    ones: SharedMemory,
}

struct Slot {
    number: u32,
    /// `None` if it is all ones.
    memory: Option<SharedMemory>,
}

impl Mapped {
    fn new(bridge: &HostBridge) -> io::Result<Self> {
        Ok(Self {
            shadow: Shadow::new(bridge, BUSES),
            runs: BTreeMap::new(),
            ones: SharedMemory::filled(BUS, !0)?,
        })
    }

    fn follow(&mut self, bridge: &HostBridge, vm: &VmFd) -> Result<(), Error> {
        for change in self.shadow.follow(bridge) {
            match change {
                Change::Unmap(run) => self.unmap(run, vm)?,
                Change::Map(run, contents) => self.map(run, contents, vm)?,
                Change::Update { offset, bytes } => self.update(offset, &bytes),
            }
        }
        Ok(())
    }

    fn map(&mut self, run: Run, contents: Contents, vm: &VmFd) -> Result<(), Error> {
        let length = run.length as usize;
        let memory = match contents {
            Contents::AllOnes => None,
            Contents::Functions => {
                let memory = SharedMemory::filled(length, !0)?;
                let mut bytes = vec![0; length];
                self.shadow.copy(run.offset, &mut bytes);
                memory.store(0, &bytes);
                Some(memory)
            }
        };
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

    fn unmap(&mut self, run: Run, vm: &VmFd) -> Result<(), Error> {
        if let Some(slot) = self.runs.remove(&run.offset) {
            let host = slot.memory.as_ref().unwrap_or(&self.ones).address();
            set_slot(vm, slot.number, run, 0, host)?;
        }
        Ok(())
    }

    fn update(&self, offset: u64, bytes: &[u8]) {
        if let Some((start, slot)) = self.runs.range(..=offset).next_back()
            && let Some(memory) = &slot.memory
        {
            memory.store((offset - start) as usize, bytes);
        }
    }
}

/// Maps a run for reading; without a length, takes it away.
fn set_slot(vm: &VmFd, slot: u32, run: Run, length: u64, host: u64) -> Result<(), Error> {
    let region = kvm_userspace_memory_region {
        slot,
        flags: KVM_MEM_READONLY,
        guest_phys_addr: ECAM + run.offset,
        memory_size: length,
        userspace_addr: host,
    };
    // SAFETY: the memory is at least as long as the run and is kept until the run is
    // unmapped, or the machine no longer runs; the guest can only read it, and we
    // touch it by atomics.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("map configuration space"))
}
