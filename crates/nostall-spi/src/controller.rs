//! What drives the wires.

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::error::Fault;
use crate::settings::{Settings, Wire};
use crate::transfer::Message;
use crate::words::Words;

/// How far a controller has come with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is through: every word was sent and received, and the last bit is out.
    Done,
    /// There is nothing for the CPU to do for so long, as reckoned from the clock
    /// and what is in the FIFO; then ask again. `Nanos::ZERO`: ask again at once.
    After(Nanos),
    /// It will interrupt, and the handler will call
    /// [`Bus::on_interrupt`](crate::Bus::on_interrupt); then ask again.
    Interrupt,
}

/// A chip-select line's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The device is selected.
    Asserted,
    /// It is not.
    Released,
}

/// An SPI controller: what a driver has to do, and no more. Who may use it when,
/// delays, chip selects, time-outs and clean-up are the bus's business.
///
/// One context at a time calls, never an interrupt handler. No call may wait for
/// longer than a few words take.
pub trait Controller {
    /// What it can do. Asked once, when the bus is made.
    fn capabilities(&self) -> Capabilities;

    /// Wakes the hardware: clocks, power, pins, DMA. Before the first message, and
    /// before the first after each [`unprepare`](Self::unprepare).
    ///
    /// # Errors
    ///
    /// [`Fault`]: the message is not run; the next one tries again.
    fn prepare(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Puts the hardware to sleep, until [`prepare`](Self::prepare).
    fn unprepare(&mut self) {}

    /// Sets mode, clock and word size for what comes. Called only when something
    /// has changed; the device of `wire.select` is not selected yet, unless only
    /// clock or word size have changed in the middle of a message.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn set(&mut self, wire: &Wire) -> Result<(), Fault>;

    /// Asserts or releases the line of the last `set`.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn select(&mut self, level: Level) -> Result<(), Fault>;

    /// Moves what can be moved now. Called again with the same words, as far as they
    /// have come, until all are through.
    ///
    /// # Errors
    ///
    /// [`Fault`] ends the message.
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault>;

    /// Stops whatever is under way, empties the FIFOs, releases every chip select
    /// and masks the interrupt: after a fault, a time-out, or a message that nobody
    /// wants any more. What was `set` is forgotten, and will be set anew.
    fn abort(&mut self);

    /// Runs a whole message, for a controller to which messages are given whole
    /// (Linux's spidev); `None` from all others. On an error, the transfer in which
    /// it was.
    fn whole<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
    ) -> Option<Result<(), (usize, Fault)>> {
        let _ = (settings, message);
        None
    }
}
