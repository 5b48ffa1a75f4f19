//! The serial port, offered with as few exits as was asked for.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{IoEventAddress, VmFd};
use nostall_devices::Credit;
use nostall_devices::uart::{BESIDE, Line, LineStatus, Output, Transmit, Uart as Model};
use nostall_io::HostClock;
use nostall_uart::registers::{LSR, MCR, THR, mcr};
use nostall_work::UartWindow;
use strum::{Display, EnumString, IntoStaticStr};

use super::mapping::{PAGE, SharedMemory};
use super::ring::Place;
use super::vm::failed;
use crate::Error;
use crate::exits::MapChanges;

/// Where a PC has its first serial port, and its interrupt.
pub const COM1: u16 = 0x3f8;
pub const IRQ: u32 = 4;

pub const REGISTERS: u16 = 8;

/// In memory: above the RAM, below the interrupt controllers.
pub const BASE: u64 = 0xd000_0000;

/// One register a page: mapping one leaves the others as they are.
pub const STRIDE: u64 = PAGE as u64;

/// The number of what lies between two registers.
const BETWEEN: usize = usize::MAX;

/// The memory slot of the line status register's page.
const SLOT: u32 = 1;

/// Transmit writes that pay for collecting being begun once more, and ended.
///
/// For each of these the host's kernel waits until nobody looks at its list of devices
/// any more (Linux: `synchronize_srcu` in `kvm_io_bus_unregister_dev`): as long as
/// hundreds of exits take, some milliseconds on some hosts. A terminal enables and
/// disables the transmit interrupt for every write to it, and must not wait for that
/// each time.
const PRICE: u32 = 1_000;

/// So many may be begun at once, before any writes: a driver looks at its port, by
/// loopback and by interrupts, when it opens it.
const MOST_CREDIT: u32 = 4 * PRICE;

/// Exits at the port that pay for mapping the line status register's page once more, and
/// taking it away.
const MAP_PRICE: u32 = 100;

/// So many exits can be saved up. A driver that opens its port makes an error or two.
const MOST_MAP_CREDIT: u32 = 4 * MAP_PRICE;

/// How the serial port is offered to the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum UartMode {
    /// By ports; every access is an exit.
    #[default]
    Ports,
    /// By ports; while nobody waits for an answer to them, transmit writes are
    /// collected by the host's kernel. If that changes more often than with every
    /// 1,000th, they are exits for a while.
    PortsCoalesced,
    /// In memory, one register a page. Transmit writes are collected likewise; the
    /// line status register's page is memory that the guest can read, unless it
    /// has an error to show.
    ///
    /// The page goes with the access that makes an error and comes back with the one
    /// that clears the last. If that happens more often than with every 100th exit, the line
    /// status is read with exits for a while.
    /// On AMD, where a guest's uncached mapping holds for it, such a read is no exit but
    /// slower than RAM; that is not tested.
    MmioReadonly,
}

impl UartMode {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Ports, Self::PortsCoalesced, Self::MmioReadonly];

    /// The stable word for it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Where the guest finds it.
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

/// The port, and what KVM does of it.
pub struct KvmSerial {
    way: UartMode,
    model: Model<HostClock, Output>,
    /// Transmit writes are being collected.
    collecting: bool,
    /// Transmit writes that have paid for nothing yet.
    credit: Credit,
    /// The line status register's page, and whether the guest has it.
    page: SharedMemory,
    mapped: bool,
    /// Exits that have paid for nothing yet.
    map_credit: Credit,
    maps: MapChanges,
    /// The interrupt line, if there is something at its other end.
    interrupt: Option<bool>,
}

impl KvmSerial {
    /// The port; its output waits in `output`.
    pub fn new(way: UartMode, has_interrupts: bool, output: Output) -> io::Result<Self> {
        Ok(Self {
            way,
            model: Model::new(HostClock::new(), Line::AtOnce, output),
            collecting: false,
            credit: Credit::full(MOST_CREDIT),
            page: SharedMemory::filled(PAGE, BESIDE)?,
            mapped: false,
            map_credit: Credit::full(MOST_MAP_CREDIT),
            maps: MapChanges::default(),
            interrupt: has_interrupts.then_some(false),
        })
    }

    /// The bytes that the guest has sent and that wait to be taken.
    pub fn sent(&mut self) -> &mut Output {
        self.model.sink_mut()
    }

    /// Bytes that the guest has sent and that were dropped.
    pub fn lost(&self) -> u64 {
        self.model.lost()
    }

    /// Changes so far of the memory that the guest can read.
    pub const fn maps(&self) -> MapChanges {
        self.maps
    }

    /// The register that lies at `place`, or `None` if this port is not there.
    pub fn register(&self, place: Place) -> Option<usize> {
        match (self.way, place) {
            (UartMode::Ports | UartMode::PortsCoalesced, Place::Port(port)) => {
                let offset = port.checked_sub(COM1)?;
                (offset < REGISTERS).then_some(offset.into())
            }
            (UartMode::MmioReadonly, Place::Memory(address)) => {
                let offset = address.checked_sub(BASE)?;
                // Between two registers there is nothing.
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

    /// As many of these bytes come in from the line as there is room for, in order;
    /// tells how many. In loopback the line is not connected: they wait.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        if self.model.read(MCR) & mcr::LOOP != 0 {
            return 0;
        }
        let now = bytes.len().min(self.model.receive_room());
        bytes[..now]
            .iter()
            .for_each(|&byte| self.model.receive(byte));
        now
    }

    /// A guest's read at `register`. By ports the bytes of a wider one are
    /// registers side by side; in memory there is one byte, and nothing beside it.
    pub fn read(&mut self, register: usize, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = self
                .at(register, i)
                .map_or(BESIDE, |at| self.model.read(at));
        }
    }

    /// A guest's write at `register`, likewise.
    pub fn write(&mut self, register: usize, data: &[u8]) {
        for (i, &byte) in data.iter().enumerate() {
            if let Some(at) = self.at(register, i) {
                self.credit.earn(u32::from(at == THR));
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

    /// Brings KVM in line with what the model offers now. To be done after each
    /// access that was handled, before the guest goes on.
    pub fn settle(&mut self, vm: &VmFd) -> Result<(), Error> {
        let offer = self.model.offer();
        self.map_credit.earn(1);
        if self.way != UartMode::Ports {
            self.collect(offer.transmit == Transmit::Collect, vm)?;
        }
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

    fn collect(&mut self, collect: bool, vm: &VmFd) -> Result<(), Error> {
        if collect == self.collecting || collect && !self.credit.spend(PRICE) {
            return Ok(());
        }
        let thr = match self.way {
            UartMode::MmioReadonly => IoEventAddress::Mmio(BASE + THR as u64 * STRIDE),
            _ => IoEventAddress::Pio(u64::from(COM1) + THR as u64),
        };
        if collect {
            vm.register_coalesced_mmio(thr, 1)
        } else {
            vm.unregister_coalesced_mmio(thr, 1)
        }
        .map_err(failed("collect writes"))?;
        self.collecting = collect;
        Ok(())
    }

    fn map(&mut self, map: bool, vm: &VmFd) -> Result<(), Error> {
        if map == self.mapped || map && !self.map_credit.spend(MAP_PRICE) {
            return Ok(());
        }
        let region = kvm_userspace_memory_region {
            slot: SLOT,
            flags: KVM_MEM_READONLY,
            guest_phys_addr: BASE + LSR as u64 * STRIDE,
            // Without a size it is taken away.
            memory_size: if map { STRIDE } else { 0 },
            userspace_addr: self.page.address(),
        };
        let start = Instant::now();
        // SAFETY: the page lives as long as this, which outlives the machine's runs;
        // the guest can only read it, and we touch it by atomics.
        unsafe { vm.set_user_memory_region(region) }
            .map_err(failed("map the line status register"))?;
        self.maps.record(1, start.elapsed());
        self.mapped = map;
        Ok(())
    }

    /// Also to be done now and then: a character timeout comes without an access.
    pub fn settle_interrupt(&mut self, vm: &VmFd) -> Result<(), Error> {
        let Some(before) = self.interrupt else {
            return Ok(());
        };
        // On a PC, OUT2 is the line's gate.
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
    fn the_line_status_page_answers_every_read_as_a_trapped_one_does() {
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
