//! Device models: the other end of the wire.
//!
//! A model knows no hypervisor. It is given accesses and told the time, and
//! answers as its data sheet says; what a guest does to it cannot make it grow,
//! hang or panic. Under the tests of nostall's drivers it runs in virtual time,
//! where a 115,200-baud line takes none and every figure is exact and
//! repeatable; in a VMM it runs by the host's clock, and can be saved and
//! restored.
//!
//! When not to use it: [`uart`] is for drivers and guests that print and read. It
//! has no DMA, and the enhanced models' automatic flow control does nothing.
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
//! In a VMM the same model has no clock of its own to advance. After each access,
//! and at the time that it names, its interrupt line is looked at:
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
//! # Looking inside
//!
//! The models are plain state machines with `Debug`; print one between two
//! accesses.

#![forbid(unsafe_code)]

mod clock;
mod fault;
pub mod pci;
pub mod uart;
#[cfg(feature = "vm-device")]
pub mod vm_device;

pub use clock::VirtualClock;
pub use fault::{Fault, Faulty};
