//! The 16550 and its family, according to their data sheets.
//!
//! Without feature `std`, only the timing is available: lines, controllers and profiles.
//!
//! | covered | not covered |
//! | --- | --- |
//! | the 16550A's registers, both FIFOs, every interrupt with its priority, the character timeout | DMA signals |
//! | overrun, parity, framing and break errors; loopback; modem lines and their deltas | collisions on the line, noise, a wrong rate at the other end |
//! | 8250, 16450, 16550, 16650 (both versions), 16750, 16850, 16950, DesignWare, BCM2835 mini UART, as drivers distinguish them (`Chip`) | automatic flow control, sleep, prescalers: such bits are stored, or read 0 |
//! | drain at the set rate, to the nanosecond; at once; or into a management controller | input clocks other than a PC's 1.8432 MHz; the mini UART divides its clock like the others |
//! | save and restore, an untrusted state included (`State`) | a version number in the state: it is the crate's |
//! | report the time of the next change without an access (`next_event`) | |
//! | read the clock only where a byte to send or a receive timeout depends on it, at most once an access | |
//! | name the accesses that need no exit: transmit writes to collect (`Collection`: when), a line status to keep in memory (`Offer`) | such accesses on a line with a rate: only with `Line::AtOnce` |
//! | an interrupt trigger, such as an `EventFd` (`Serial`); `vm-superio`'s interface (`vm_superio`) | `vm-superio`'s i8042 and RTC |
//! | registers in memory at any distance (`Stride`), which read alike trapped and mapped | |
//! | faults: stuck line status, all ones, no CTS, short FIFO, power loss, slow reads (`Fault`) | |
//! | bounded memory whatever the guest does; `Output` is a bounded sink that reports when the guest has to wait | bound another sink, which its owner does |
//!
//! [`Profile`] has the costs of a port. Each number is marked as measured, fitted or assumed. A
//! fitted profile proves nothing about the machine that it is named after.

#[cfg(feature = "std")]
mod chip;
#[cfg(feature = "std")]
mod collection;
mod controller;
#[cfg(feature = "std")]
mod extended;
#[cfg(feature = "std")]
mod line_side;
#[cfg(feature = "std")]
mod model;
#[cfg(feature = "std")]
mod modem;
#[cfg(feature = "std")]
mod offer;
#[cfg(feature = "std")]
mod output;
#[cfg(feature = "std")]
mod port;
mod profile;
#[cfg(feature = "std")]
mod quiet;
#[cfg(feature = "std")]
mod receiver;
#[cfg(feature = "std")]
mod saving;
#[cfg(feature = "std")]
mod serial;
#[cfg(feature = "std")]
mod stride;
#[cfg(feature = "std")]
mod transmit;
#[cfg(feature = "std")]
pub mod vm_superio;

#[cfg(feature = "std")]
pub use chip::Chip;
#[cfg(feature = "std")]
pub use collection::{Collecting, Collection};
pub use controller::{Buffer, Controller};
#[cfg(feature = "std")]
pub use model::Uart;
#[cfg(feature = "std")]
pub use offer::{LineStatus, Offer, Transmit};
#[cfg(feature = "std")]
pub use output::Output;
#[cfg(feature = "std")]
pub use port::VirtualPort;
pub use profile::{Line, Profile, Published, SlowAccess};
#[cfg(feature = "std")]
pub use saving::State;
#[cfg(feature = "std")]
pub use serial::{Error, Serial, Trigger};
#[cfg(feature = "std")]
pub use stride::{BESIDE, Stride};
