//! Interrupt-driven port, for uses other than a console.
//!
//! Each direction has a ring in memory that the caller supplies. A handler ([`Port::on_interrupt`])
//! moves bytes between the rings and the hardware, a whole FIFO at a time. The task
//! ([`Port::write`], [`Port::read`]) accesses the rings, and never waits. Errors are read in order
//! with the data: overrun, wrong parity, missing stop bit and break.
//!
//! # Sharing
//!
//! A port is a plain state machine: every method takes `&mut self`, and it has no atomics. Task and
//! handler share it with a critical section, or with a lock that masks the interrupt. No method
//! waits, so the section is short: register accesses for a few FIFOs.
//!
//! ```
//! use nostall_devices::VirtualClock;
//! # use nostall_devices::uart::{Profile, Uart};
//! # use nostall_io::{Clock, Nanos};
//! use nostall_uart::LineSettings;
//! use nostall_uart::port::{Port, Received};
//! use std::cell::RefCell;
//!
//! # let (uart, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
//! let (mut transmit, mut receive) = ([0; 256], [Received::EMPTY; 256]);
//! let line = LineSettings::baud(115_200);
//! let port = Port::open(&uart, &clock, line, &mut transmit, &mut receive)?;
//!
//! // In a kernel: static PORT: critical_section::Mutex<RefCell<Option<Port<..>>>>,
//! // and critical_section::with(|cs| ...) around each use, in task and handler.
//! let port = RefCell::new(port);
//! let handler = || port.borrow_mut().on_interrupt();
//!
//! // The task:
//! assert_eq!(port.borrow_mut().write(b"login: "), 7);
//! # uart.with(|uart| uart.receive(b'x'));
//! # clock.wait_until(clock.now() + Nanos::from_millis(1));
//! // The interrupt controller:
//! let events = handler();
//! assert!(events.drained);
//! assert_eq!(port.borrow_mut().statistics().sent, 7);
//! # Ok::<(), nostall_uart::OpenError>(())
//! ```
//!
//! # Not supported
//!
//! Hardware flow control of the 16650 and its successors (automatic RTS and CTS), RS-485 and DMA. A
//! port that lost its power is not detected: open it again.

#[cfg(feature = "embedded-io-async")]
mod asynchronous;
#[cfg(feature = "embedded-io")]
mod blocking;
mod events;
mod interrupt;
mod open;
mod received;
mod receiver;
mod ring;
mod settings;
#[cfg(feature = "embedded-io")]
mod shared;
mod task;

use nostall_io::Nanos;

use crate::Model;
use ring::Ring;

#[cfg(feature = "embedded-io-async")]
pub use asynchronous::Async;
#[cfg(feature = "embedded-io")]
pub use blocking::Blocking;
pub use events::{Events, PortStatistics};
pub use received::{ReceiveError, Received};
pub use settings::{Handshake, PortSettings, TriggerLevel};
#[cfg(feature = "embedded-io")]
pub use shared::{IoError, SharedPort};

/// Serial port driven by interrupts.
///
/// The [module's documentation](self) describes task and handler.
///
/// # Example
///
/// ```
/// use nostall_devices::uart::{Profile, Uart};
/// use nostall_uart::{LineSettings, Model};
/// use nostall_uart::port::{Port, PortSettings, Received, TriggerLevel};
///
/// let (uart, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
/// let (mut transmit, mut receive) = ([0; 64], [Received::EMPTY; 64]);
/// let settings = PortSettings {
///     model: Model::Uart16550A,
///     trigger: TriggerLevel::Byte,
///     ..LineSettings::baud(115_200).into()
/// };
/// let mut port = Port::open(&uart, &clock, settings, &mut transmit, &mut receive)?;
///
/// uart.with(|uart| uart.receive(b'!')); // the other end sends
/// assert!(port.on_interrupt().received);
/// let mut line = [0; 80];
/// assert_eq!(port.read_bytes(&mut line)?, 1);
/// assert_eq!(port.write(&line[..1]), 1);
/// assert_eq!(uart.with(|uart| uart.sink_mut().clone()), b"!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Port<'a, R> {
    registers: R,
    model: Model,
    handshake: Handshake,
    frame_time: Nanos,
    /// Depth of the receive FIFO in bytes; 1 without one.
    depth: usize,
    /// Number of bytes that the transmitter takes when it reports empty.
    load: usize,
    transmit: Ring<'a, u8>,
    receive: Ring<'a, Received>,
    /// Interrupt enables, as written. The transmitter's is set while its interrupt is expected, and
    /// clear while it is idle.
    enabled: u8,
    /// Modem control register, as written.
    modem_control: u8,
    /// State of CTS at the last read.
    clear_to_send: bool,
    /// A modem line has changed since the last report.
    modem_changed: bool,
    /// Errors of the next byte, which a read of the line status for another purpose has cleared.
    held: u8,
    /// Losses in the FIFO: bit `n` means that the port lost bytes after byte `n` of those still in
    /// it, counted from 0.
    lost: u128,
    /// The ring had no room for the newest entry. An overrun must be read after its last entry.
    dropping: bool,
    /// Data has arrived since the last report.
    news: bool,
    gone: bool,
    statistics: PortStatistics,
    #[cfg(feature = "embedded-io-async")]
    wakers: events::Wakers,
}
