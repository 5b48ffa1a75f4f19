//! The interrupt-driven port, for everything that is not a console.
//!
//! Both ways go through a ring in memory that the caller gives. A handler
//! ([`Port::on_interrupt`]) moves bytes between the rings and the hardware, a
//! whole FIFO at a time; the task ([`Port::write`], [`Port::read`]) touches the
//! rings, and never waits. An overrun, a byte with the wrong parity or without a
//! stop bit, and a break are read in order with the data.
//!
//! # Sharing
//!
//! A port is a plain state machine: every method takes `&mut self`, and there are
//! no atomics in it. Task and handler share it through what their system has for
//! that: a critical section, or a lock that masks the interrupt. No method waits
//! for anything, so that the section is short: a few FIFOs' register accesses.
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
//! // and critical_section::with(|cs| ...) around each use, on both sides.
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
//! # What it does not do
//!
//! Hardware flow control of the 16650 and its successors (their auto-RTS and
//! auto-CTS), RS-485, DMA. It does not notice a port that lost its power and came
//! back: open it anew.

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

/// The family's largest FIFO.
const LARGEST_LOAD: usize = 128;

/// A serial port driven by interrupts.
///
/// See the [module's documentation](self) for task and handler.
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
    /// The interrupt enables, as we wrote them. The transmitter's is set while an
    /// interrupt of it is to come, and clear while it is at rest.
    enabled: u8,
    /// The modem control register, as we wrote it.
    modem_control: u8,
    /// CTS, when it was last looked at.
    clear_to_send: bool,
    /// A modem line changed, and that is not reported yet.
    modem_changed: bool,
    /// Errors of the byte that is read next, cleared in the line status by a look
    /// at something else there.
    held: u8,
    /// Bit `n`: the port lost bytes behind the `n`th of those still in its FIFO,
    /// counted from 0.
    lost: u128,
    /// The ring had no room for the newest; an overrun is to be read behind its
    /// last entry.
    dropping: bool,
    /// Data has arrived, and that is not reported yet.
    news: bool,
    gone: bool,
    statistics: PortStatistics,
    #[cfg(feature = "embedded-io-async")]
    wakers: events::Wakers,
}
