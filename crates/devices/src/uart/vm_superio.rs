//! `vm-superio`'s interface to the model, for a VMM that uses that crate's serial port.
//!
//! In such a VMM, `use vm_superio::{Serial, ...}` becomes
//! `use nostall_devices::uart::vm_superio::{Serial, ...}`. Names, signatures and events are those of
//! vm-superio 0.8, and interrupts are triggered by the same accesses as in 0.8.2. `vm-superio`'s
//! i8042 and RTC have no counterpart.
//!
//! vm-superio 0.8.1 and earlier trigger nothing if the guest enables an interrupt whose cause is
//! pending. Input that comes while Linux's console masks the interrupts then waits for the next
//! input.
//!
//! [`Serial::offer`] has no counterpart there. It returns the accesses that need no exit.
//!
//! The guest can observe these differences:
//!
//! - The IIR reports one pending interrupt, that of the highest priority (PC16550D, Table IV). There
//!   it has the bits of all interrupts, and each read clears them.
//! - The LSR reports an overrun if loopback has no room for a byte. There the byte is lost silently.
//! - The MCR has the 16550A's five bits. There it has eight.
//!
//! Both FIFOs are always enabled and writes to the FCR are ignored, as there. So a guest's set-up
//! discards no input, and each input triggers at once: no timer is needed. The receiver holds
//! 64 bytes. For trigger levels, lines with a rate and other chips, use
//! [`uart::Serial`](super::Serial).
//!
//! # Example
//!
//! ```
//! use std::sync::mpsc::{SendError, Sender, channel};
//!
//! use nostall_devices::uart::vm_superio::serial::Error;
//! use nostall_devices::uart::vm_superio::{Serial, Trigger};
//!
//! /// In a VMM: an `EventFd` that is registered with KVM.
//! struct Irq(Sender<()>);
//!
//! impl Trigger for Irq {
//!     type E = SendError<()>;
//!     fn trigger(&self) -> Result<(), Self::E> {
//!         self.0.send(())
//!     }
//! }
//!
//! let (irq, injected) = channel();
//! let mut serial = Serial::new(Irq(irq), Vec::new());
//! serial.write(0, b'x')?; // the guest prints
//! assert_eq!(serial.writer(), b"x");
//! serial.write(1, 1)?; // the guest enables the receive interrupt
//! if serial.fifo_capacity() >= 3 {
//!     assert_eq!(serial.enqueue_raw_bytes(b"abc")?, 3); // the user types
//! }
//! assert!(injected.try_recv().is_ok());
//! assert_eq!(serial.read(0), b'a');
//! # Ok::<(), Error<SendError<()>>>(())
//! ```

use std::io::Write;
use std::sync::Arc;

use nostall_io::{Clock, Nanos};
use nostall_uart::registers::{FCR, IER, IIR, MCR, RBR, SCR, THR, fcr, ier, iir, lsr, mcr, msr};

use super::model::Latches;
use super::{Chip, Line, Offer, Uart};
pub use super::{Error, Trigger};

/// The items that vm-superio has in its module `serial`.
pub mod serial {
    pub use super::{Error, NoEvents, Serial, SerialEvents, SerialState};
}

/// A serial port with `vm-superio`'s interface; [the module](self) describes its differences.
///
/// Each sent byte is written to `W` and flushed during the access.
#[derive(Debug)]
pub struct Serial<T: Trigger, EV: SerialEvents, W: Write> {
    uart: Uart<Timeless, W>,
    /// Interrupts that were triggered and not acknowledged since, as bits of the IIR.
    triggered: u8,
    interrupt_evt: T,
    events: EV,
}

/// A clock that stands still: a line that takes each byte at once, and input that triggers at once,
/// do not depend on time.
#[derive(Debug)]
struct Timeless;

impl Clock for Timeless {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}

impl<T: Trigger, W: Write> Serial<T, NoEvents, W> {
    /// Creates a port in the default state, without callbacks for events.
    pub fn new(trigger: T, out: W) -> Self {
        Self::with_events(trigger, NoEvents, out)
    }
}

impl<T: Trigger, EV: SerialEvents, W: Write> Serial<T, EV, W> {
    /// Creates a port in the default state.
    pub fn with_events(trigger: T, serial_evts: EV, out: W) -> Self {
        Self::with_state(&SerialState::default(), trigger, serial_evts, out)
    }

    /// Creates a port in a saved state, and triggers its pending interrupts. Bits that the
    /// registers do not have are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::FullFifo`] if the state has more than 64 bytes of input, or the trigger's error.
    pub fn from_state(
        state: &SerialState,
        trigger: T,
        serial_evts: EV,
        out: W,
    ) -> Result<Self, Error<T::E>> {
        if state.in_buffer.len() > Chip::superio().fifo_depth() {
            return Err(Error::FullFifo);
        }
        let mut serial = Self::with_state(state, trigger, serial_evts, out);
        serial.trigger(iir::RECEIVED_DATA | iir::TRANSMITTER_EMPTY)?;
        Ok(serial)
    }

    fn with_state(state: &SerialState, interrupt_evt: T, events: EV, out: W) -> Self {
        let mut uart = Uart::of(Chip::superio(), Timeless, Line::AtOnce, out);
        uart.latches = Latches {
            divisor: u16::from_le_bytes([state.baud_divisor_low, state.baud_divisor_high]),
            ier: state.interrupt_enable & 0x0f,
            fcr: fcr::ENABLE,
            lcr: state.line_control,
            mcr: state.modem_control & 0x1f,
            scr: state.scratch,
            ..Latches::default()
        };
        uart.receiver.bytes = state.in_buffer.iter().map(|&byte| (byte, 0)).collect();
        uart.receiver.overrun = state.line_status & lsr::OVERRUN != 0;
        uart.transmit_interrupt = state.interrupt_identification & iir::TRANSMITTER_EMPTY != 0;
        uart.set_modem_lines(state.modem_status);
        uart.modem.read();
        Self {
            uart,
            triggered: 0,
            interrupt_evt,
            events,
        }
    }

    /// Returns the state, for [`from_state`](Self::from_state).
    pub fn state(&self) -> SerialState {
        let uart = &self.uart;
        let [baud_divisor_low, baud_divisor_high] = uart.latches.divisor.to_le_bytes();
        let overrun = if uart.receiver.overrun {
            lsr::OVERRUN
        } else {
            0
        };
        // Received bytes are in the state, so a restored port triggers for them in any case.
        let identification =
            self.triggered & iir::RECEIVED_DATA | self.pending() & iir::TRANSMITTER_EMPTY;
        SerialState {
            baud_divisor_low,
            baud_divisor_high,
            interrupt_enable: uart.latches.ier,
            interrupt_identification: if identification == 0 {
                iir::NONE
            } else {
                identification
            },
            line_control: uart.latches.lcr,
            line_status: uart.quiet_lsr() | overrun,
            modem_control: uart.latches.mcr,
            modem_status: uart.modem.outside(),
            scratch: uart.latches.scr,
            in_buffer: uart.receiver.bytes.iter().map(|&(byte, _)| byte).collect(),
        }
    }

    /// Returns the writer of the guest's output.
    pub fn writer(&self) -> &W {
        &self.uart.sink
    }

    /// Returns the writer of the guest's output.
    pub fn writer_mut(&mut self) -> &mut W {
        &mut self.uart.sink
    }

    /// Returns the writer of the guest's output. The port is no more.
    pub fn into_writer(self) -> W {
        self.uart.sink
    }

    /// Returns the trigger.
    pub fn interrupt_evt(&self) -> &T {
        &self.interrupt_evt
    }

    /// Returns the receiver of events.
    pub fn events(&self) -> &EV {
        &self.events
    }

    /// Handles a guest's write to the register at `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::IOError`] if the writer did not take the byte, also if it would block. The byte is
    /// lost for the guest, which continues. The VMM can write it again with
    /// [`writer_mut`](Self::writer_mut). Or the trigger's error, after the write has taken effect.
    pub fn write(&mut self, offset: u8, value: u8) -> Result<(), Error<T::E>> {
        let register = usize::from(offset);
        if register == FCR {
            return Ok(());
        }
        let looped = self.uart.is_looped();
        self.uart.write(register, value);
        match register {
            MCR => _ = self.uart.modem.read(), // vm-superio's MSR has no deltas.
            _ if self.uart.dlab() => {}
            THR if looped => self.trigger(iir::RECEIVED_DATA)?,
            THR => return self.sent(),
            IER => {
                self.uart.transmit_interrupt |= value & ier::TRANSMITTER_EMPTY != 0;
                self.trigger(iir::RECEIVED_DATA | iir::TRANSMITTER_EMPTY)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports a sent byte. The guest is interrupted even if it is lost, and continues.
    fn sent(&mut self) -> Result<(), Error<T::E>> {
        let sent = match self.uart.take_sink_error() {
            Some(error) => Err(error),
            None => self.uart.sink.flush(),
        };
        match &sent {
            Ok(()) => self.events.out_byte(),
            Err(_) => self.events.tx_lost_byte(),
        }
        self.trigger(iir::TRANSMITTER_EMPTY)?;
        sent.map_err(Error::IOError)
    }

    /// Handles a guest's read of the register at `offset`. Beyond the last register it returns 0.
    pub fn read(&mut self, offset: u8) -> u8 {
        let register = usize::from(offset);
        if register > SCR {
            return 0;
        }
        let value = self.uart.read(register);
        match register {
            RBR if !self.uart.dlab() => {
                self.triggered &= !iir::RECEIVED_DATA;
                if self.uart.receiver.bytes.is_empty() {
                    self.events.in_buffer_empty();
                }
                self.events.buffer_read();
            }
            IIR => self.triggered = 0,
            _ => {}
        }
        value
    }

    /// Returns how many bytes of input the port has room for.
    pub fn fifo_capacity(&self) -> usize {
        Chip::superio().fifo_depth() - self.uart.receiver.bytes.len()
    }

    /// Receives as many bytes of `input` as there is room for, in order, and returns their number.
    /// In loopback it is 0.
    ///
    /// # Errors
    ///
    /// [`Error::FullFifo`] if there is input and no room. Or the trigger's error: the bytes are
    /// received, and the next call tries the trigger again.
    pub fn enqueue_raw_bytes(&mut self, input: &[u8]) -> Result<usize, Error<T::E>> {
        if input.is_empty() || self.uart.is_looped() {
            return Ok(0);
        }
        if self.fifo_capacity() == 0 {
            return Err(Error::FullFifo);
        }
        let count = self.uart.receive_all(input);
        self.trigger(iir::RECEIVED_DATA)?;
        Ok(count)
    }

    /// Returns the accesses that a VMM may handle without an exit. Ask again after every access that
    /// the port handled, and after input.
    pub fn offer(&mut self) -> Offer {
        self.uart.offer()
    }

    /// Triggers if one of these interrupts is pending, and was not triggered since the guest last
    /// acknowledged it.
    fn trigger(&mut self, interrupts: u8) -> Result<(), Error<T::E>> {
        let pending = self.pending() & interrupts;
        if pending & !self.triggered != 0 {
            self.interrupt_evt.trigger().map_err(Error::Trigger)?;
            self.triggered |= pending;
        }
        Ok(())
    }

    /// Returns the pending interrupts as bits of the IIR.
    fn pending(&self) -> u8 {
        let enabled = self.uart.latches.ier;
        let received = enabled & ier::RECEIVED_DATA != 0 && !self.uart.receiver.bytes.is_empty();
        let empty = enabled & ier::TRANSMITTER_EMPTY != 0 && self.uart.transmit_interrupt;
        let bit = |set, bit| if set { bit } else { 0 };
        bit(received, iir::RECEIVED_DATA) | bit(empty, iir::TRANSMITTER_EMPTY)
    }
}

/// Callbacks for events of a [`Serial`].
pub trait SerialEvents {
    /// The guest has read the receiver.
    fn buffer_read(&self);
    /// The writer has taken a byte of the guest's output.
    fn out_byte(&self);
    /// The writer has not taken a byte of the guest's output.
    fn tx_lost_byte(&self);
    /// After a read, the port has no more input. The VMM can pass on more.
    fn in_buffer_empty(&self);
}

/// Callbacks that do nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoEvents;

impl SerialEvents for NoEvents {
    fn buffer_read(&self) {}
    fn out_byte(&self) {}
    fn tx_lost_byte(&self) {}
    fn in_buffer_empty(&self) {}
}

impl<EV: SerialEvents> SerialEvents for Arc<EV> {
    fn buffer_read(&self) {
        (**self).buffer_read();
    }

    fn out_byte(&self) {
        (**self).out_byte();
    }

    fn tx_lost_byte(&self) {
        (**self).tx_lost_byte();
    }

    fn in_buffer_empty(&self) {
        (**self).in_buffer_empty();
    }
}

/// Saved state of a [`Serial`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialState {
    /// Divisor latch, low byte.
    pub baud_divisor_low: u8,
    /// Divisor latch, high byte.
    pub baud_divisor_high: u8,
    /// Interrupt enable register.
    pub interrupt_enable: u8,
    /// Pending interrupts as bits of the interrupt identification register.
    pub interrupt_identification: u8,
    /// Line control register.
    pub line_control: u8,
    /// Line status register.
    pub line_status: u8,
    /// Modem control register.
    pub modem_control: u8,
    /// Modem status register.
    pub modem_status: u8,
    /// Scratch register.
    pub scratch: u8,
    /// Input that the guest has not read.
    pub in_buffer: Vec<u8>,
}

impl Default for SerialState {
    /// Returns the state of a port with 9,600 baud, 8N1, OUT2 set and a ready modem.
    fn default() -> Self {
        Self {
            baud_divisor_low: 12,
            baud_divisor_high: 0,
            interrupt_enable: 0,
            interrupt_identification: iir::NONE,
            line_control: 3,
            line_status: lsr::THRE | lsr::TEMT,
            modem_control: mcr::OUT2,
            modem_status: msr::CTS | msr::DSR | msr::DCD,
            scratch: 0,
            in_buffer: Vec::new(),
        }
    }
}
