//! Options and properties of KVM's machine, on every host.

use std::fmt;

use nostall_io::Nanos;
use strum::{Display, EnumString, IntoStaticStr};

/// Access to the serial port for the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum UartMode {
    /// Ports; every access is an exit.
    #[default]
    Ports,
    /// Ports; the host's kernel collects transmit writes while they need no immediate handling. If
    /// that state changes more often than every 1,000 writes, writes exit for a while.
    PortsCoalesced,
    /// Memory-mapped, one register per page. Transmit writes are collected as in the mode above.
    /// The guest reads the line status register's page as memory, unless an error is to be
    /// reported.
    ///
    /// The access that causes an error unmaps the page. The access that clears the last error maps
    /// it again. If that happens more often than every 100 exits, reads of the line status exit for
    /// a while.
    ///
    /// On AMD, a guest's uncached mapping takes effect: a read needs no exit, but is slower than
    /// RAM. That is not tested.
    MmioReadonly,
}

impl UartMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Ports, Self::PortsCoalesced, Self::MmioReadonly];

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Access to PCI configuration space for the guest. Ports and ECAM always work, at different costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum PciMode {
    /// Every access is an exit.
    #[default]
    Trap,
    /// The host's kernel collects writes to the index port, as in QEMU. An access through ports is
    /// then one exit instead of two.
    PortsCoalesced,
    /// The ECAM window is memory that the guest can read. Writes exit, and the memory is updated
    /// before the guest resumes. On AMD, a guest's uncached mapping takes effect: a read needs no
    /// exit, but is slower than RAM. That is not tested.
    EcamShadow,
}

impl PciMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Trap, Self::PortsCoalesced, Self::EcamShadow];

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Options of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Access to the serial port.
    pub uart: UartMode,
    /// Access to PCI configuration space.
    pub pci: PciMode,
}

/// Capabilities of a KVM that this machine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Memory that the guest reads without an exit; writes to it exit.
    pub read_only_memory: bool,
    /// Collecting writes to memory-mapped registers.
    pub coalesced_mmio: bool,
    /// Collecting writes to ports.
    pub coalesced_ports: bool,
    /// Interrupt controllers and a timer in the kernel.
    pub interrupts: bool,
    /// Reading the rate of the time stamp counter.
    pub tsc_rate: bool,
    /// Statistics in binary form.
    pub statistics: bool,
}

/// Speed of a short loop of guest code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Duration of the whole loop.
    pub(super) took: Nanos,
}

/// Iterations of the loop, two instructions each.
pub(super) const ROUNDS: u16 = 10_000;

/// Longest time per instruction on hardware. The slowest CPU with VT-x takes a nanosecond. One or
/// two exits in the loop do not raise the average to 50.
const HARDWARE: Nanos = Nanos(50);

impl Speed {
    /// Returns the duration of one instruction.
    pub fn per_instruction(self) -> Nanos {
        self.took / (2 * u64::from(ROUNDS))
    }

    /// Returns whether guest code is too slow for hardware execution.
    pub fn is_interpreted(self) -> bool {
        self.per_instruction() > HARDWARE
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_interpreted() {
            "interprets guest code"
        } else {
            "runs guest code"
        };
        write!(f, "{how}, {} an instruction", self.per_instruction())
    }
}
