//! Device models: the other end of the wire.
//!
//! A model knows no hypervisor and takes no real time. It is given accesses and
//! told the time, and answers as its data sheet says; what a guest does to it
//! cannot make it grow, hang or panic. Under the tests of nostall's drivers it
//! runs in virtual time, where a 115,200-baud line takes none and every figure
//! is exact and repeatable.
//!
//! When not to use it: [`uart`] does what a transmitting console needs, and
//! receives; it has no receive timeout and no modem lines that change yet.
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
//! # Looking inside
//!
//! The models are plain state machines with `Debug`; print one between two
//! accesses.

#![forbid(unsafe_code)]

mod clock;
mod fault;
pub mod uart;

pub use clock::VirtualClock;
pub use fault::{Fault, Faulty};
