//! The serial port, with as few exits as the options allow.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{IoEventAddress, VmFd};
use nostall_devices::Credit;
use nostall_devices::uart::{
    BESIDE, Collecting, Collection, Line, LineStatus, Output, Transmit, Uart as Model,
};
use nostall_io::HostClock;
use nostall_uart::registers::{LSR, MCR, THR, mcr};
use nostall_work::UartWindow;

use super::mapping::{PAGE, SharedMemory};
use super::ring::Place;
use super::vm::failed;
use crate::Error;
use crate::exits::MapChanges;
use crate::kvm::UartMode;

/// Address and interrupt of a PC's first serial port.
pub const COM1: u16 = 0x3f8;
pub const IRQ: u32 = 4;

pub const REGISTERS: u16 = 8;

/// Address of the memory-mapped registers: above the RAM, below the interrupt controllers.
pub const BASE: u64 = 0xd000_0000;

/// Distance between registers: one page, so that mapping one does not affect the others.
pub const STRIDE: u64 = PAGE as u64;

/// Register number for addresses between two registers.
const BETWEEN: usize = usize::MAX;

/// Memory slot of the line status register's page.
const SLOT: u32 = 1;

/// Price of mapping and unmapping the line status register's page once, in exits of the port.
const MAP_PRICE: u32 = 100;

/// Maximum and initial credit. A driver that opens its port causes one or two errors.
const MOST_MAP_CREDIT: u32 = 4 * MAP_PRICE;

impl UartMode {
    /// Returns the guest's view of the registers' location.
    pub const fn window(self) -> UartWindow {
        match self {
            Self::Ports | Self::PortsCoalesced => UartWindow::Ports,
            Self::MmioReadonly => UartWindow::Mmio {
                base: BASE,
                stride: STRIDE as u16,
            },
        }
    }
}

/// The port, and its mappings in KVM.
pub struct KvmSerial {
    way: UartMode,
    model: Model<HostClock, Output>,
    collection: Collection,
    /// Page of the line status register, and whether the guest has it mapped.
    page: SharedMemory,
    mapped: bool,
    /// Credit from exits.
    map_credit: Credit,
    maps: MapChanges,
    /// Level of the interrupt line; `None` if it is not connected.
    interrupt: Option<bool>,
}

impl KvmSerial {
    /// Creates the port; its output is stored in `output`.
    pub fn new(way: UartMode, has_interrupts: bool, output: Output) -> io::Result<Self> {
        Ok(Self {
            way,
            model: Model::new(HostClock::new(), Line::AtOnce, output),
            collection: Collection::default(),
            page: SharedMemory::filled(PAGE, BESIDE)?,
            mapped: false,
            map_credit: Credit::full(MOST_MAP_CREDIT),
            maps: MapChanges::default(),
            interrupt: has_interrupts.then_some(false),
        })
    }

    /// Returns the output: bytes that the guest sent and the caller has not taken.
    pub fn sent(&mut self) -> &mut Output {
        self.model.sink_mut()
    }

    /// Returns the number of sent bytes that were dropped.
    pub fn lost(&self) -> u64 {
        self.model.lost()
    }

    /// Returns the number of mapping changes so far.
    pub const fn maps(&self) -> MapChanges {
        self.maps
    }

    /// Returns the register at `place`; `None` if it does not belong to the port.
    pub fn register(&self, place: Place) -> Option<usize> {
        match (self.way, place) {
            (UartMode::Ports | UartMode::PortsCoalesced, Place::Port(port)) => {
                let offset = port.checked_sub(COM1)?;
                (offset < REGISTERS).then_some(offset.into())
            }
            (UartMode::MmioReadonly, Place::Memory(address)) => {
                let offset = address.checked_sub(BASE)?;
                // No register lies between two registers' addresses.
                let register = usize::try_from(offset / STRIDE).ok()?;
                (offset < STRIDE * u64::from(REGISTERS)).then_some(if offset % STRIDE == 0 {
                    register
                } else {
                    BETWEEN
                })
            }
            _ => None,
        }
    }

    /// Handles a guest's read at `register`. Through ports, a wider read reads adjacent registers.
    /// In memory, only the first byte is a register.
    pub fn read(&mut self, register: usize, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = self
                .at(register, i)
                .map_or(BESIDE, |at| self.model.read(at));
        }
    }

    /// Handles a guest's write at `register`; wider writes follow the rules of
    /// [`read`](Self::read).
    pub fn write(&mut self, register: usize, data: &[u8]) {
        for (i, &byte) in data.iter().enumerate() {
            if let Some(at) = self.at(register, i) {
                self.model.write(at, byte);
            }
        }
    }

    fn at(&self, register: usize, byte: usize) -> Option<usize> {
        match self.way {
            UartMode::MmioReadonly => (byte == 0 && register != BETWEEN).then_some(register),
            _ => register.checked_add(byte),
        }
    }

    /// Updates KVM's mappings and collection to the model's offer. Call it after each handled
    /// access, before the guest resumes.
    pub fn settle(&mut self, vm: &VmFd) -> Result<(), Error> {
        let offer = self.model.offer();
        self.map_credit.earn(1);
        self.collect(offer.transmit, vm)?;
        if self.way == UartMode::MmioReadonly {
            match offer.line_status {
                LineStatus::Memory(value) => {
                    if let Some(byte) = self.page.byte(0) {
                        byte.store(value, Ordering::Release);
                    }
                    self.map(true, vm)?;
                }
                LineStatus::Trap => self.map(false, vm)?,
            }
        }
        self.settle_interrupt(vm)
    }

    /// Follows the model's offer after a collected write, which was no exit.
    pub fn settle_collected(&mut self, vm: &VmFd) -> Result<(), Error> {
        let transmit = self.model.offer().transmit;
        self.collect(transmit, vm)
    }

    fn collect(&mut self, transmit: Transmit, vm: &VmFd) -> Result<(), Error> {
        let thr = match self.way {
            UartMode::Ports => return Ok(()),
            UartMode::PortsCoalesced => IoEventAddress::Pio(u64::from(COM1) + THR as u64),
            UartMode::MmioReadonly => IoEventAddress::Mmio(BASE + THR as u64 * STRIDE),
        };
        match self.collection.follow(transmit) {
            None => Ok(()),
            Some(Collecting::Starts) => vm.register_coalesced_mmio(thr, 1),
            Some(Collecting::Stops) => vm.unregister_coalesced_mmio(thr, 1),
        }
        .map_err(failed("collect writes"))
    }

    fn map(&mut self, map: bool, vm: &VmFd) -> Result<(), Error> {
        if map == self.mapped || map && !self.map_credit.spend(MAP_PRICE) {
            return Ok(());
        }
        let region = kvm_userspace_memory_region {
            slot: SLOT,
            flags: KVM_MEM_READONLY,
            guest_phys_addr: BASE + LSR as u64 * STRIDE,
            // A size of 0 removes the slot.
            memory_size: if map { STRIDE } else { 0 },
            userspace_addr: self.page.address(),
        };
        let start = Instant::now();
        // SAFETY: the page lives as long as `self`, which outlives the machine's runs. The guest
        // can only read it, and this process accesses it with atomics.
        unsafe { vm.set_user_memory_region(region) }
            .map_err(failed("map the line status register"))?;
        self.maps.record(1, start.elapsed());
        self.mapped = map;
        Ok(())
    }

    /// Updates the interrupt line. Also call it periodically: a character timeout occurs without an
    /// access.
    pub fn settle_interrupt(&mut self, vm: &VmFd) -> Result<(), Error> {
        let Some(before) = self.interrupt else {
            return Ok(());
        };
        // On a PC, OUT2 of the MCR gates the line.
        let high = self.model.interrupt().is_some() && self.model.read(MCR) & mcr::OUT2 != 0;
        if high != before {
            vm.set_irq_line(IRQ, high)
                .map_err(failed("set an interrupt line"))?;
            self.interrupt = Some(high);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_status_page_and_a_trap_return_the_same_for_every_read() {
        let mut serial = KvmSerial::new(UartMode::MmioReadonly, false, Output::new(1, 0)).unwrap();
        let LineStatus::Memory(value) = serial.model.offer().line_status else {
            panic!("not offered");
        };
        serial.page.byte(0).unwrap().store(value, Ordering::Release);
        for offset in 0..PAGE {
            for length in [1, 2, 4, 8] {
                let bytes = (offset..offset + length).map(|at| serial.page.byte(at));
                let Some(mapped) = bytes.collect::<Option<Vec<_>>>() else {
                    continue; // KVM splits it at the page's end
                };
                let mapped: Vec<u8> = mapped
                    .iter()
                    .map(|byte| byte.load(Ordering::Acquire))
                    .collect();
                let place = Place::Memory(BASE + LSR as u64 * STRIDE + offset as u64);
                let register = serial.register(place).unwrap();
                let mut trapped = vec![0xaa; length];
                serial.read(register, &mut trapped);
                assert_eq!(trapped, mapped, "{length} bytes at {offset}");
            }
        }
    }
}
