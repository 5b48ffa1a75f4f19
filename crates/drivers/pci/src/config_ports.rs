//! Access through ports: an index, then the data.

use lock_api::{Mutex, MutexGuard, RawMutex};
use nostall_io::{Held, Processor, Registers, StallCondition};

use crate::Address;
use crate::access::{AccessError, ConfigAccess, Register, check};

/// First of the eight ports (PCI 3.0, 3.2.2.3.2, "Software Generation of Configuration
/// Transactions").
pub const PORT: u16 = 0xcf8;

/// Number of ports.
pub const PORTS: u16 = 8;

/// Offsets of CONFIG_ADDRESS and CONFIG_DATA from [`PORT`].
const INDEX: usize = 0;
const DATA: usize = 4;

/// Bit of CONFIG_ADDRESS: accesses to CONFIG_DATA are configuration cycles.
const ENABLE: u32 = 1 << 31;

/// Configuration space through a PC's port pair 0xCF8 and 0xCFC.
///
/// An access takes two bus accesses, and in a virtual machine two exits. The first selects the
/// register for the second, so both are made under one lock with interrupts masked. NMI handlers
/// must not use it, because an NMI interrupts this sequence too.
///
/// The ports reach only the first 256 registers of each function of segment 0.
#[derive(Debug)]
pub struct ConfigPorts<L: RawMutex, R, P> {
    window: Mutex<L, R>,
    processor: P,
}

impl<L: RawMutex, R: Registers, P: Processor> ConfigPorts<L, R, P> {
    /// Creates the method. `window` is the [`PORTS`] ports from [`PORT`], which no other code may
    /// use.
    pub const fn new(window: R, processor: P) -> Self {
        Self {
            window: Mutex::new(window),
            processor,
        }
    }

    /// Returns whether the ports exist: the index register keeps a written value. Restores the
    /// register.
    ///
    /// Some virtual machines have only ECAM, for example QEMU's `microvm`. Their ports read all
    /// ones, as if there were no device.
    pub fn exist(&self) -> bool {
        self.processor.without_interrupts(|| {
            let window = self.lock();
            let before = window.read32(INDEX);
            window.write32(INDEX, ENABLE);
            let found = window.read32(INDEX) == ENABLE;
            window.write32(INDEX, before);
            found
        })
    }

    /// Returns the window.
    pub fn into_window(self) -> R {
        self.window.into_inner()
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, L, R> {
        self.window.try_lock().unwrap_or_else(|| {
            let _held = Held::begin(StallCondition::Lock);
            self.window.lock()
        })
    }

    #[inline]
    fn pair<T>(
        &self,
        address: Address,
        register: Register,
        data: impl FnOnce(&R, usize) -> T,
    ) -> T {
        let register = usize::from(register.number());
        let index = ENABLE
            | u32::from(address.bus()) << 16
            | u32::from(address.devfn()) << 8
            | (register & 0xfc) as u32;
        self.processor.without_interrupts(|| {
            let window = self.lock();
            window.write32(INDEX, index);
            data(&window, DATA + (register & 3))
        })
    }
}

impl<L: RawMutex, R: Registers, P: Processor> ConfigAccess for ConfigPorts<L, R, P> {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        address.segment() == 0 && register < 256
    }

    #[inline]
    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        check(self, address, register)?;
        Ok(self.pair(address, register, |ports, data| {
            register.width().read_in(ports, data)
        }))
    }

    #[inline]
    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        check(self, address, register)?;
        self.pair(address, register, |ports, data| {
            register.width().write_in(ports, data, value);
        });
        Ok(())
    }
}
