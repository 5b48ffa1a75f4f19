//! ARM's PL011 (PrimeCell UART) and its subset, the SBSA generic UART, according to their
//! specifications: ARM DDI 0183G (r1p5) and ARM DEN 0029.
//!
//! | covered | not covered |
//! | --- | --- |
//! | both FIFOs, with the depth of each revision (`Chip`); without FEN, one byte | DMA, IrDA, test registers: their bits are stored, or read 0 |
//! | a transmit interrupt that comes when the fill *falls* to the level: unmasked over an empty FIFO, it never comes | a break on the line: it holds the transmitter |
//! | a receive interrupt at its level, the timeout after 32 bit periods, break, parity and framing errors, overrun | noise, a wrong rate at the other end |
//! | frames of the set length at the set rate, to the nanosecond; words of 5 to 8 bits; at once | rates that differ between both directions |
//! | modem lines; CTS and RTS flow control; loopback | |
//! | bytes written to a full FIFO are lost and counted: no flag shows them | |
//! | QEMU's behaviour: it sends while disabled, and is never full | |
//! | faults: stuck BUSY, a transmitter that stops, all ones, zeros, power loss (`Fault`) | |
//! | save and restore, an untrusted state included (`State`); bounded memory whatever the guest does | |
//!
//! Every access is an exit in a VMM. The 16550's accesses without an exit need its registers one
//! page apart; the PL011's data and flags share a page.
//!
//! The data sheet leaves open what some accesses do. The model's choice is in the comment there.

mod chip;
mod line_side;
mod model;
mod port;
mod profile;
mod receiver;
pub mod registers;
mod saving;
mod transmit;

pub use chip::Chip;
pub use model::Pl011;
pub use port::{Fault, VirtualPort};
pub use profile::{Line, Profile};
pub use saving::State;
