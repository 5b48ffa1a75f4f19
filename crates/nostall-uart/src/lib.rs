//! A console on a 16550A serial port that does not stall the CPU that prints.
//!
//! The usual console driver asks the port's line status before every byte. On a
//! PC one such question takes 1.7 us, in a virtual machine it is a trip to the
//! hypervisor, and on a slow management controller the answer keeps coming out
//! "not yet" for 400 us. This driver waits once, then fills the whole transmit
//! FIFO without asking again, by one instruction where the bus has one for that.
//!
//! Every wait is bounded, by time and by looks, so that a clock that stops or jumps cannot
//! make it endless. A port that pauses for less than [`ConsoleSettings::give_up_after`] loses
//! nothing. A port that is stuck costs the caller that time once. Lost bytes are counted
//! ([`WriteReport`]) and reported on the line, as `[N bytes lost]`, when the port takes
//! bytes again. Nothing here panics, allocates or loops without end, so that it can print
//! a kernel's last words.
//!
//! For a port that carries data both ways there is another face: [`port`], driven
//! by interrupts.
//!
//! # Example
//!
//! A console in a kernel needs the eight ports and a clock. Here a model of the
//! device stands in for the ports, and its virtual clock for the kernel's:
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
//! assert_eq!(report.written, 16); // the CR before the LF included
//! assert_eq!(port.into_sink(), b"nothing stalls\r\n");
//! # Ok::<(), nostall_uart::OpenError>(())
//! ```
//!
//! For a kernel as a whole, `examples/console/console.rs` is a `print` to be copied, about
//! 60 lines on top of `nostall-console`. It may be called from anywhere: from an interrupt
//! handler, from a `Display` that is being printed, from a panic in the middle of both. The
//! same file runs in nostall's reference kernel.
//!
//! # Scope
//!
//! - [`probe`] finds the 8250, 16450, 16550, 16550A, 16650 (both versions), 16750, 16850 and
//!   16950. A DesignWare and the mini UART of the BCM2835 are named in the [`ConsoleSettings`].
//!   The FIFO's depth is that of the [`Model`], of a named DesignWare's own registers, or of
//!   the settings. The transmit FIFO is not measured.
//! - Pacing learns a line that is faster or slower than its rate from full loads. It
//!   computes the time of short ones.
//! - [`Console::offer`] never waits. It looks at a port that is stuck or held off ever more
//!   seldom, down to once in 10 ms.
//! - [`Console::enable_receive`] and [`Console::receive`] are the console's input: 49 pasted
//!   bytes cost 4 interrupts.
//! - CTS is looked at before each byte. RS-485 lines are turned around for writes and for
//!   offers. Automatic RTS and CTS of the later models are not used.
//! - With [`PowerLoss::Recover`], a port that lost its power is set up again. The bytes of
//!   the write in whose middle that was are all reported as perhaps lost.
//! - Each LF is sent as CR LF, or as it is ([`Newline`]). Divisors are exact, and a rate that the port misses by more
//!   than 3 % is refused.
//! - The interrupt-driven [`port`] reports overrun, parity, framing and break in order with
//!   the data. If the port itself lost a byte between two reads, the place is known to
//!   within one byte. It has the `embedded-io` traits of the embedded working group
//!   (features `embedded-io` and `embedded-io-async`), and no DMA. [`Console`] has `Write`.
//!
//! # Looking inside
//!
//! Wrap the window in `nostall_io::Counting` to see what a write did to the bus,
//! and read the [`WriteReport`] of every write: it is how a lost byte shows.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(all(doctest, target_arch = "x86_64"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod console;
mod crlf;
mod line;
mod model;
mod pace;
pub mod port;
mod probe;
pub mod registers;
mod settings;
mod setup;
mod strategy;

pub use console::{Console, FlushTimeout, LatchedStatus, WriteReport};
pub use line::{DataBits, LineError, LineSettings, Parity, StopBits};
pub use model::Model;
pub use nostall_io::Offered;
pub use probe::{Probed, probe, receive_fifo_depth};
pub use settings::{ConsoleSettings, FlowControl, Newline, PowerLoss, Rs485};
pub use setup::{NotFound, OpenError};
pub use strategy::Strategy;
