//! ARM's PL011 (PrimeCell UART) and its subset, the SBSA generic UART, according to their
//! specifications: ARM DDI 0183G (r1p5) and ARM DEN 0029.
//!
//! | covered | not covered |
//! | --- | --- |
//! | both FIFOs, with the depth of each revision (`Chip`); without FEN, one byte | DMA, IrDA, test registers: their bits are stored, or read 0 |
//! | a transmit interrupt that comes when the fill *falls* to the level: unmasked over an empty FIFO, it never comes | a break on the line: it holds the transmitter |
//! | a receive interrupt at its level, the timeout after 32 bit periods, break, parity and framing errors, overrun | noise, a wrong rate at the other end |
//! | frames of the set length at the set rate, to the nanosecond; words of 5 to 8 bits; at once | rates that differ between both directions |
//! | modem lines; CTS and RTS flow control; loopback | the part of a bit until an idle shift register takes a byte: it takes it at once |
//! | bytes written to a full FIFO are lost and counted: no flag shows them | |
//! | QEMU's behaviour: it sends while disabled, and is never full | |
//! | faults: stuck BUSY, a transmitter that stops, all ones, zeros, power loss (`Fault`) | |
//! | save and restore, an untrusted state included (`State`); bounded memory whatever the guest does | an interrupt trigger like `uart::Serial`: a VMM follows `interrupt` and `next_event` |
//!
//! Every access is an exit in a VMM. The 16550's accesses without an exit need its registers one
//! page apart; the PL011's data and flags share a page.
//!
//! The data sheet leaves open what some accesses do. The model's choice is in the comment there.
//!
//! # Example
//!
//! ```
//! use nostall_devices::pl011::registers::{CR, DR, FBRD, FR, IBRD, LCR_H, cr, fr, lcr_h};
//! use nostall_devices::pl011::{Pl011, Profile};
//! use nostall_io::{Nanos, Registers};
//!
//! let (port, clock) = Pl011::in_virtual_time(Profile::R1P5, Vec::new());
//! port.write32(IBRD, 13); // 115,246 baud at 24 MHz
//! port.write32(FBRD, 1);
//! port.write32(LCR_H, lcr_h::WLEN | lcr_h::FEN); // 8N1, FIFOs, and the rate takes effect
//! port.write32(CR, cr::UARTEN | cr::TXE);
//! port.write32(DR, u32::from(b'x'));
//! assert_eq!(port.read32(FR) & (fr::TXFE | fr::BUSY), fr::TXFE | fr::BUSY);
//! clock.advance(Nanos::from_micros(87));
//! assert_eq!(port.read32(FR) & fr::BUSY, 0);
//! assert_eq!(port.into_sink(), b"x");
//! ```

mod chip;
mod line_side;
mod model;
mod port;
mod profile;
mod receiver;
mod saving;
mod transmit;

pub use chip::Chip;
pub use model::Pl011;
#[doc(no_inline)]
pub use nostall_uart::registers::pl011 as registers;
pub use port::{Fault, VirtualPort};
pub use profile::{Line, Profile};
pub use saving::State;
