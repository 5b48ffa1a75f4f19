//! Device models: the other end of the wire.
//!
//! A model is independent of the hypervisor. Its inputs are register accesses and the time. It
//! responds as its data sheet specifies. No guest access makes it grow, hang or panic.
//!
//! In the tests of nostall's drivers, a model runs in virtual time. A minute of a 115,200-baud line
//! then costs no waiting, and every figure is exact and repeatable. In a VMM, a model runs with the
//! host's clock, and can be saved and restored.
//!
//! - [`uart`]: the 16550 and its family; [`uart::vm_superio`] has `vm-superio`'s interface;
//! - [`pl011`]: ARM's PL011 and the SBSA generic UART;
//! - [`pci`]: a host bridge with configuration functions, and its ECAM window as memory, so that
//!   reads need no exit;
//! - [`spi`]: an SD card, a NOR flash, a CAN controller, and the wires to them;
//! - `vm_device` (feature `vm-device`): adapters of [`uart`] and [`pci`] for rust-vmm's device
//!   manager.
//!
//! When not to use it: [`uart`] and [`pl011`] are for drivers and guests that print and read. They
//! have no DMA, and the automatic flow control of the enhanced 16550s has no effect. [`pci`] is configuration space,
//! without devices behind its BARs. [`spi`] has one data wire in each direction.
//!
//! # Example
//!
//! ```
//! use nostall_devices::uart::{Profile, Uart};
//! use nostall_io::{Clock, Registers, Nanos};
//! use nostall_uart::registers::{DLL, LCR, LSR, THR, lcr, lsr};
//!
//! let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
//! port.write8(LCR, lcr::DLAB);
//! port.write8(DLL, 1); // 115,200 baud
//! port.write8(LCR, 3); // 8N1
//! port.write8(THR, b'x');
//! assert_eq!(port.read8(LSR) & lsr::TEMT, 0, "the frame is on its way");
//! clock.wait_until(clock.now() + Nanos::from_micros(87));
//! assert_ne!(port.read8(LSR) & lsr::TEMT, 0);
//! assert_eq!(port.into_sink(), b"x");
//! ```
//!
//! In a VMM, the same model uses the host's clock, which it cannot advance. The VMM reads its
//! interrupt line after each access, and at the time that `next_event` returns:
//!
//! ```
//! use nostall_devices::uart::{Line, Uart};
//! use nostall_io::HostClock;
//! use nostall_uart::registers::{IER, RBR, THR, ier, iir};
//!
//! let mut uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
//! uart.write(IER, ier::RECEIVED_DATA); // the guest's accesses
//! uart.write(THR, b'x');
//! if uart.receive_room() > 0 {
//!     uart.receive(b'y'); // the user typed something
//! }
//! assert_eq!(uart.interrupt(), Some(iir::RECEIVED_DATA)); // the line is high
//! assert_eq!(uart.next_event(), None); // no timer is needed
//! let state = uart.save();
//! # let mut elsewhere = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
//! elsewhere.restore(&state);
//! assert_eq!(elsewhere.read(RBR), b'y');
//! ```
//!
//! A PCI driver finds its devices through the same register windows as on a real bus. Every access
//! that would be a VM exit is counted:
//!
//! ```
//! use nostall_devices::pci::{Topology, VirtualBus};
//! use nostall_io::Registers;
//!
//! let bus = VirtualBus::shadowed(Topology::new(0..=7)?.bridge);
//! let ecam = bus.ecam();
//! let found = (0..256).filter(|devfn| ecam.read32(devfn << 12) != !0).count();
//! assert_eq!(found, 7); // on the first bus
//! assert_eq!(bus.exits(), 0); // read from memory
//! ecam.write32(1 << 15 | 0x10, !0); // how large is its first BAR?
//! assert_eq!(ecam.read32(1 << 15 | 0x10), 0xffff_f000);
//! assert_eq!(bus.exits(), 1); // the write
//! # Ok::<(), nostall_devices::pci::TopologyFailure>(())
//! ```
//!
//! An SPI driver reaches the devices through embedded-hal's traits:
//!
//! ```
//! use embedded_hal::digital::OutputPin;
//! use embedded_hal::spi::SpiBus;
//! use nostall_devices::VirtualClock;
//! use nostall_devices::spi::{Flash, Wires};
//!
//! let clock = VirtualClock::new();
//! let mut wires = Wires::new(clock.clone());
//! let mut line = wires.connect(Flash::new(clock));
//! let mut id = [0x9f, 0, 0, 0];
//! line.set_low()?;
//! wires.transfer_in_place(&mut id)?;
//! line.set_high()?;
//! assert_eq!(id[1..], [0x9d, 0x70, 0x19]);
//! # Ok::<(), core::convert::Infallible>(())
//! ```
//!
//! # Looking inside
//!
//! The models are plain state machines that implement `Debug`: print one between two accesses.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
mod clock;
mod credit;
#[cfg(feature = "std")]
mod fault;
#[cfg(feature = "std")]
pub mod pci;
#[cfg(feature = "std")]
pub mod pl011;
pub mod spi;
#[cfg(feature = "stalls")]
mod stalls;
pub mod uart;
#[cfg(feature = "vm-device")]
pub mod vm_device;

#[cfg(feature = "std")]
pub use clock::VirtualClock;
pub use credit::Credit;
#[cfg(feature = "std")]
pub use fault::{Fault, Faulty};
#[cfg(feature = "stalls")]
pub use stalls::Stalls;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
