//! The seam between a console and its UART.

use nostall_io::{Clock, Nanos};

use crate::{ConsoleSettings, LineSettings, Model, OpenError, TriggerLevel};

/// Accesses that a [`Console`](crate::Console) makes to a UART.
///
/// Every [`Registers`](nostall_io::Registers) is a 16550: pass the window itself to the console.
/// [`Pl011`](crate::Pl011) and [`SifiveUart`](crate::SifiveUart) are windows of other UARTs. For one more,
/// implement this trait for a type that holds its window; `sifive.rs` is an example.
///
/// Line status and modem status have the bits of the 16550's registers, [`lsr`](crate::registers::lsr)
/// and [`msr`](crate::registers::msr), whatever the hardware's own are. No method waits, except for
/// [`configure`](Self::configure).
pub trait UartHardware {
    /// Checks the settings, without an access to the UART. Returns the model, as the settings name it
    /// or as it is assumed.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the UART cannot have the settings.
    fn assume(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError>;

    /// Finds out the model, unless the settings name it. Interrupts may be raised meanwhile.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotFound`] if no UART answers.
    fn identify(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError>;

    /// Makes the line status valid, if it depends on a setting, while bytes of the last user may still
    /// be sent.
    fn begin_open(&self) {}

    /// Returns whether a UART of this model answers.
    fn answers(&self, model: Model) -> bool;

    /// Sets rate and frame, clears and enables the FIFOs, disables all interrupts, and raises DTR. RTS
    /// becomes `rts`. Waits up to `limit` for a busy UART. Returns whether the FIFOs work.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the UART ignores its settings.
    fn configure(
        &self,
        clock: &impl Clock,
        model: Model,
        line: &LineSettings,
        rts: bool,
        limit: Nanos,
    ) -> Result<bool, OpenError>;

    /// Returns whether the UART can send as [configured](Self::configure): no other driver was stopped
    /// in the middle of a set-up or a test.
    fn is_configured(&self, model: Model, line: &LineSettings) -> bool;

    /// Whether a read of the line status takes the errors of a received byte with it. Otherwise they
    /// come with the [byte](Self::receive).
    const ERRORS_IN_STATUS: bool = true;

    /// Reads the line status. All ones means that no UART answers.
    ///
    /// The bit `THRE` means that the transmitter takes a whole load.
    fn line_status(&self) -> u8;

    /// Returns whether `TEMT` of the line status ever reports that the last bit is on the line.
    fn reports_idle(&self) -> bool {
        true
    }

    /// Reads the modem status.
    fn modem_status(&self) -> u8;

    /// Gives one byte to the transmitter.
    fn send(&self, byte: u8);

    /// Gives a load to the transmitter.
    fn send_burst(&self, load: &[u8]) {
        load.iter().for_each(|&byte| self.send(byte));
    }

    /// Takes a received byte, after a line status that shows one. Also returns its errors, as bits of
    /// the line status, if they come with the byte.
    fn receive(&self) -> (u8, u8);

    /// Prepares the UART for receive interrupts, at the level `trigger` where it has FIFOs, or for
    /// none. [`enable_receive_interrupt`](Self::enable_receive_interrupt) follows.
    fn set_receive(&self, model: Model, trigger: Option<TriggerLevel>, receives: bool);

    /// Enables or disables the interrupts of received bytes: at the trigger level, and a few frames
    /// after the last byte. Only these are ever enabled.
    fn enable_receive_interrupt(&self, model: Model, is_enabled: bool);

    /// Ends an interrupt that came without a byte. Returns whether the interrupt of a byte that came
    /// meanwhile may have ended too, so that the caller looks again.
    fn end_empty_interrupt(&self, _model: Model) -> bool {
        false
    }

    /// Raises or lowers RTS, while receive interrupts are enabled or not.
    fn set_rts(&self, is_raised: bool, receives: bool);

    /// Returns whether a loss of power can be detected on this model.
    fn detects_power_loss(&self, model: Model) -> bool;

    /// Returns whether the UART has kept its power since [`mark_power`](Self::mark_power).
    fn has_kept_power(&self) -> bool;

    /// Sets or clears the mark that a loss of power removes.
    fn mark_power(&self, _is_set: bool) {}
}

/// Model of a UART, and the size of its loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The model.
    pub model: Model,
    /// Number of bytes that the transmitter takes when it reports empty, 1 to 128.
    pub transmit_load: usize,
}
