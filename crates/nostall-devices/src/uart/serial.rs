//! A port whose interrupts are events.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use nostall_io::Clock;
use nostall_uart::registers::{THR, iir};

use super::Uart;

/// An edge of an interrupt line, such as an `EventFd` that KVM injects interrupts for.
///
/// It has the shape of `vm-superio`'s trait of that name: an implementation for one has the
/// same body for the other. `()` stands for a line that the caller polls
/// ([`Uart::interrupt`]).
pub trait Trigger {
    /// Why an interrupt could not be raised.
    type E: fmt::Debug;

    /// Raises one interrupt.
    ///
    /// # Errors
    ///
    /// If it cannot be raised.
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

/// A [`Uart`] that triggers an interrupt whenever its line rises: it stands where a VMM has
/// `vm-superio`'s `Serial`.
///
/// Guests handle interrupts until none is pending. For a line that is high already there is a
/// further trigger only where the chip's line would fall and rise again: when a byte was sent
/// and the transmitter is empty once more, and when input arrives for which it has an interrupt.
///
/// MCR's OUT2, which gates the line on a PC, does not gate the trigger.
///
/// Nothing stands for `vm-superio`'s events. A VMM whose input waits for room asks for
/// [`Uart::receive_room`] after the guest's next access.
///
/// # Example
///
/// ```
/// use std::sync::mpsc::{SendError, Sender, channel};
///
/// use nostall_devices::uart::{Line, Serial, Trigger, Uart};
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
/// # Ok::<(), SendError<()>>(())
/// ```
#[derive(Debug)]
pub struct Serial<T: Trigger, C, W> {
    uart: Uart<C, W>,
    trigger: T,
    /// The line is high, and was triggered for.
    high: bool,
    failed: Option<T::E>,
}

impl<T: Trigger, C: Clock, W: Write> Serial<T, C, W> {
    /// Connects the interrupt line of `uart` to `trigger`. One that is high already triggers with
    /// the next access, input or [`tend`](Self::tend).
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
    /// It triggers if the line rises: because time has passed, or because the next byte has an
    /// error. [`take_error`](Self::take_error) returns the trigger's error.
    pub fn read(&mut self, offset: usize) -> u8 {
        let value = self.uart.read(offset);
        self.tend_keeping_error();
        value
    }

    /// Handles a guest's write of the register at `offset`.
    ///
    /// # Errors
    ///
    /// The trigger's. The write is done, and the trigger is tried again with the next one.
    pub fn write(&mut self, offset: usize, value: u8) -> Result<(), T::E> {
        let sends = offset == THR && !self.uart.dlab();
        self.uart.write(offset, value);
        let sent = sends && self.uart.interrupt() == Some(iir::TRANSMITTER_EMPTY);
        self.high &= !sent;
        self.tend()
    }

    /// Receives as many of `bytes` as there is room for, in order; returns how many. In loopback
    /// the line is not connected, and none are taken.
    ///
    /// # Errors
    ///
    /// The trigger's. The bytes are received, and the trigger is tried again with the next ones.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<usize, T::E> {
        let room = if self.uart.is_looped() {
            0
        } else {
            self.uart.receive_room()
        };
        let now = bytes.len().min(room);
        for byte in &bytes[..now] {
            self.uart.receive(*byte);
        }
        let came = now > 0
            && matches!(
                self.uart.interrupt(),
                Some(iir::RECEIVED_DATA | iir::TIMEOUT)
            );
        self.high &= !came;
        self.tend()?;
        Ok(now)
    }

    /// Triggers if the line has risen: to be called after the port was changed through
    /// [`uart_mut`](Self::uart_mut), and at the time that [`Uart::next_event`] gives.
    ///
    /// # Errors
    ///
    /// The trigger's; it is tried again with the next call.
    pub fn tend(&mut self) -> Result<(), T::E> {
        let is_high = self.uart.interrupt().is_some();
        self.high &= is_high;
        if is_high && !self.high {
            self.trigger.trigger()?;
            self.high = true;
        }
        Ok(())
    }

    fn tend_keeping_error(&mut self) {
        if let Err(error) = self.tend() {
            self.failed = Some(error);
        }
    }

    /// The port.
    pub const fn uart_mut(&mut self) -> &mut Uart<C, W> {
        &mut self.uart
    }

    /// The trigger.
    pub const fn trigger(&self) -> &T {
        &self.trigger
    }

    /// Takes the error of the last trigger that failed in an access that cannot return one: a read,
    /// or any access behind rust-vmm's device bus.
    pub const fn take_error(&mut self) -> Option<T::E> {
        self.failed.take()
    }

    /// A read of a register in memory: a DesignWare's are words.
    #[cfg(feature = "vm-device")]
    pub(crate) fn read_word(&mut self, offset: usize) -> u32 {
        if self.uart.chip().model() != nostall_uart::Model::DesignWare {
            return self.read(offset).into();
        }
        let value = self.uart.read32(offset);
        self.tend_keeping_error();
        value
    }

    /// A write whose error is kept.
    #[cfg(feature = "vm-device")]
    pub(crate) fn write_keeping_error(&mut self, offset: usize, value: u8) {
        if let Err(error) = self.write(offset, value) {
            self.failed = Some(error);
        }
    }
}
