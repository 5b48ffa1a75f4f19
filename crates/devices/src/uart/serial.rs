//! A port that triggers an interrupt event.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use nostall_io::Clock;
use nostall_uart::registers::{THR, iir};

use super::Uart;

/// An edge-triggered interrupt, such as an `EventFd` registered with KVM.
///
/// The trait matches `vm-superio`'s `Trigger`, so that an implementation for one works for the
/// other. With `()`, the caller polls the line ([`Uart::interrupt`]).
#[diagnostic::on_unimplemented(
    note = "`EventFd` of vmm-sys-util 0.15 implements it with the feature `vm-device` of nostall-devices"
)]
pub trait Trigger {
    /// Error of a failed trigger.
    type E: fmt::Debug;

    /// Raises one interrupt.
    ///
    /// # Errors
    ///
    /// If the interrupt cannot be raised.
    fn trigger(&self) -> Result<(), Self::E>;
}

impl Trigger for () {
    type E = std::convert::Infallible;

    fn trigger(&self) -> Result<(), Self::E> {
        Ok(())
    }
}

impl<T: Trigger + ?Sized> Trigger for Arc<T> {
    type E = T::E;

    fn trigger(&self) -> Result<(), Self::E> {
        (**self).trigger()
    }
}

#[cfg(all(feature = "vm-device", target_os = "linux"))]
impl Trigger for vmm_sys_util::eventfd::EventFd {
    type E = std::io::Error;

    fn trigger(&self) -> Result<(), Self::E> {
        self.write(1)
    }
}

/// Error of a serial port that a guest uses.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The interrupt could not be triggered.
    #[error("Failed to trigger interrupt: {0}")]
    Trigger(E),
    /// The sink did not take a byte of the guest's output, which is lost.
    #[error("Couldn't write/flush to the given destination: {0}")]
    IOError(io::Error),
    /// There is no room for input. [`Serial::receive`] returns 0 instead.
    #[error("No space left in FIFO")]
    FullFifo,
}

/// A [`Uart`] that triggers an interrupt whenever its line rises. A VMM that uses `vm-superio` takes
/// [`vm_superio::Serial`](super::vm_superio::Serial) instead.
///
/// Guests handle interrupts until none is pending. A line that is already high triggers again only
/// where the chip's line would fall and rise. That is when a byte was sent and the transmitter is
/// empty again, and when input with an enabled interrupt arrives.
///
/// OUT2 of the MCR, which gates the line on a PC, does not gate the trigger.
///
/// A VMM with input waiting for room calls [`Uart::receive_room`] after the guest's next access.
/// Until the guest enables the FIFOs, there is room for one byte.
///
/// # Example
///
/// ```
/// use std::sync::mpsc::{SendError, Sender, channel};
///
/// use nostall_devices::uart::{Error, Line, Serial, Trigger, Uart};
/// use nostall_io::HostClock;
/// use nostall_uart::registers::{IER, RBR, THR, ier};
///
/// /// In a VMM: an `EventFd` that is registered with KVM (feature `vm-device`).
/// struct Irq(Sender<()>);
///
/// impl Trigger for Irq {
///     type E = SendError<()>;
///     fn trigger(&self) -> Result<(), Self::E> {
///         self.0.send(())
///     }
/// }
///
/// let (irq, injected) = channel();
/// let uart = Uart::new(HostClock::new(), Line::AtOnce, Vec::new());
/// let mut serial = Serial::new(uart, Irq(irq));
/// serial.write(THR, b'x')?; // the guest's accesses
/// serial.write(IER, ier::RECEIVED_DATA)?;
/// assert!(injected.try_recv().is_err());
/// assert_eq!(serial.receive(b"y")?, 1); // the user types
/// assert!(injected.try_recv().is_ok());
/// assert_eq!(serial.read(RBR), b'y');
/// assert_eq!(serial.uart_mut().sink_mut(), b"x");
/// # Ok::<(), Error<SendError<()>>>(())
/// ```
#[derive(Debug)]
pub struct Serial<T: Trigger, C, W> {
    uart: Uart<C, W>,
    trigger: T,
    /// Whether the line is high and the trigger for it succeeded.
    high: bool,
    failed: Option<Error<T::E>>,
}

impl<T: Trigger, C: Clock, W: Write> Serial<T, C, W> {
    /// Connects the interrupt line of `uart` to `trigger`. If the line is already high, the next
    /// access, input or [`tend`](Self::tend) triggers.
    pub const fn new(uart: Uart<C, W>, trigger: T) -> Self {
        Self {
            uart,
            trigger,
            high: false,
            failed: None,
        }
    }

    /// Handles a guest's read of the register at `offset`.
    ///
    /// It triggers if the line rises, because time has passed or the next byte has an error.
    /// [`take_error`](Self::take_error) returns the error of a failed trigger, or of the sink.
    #[inline]
    pub fn read(&mut self, offset: usize) -> u8 {
        match self.uart.begin_read(offset) {
            Some(status) if !self.high => status,
            _ => self.read_any(offset),
        }
    }

    fn read_any(&mut self, offset: usize) -> u8 {
        let value = self.uart.read_any(offset);
        if self.high || self.uart.sink_error.is_some() || !self.uart.is_quiet() {
            self.follow_keeping_error();
        }
        value
    }

    /// Handles a guest's write of the register at `offset`.
    ///
    /// # Errors
    ///
    /// The trigger's error. The write has taken effect, and the next write tries the trigger again.
    /// Or the sink's error, for a byte that has left the port since the last call.
    #[inline]
    pub fn write(&mut self, offset: usize, value: u8) -> Result<(), Error<T::E>> {
        if offset == THR && self.uart.quiet.at_once && !self.high {
            self.uart.send_at_once(value);
            return self.take_sink_error();
        }
        self.write_any(offset, value)
    }

    fn write_any(&mut self, offset: usize, value: u8) -> Result<(), Error<T::E>> {
        let sends = offset == THR && !self.uart.dlab();
        self.uart.write_any(offset, value);
        self.uart.settle();
        let interrupt = self.uart.pending_interrupt();
        let sent = sends && interrupt == Some(iir::TRANSMITTER_EMPTY);
        self.high &= !sent;
        self.finish(interrupt)
    }

    /// Receives as many of `bytes` as there is room for, in order, and returns their number. In
    /// loopback the line is not connected, and no byte is received.
    ///
    /// # Errors
    ///
    /// The trigger's error. The bytes are received, and the next call tries the trigger again.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<usize, Error<T::E>> {
        let taken = self.uart.receive_all(bytes);
        let interrupt = self.uart.pending_interrupt();
        let came = taken > 0 && matches!(interrupt, Some(iir::RECEIVED_DATA | iir::TIMEOUT));
        self.high &= !came;
        self.follow(interrupt)?;
        Ok(taken)
    }

    /// Triggers if the line has risen. Call it after a change through [`uart_mut`](Self::uart_mut),
    /// and at the time that [`Uart::next_event`] returns.
    ///
    /// # Errors
    ///
    /// The trigger's error. The next call tries the trigger again. Or the sink's error, for a byte
    /// that has left the port since the last call.
    pub fn tend(&mut self) -> Result<(), Error<T::E>> {
        let interrupt = self.uart.interrupt();
        self.finish(interrupt)
    }

    /// Ends an access: triggers if `interrupt` is the line's rise, and reports the sink's error.
    fn finish(&mut self, interrupt: Option<u8>) -> Result<(), Error<T::E>> {
        self.follow(interrupt)?;
        self.take_sink_error()
    }

    #[inline]
    fn take_sink_error(&mut self) -> Result<(), Error<T::E>> {
        if self.uart.sink_error.is_none() {
            return Ok(());
        }
        let error = self.uart.take_sink_error();
        error.map_or(Ok(()), |error| Err(Error::IOError(error)))
    }

    /// Triggers if `interrupt` is the line's rise.
    fn follow(&mut self, interrupt: Option<u8>) -> Result<(), Error<T::E>> {
        let is_high = interrupt.is_some();
        self.high &= is_high;
        if is_high && !self.high {
            self.trigger.trigger().map_err(Error::Trigger)?;
            self.high = true;
        }
        Ok(())
    }

    fn follow_keeping_error(&mut self) {
        let interrupt = self.uart.pending_interrupt();
        if let Err(error) = self.finish(interrupt) {
            self.failed = Some(error);
        }
    }

    /// Returns the port.
    pub const fn uart_mut(&mut self) -> &mut Uart<C, W> {
        &mut self.uart
    }

    /// Returns the trigger.
    pub const fn trigger(&self) -> &T {
        &self.trigger
    }

    /// Takes the last error of an access that cannot return one: a read, or any access through
    /// rust-vmm's device bus.
    pub const fn take_error(&mut self) -> Option<Error<T::E>> {
        self.failed.take()
    }

    /// Reads a memory-mapped register. A DesignWare's registers are words.
    #[cfg(feature = "vm-device")]
    pub(crate) fn read_word(&mut self, offset: usize) -> u32 {
        if self.uart.chip().model() != nostall_uart::Model::DesignWare {
            return self.read(offset).into();
        }
        let value = self.uart.read32(offset);
        self.follow_keeping_error();
        value
    }

    /// Writes a register and stores an error for [`take_error`](Self::take_error).
    #[cfg(feature = "vm-device")]
    pub(crate) fn write_keeping_error(&mut self, offset: usize, value: u8) {
        if let Err(error) = self.write(offset, value) {
            self.failed = Some(error);
        }
    }
}
