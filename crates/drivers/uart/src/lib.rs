//! Console on a serial port that does not stall the CPU that prints: a 16550, or Arm's PL011.
//!
//! Common console drivers read the port's line status before every byte. On a PC one such read
//! takes 1.7 us. In a virtual machine it is an exit to the hypervisor. On a slow management
//! controller, the status is "not ready" for 400 us at a time. This driver polls once, and then
//! fills the whole transmit FIFO without further reads, with one instruction if the bus has a
//! burst.
//!
//! Every wait is bounded in time and in polls, so a clock that stops or jumps cannot prolong it. A
//! port that pauses for less than [`ConsoleSettings::give_up_after`] loses nothing. A stuck port
//! costs the caller that time once. Lost bytes are counted ([`WriteReport`]) and reported on the
//! line, as `[N bytes lost]`, when the port takes bytes again. Nothing here panics, allocates or
//! loops without end, so a crashing kernel can print with it.
//!
//! # Example
//!
//! A console in a kernel needs the eight registers and a clock. Here, a device model replaces the
//! registers, and its virtual clock replaces the kernel's:
//!
//! ```
//! use nostall_devices::uart::{Profile, Uart};
//! use nostall_uart::{Console, LineSettings, Strategy};
//!
//! let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
//! // In a kernel: let port = unsafe { nostall_io::Ports::new(0x3f8, 8) };
//!
//! let mut console = Console::open(&port, &clock, LineSettings::baud(115_200))?;
//! console.set_strategy(Strategy::FifoBurst);
//! let report = console.write(b"nothing stalls\n");
//!
//! assert!(report.is_complete());
//! assert_eq!(report.written, 16); // includes the CR before the LF
//! assert_eq!(port.into_sink(), b"nothing stalls\r\n");
//! # Ok::<(), nostall_uart::OpenError>(())
//! ```
//!
//! For a whole kernel, `examples/console/console.rs` is a `print` to copy, about 60 lines on top of
//! `nostall-console`. Any context may call it: an interrupt handler, a `Display` that is being
//! printed, a panic inside of both. The same file runs in nostall's reference kernel.
//!
//! # Other UARTs
//!
//! A [`Console`] needs a [`UartHardware`]. Every register window is a 16550. A [`Pl011`] is a window
//! of Arm's PL011 or of an SBSA generic UART, and takes its place:
//!
//! ```
//! use nostall_devices::pl011::{self, Profile};
//! use nostall_uart::{Console, LineSettings, Pl011};
//!
//! let (port, clock) = pl011::Pl011::in_virtual_time(Profile::R1P5, Vec::new());
//! let uart = Pl011::new(&port, Some(24_000_000)); // its input clock, from the device tree
//! let mut console = Console::open(uart, &clock, LineSettings::baud(115_200))?;
//! assert!(console.write(b"nothing stalls\n").is_complete());
//! # Ok::<(), nostall_uart::OpenError>(())
//! ```
//!
//! The same strategies, bounds and counts apply. [`SifiveUart`] is the example of one more UART: a
//! file of 200 lines.
//!
//! # Scope
//!
//! - [`probe`] finds the 8250, 16450, 16550, 16550A, 16650 (both versions), 16750, 16850 and 16950.
//!   Name a DesignWare or the mini UART of the BCM2835 in the [`ConsoleSettings`]. The FIFO depth
//!   comes from the [`Model`], from the registers of a named DesignWare, or from the settings. The
//!   transmit FIFO is not measured.
//! - A [`Pl011`] has 16 or 32 bytes of FIFO, by its revision. Without its clock, the line keeps the
//!   firmware's rate.
//! - Pacing learns the real rate of the line from full loads. It computes the time of shorter ones.
//! - [`Console::offer`] never waits. It polls a stuck or held-off port at longer and longer
//!   intervals, up to 10 ms.
//! - [`Console::enable_receive`] and [`Console::receive`] are the console's input: 49 pasted bytes
//!   cost 4 interrupts.
//! - CTS is checked before each byte. RS-485 lines are driven for writes and for offers. Automatic
//!   RTS and CTS of later models are not used.
//! - With [`PowerLoss::Recover`], a port that lost its power is set up again. All bytes of the
//!   interrupted write are then reported as possibly lost.
//! - Each LF is sent as CR LF, or unchanged ([`Newline`]). A rate that the port misses by more than
//!   3 % is refused.
//! - No DMA. With the feature `embedded-io`, [`Console`] has its `Write`.
//!
//! # Looking inside
//!
//! Wrap the window in `nostall_io::Counting` to count the bus accesses of a write. Check the
//! [`WriteReport`] of every write, because it reports lost bytes.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(all(doctest, target_arch = "x86_64"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod console;
mod crlf;
mod hardware;
mod line;
mod model;
mod ns16550;
mod pace;
mod pl011;
mod probe;
pub mod registers;
mod settings;
mod setup;
mod sifive;
mod strategy;

#[cfg(feature = "embedded-io")]
pub use console::IoError;
pub use console::{Console, FlushTimeout, LatchedStatus, WriteReport};
pub use hardware::{Identity, UartHardware};
pub use line::{DataBits, LineError, LineSettings, Parity, StopBits};
pub use model::Model;
pub use nostall_io::Offered;
pub use pl011::Pl011;
pub use probe::{Probed, probe, receive_fifo_depth};
pub use settings::{ConsoleSettings, FlowControl, Newline, PowerLoss, Rs485, TriggerLevel};
pub use setup::{NotFound, OpenError};
pub use sifive::SifiveUart;
pub use strategy::Strategy;
