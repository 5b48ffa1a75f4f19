//! The traits that a driver of a controller implements.

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::error::Fault;
use crate::settings::{Settings, Wire};
use crate::transfer::Message;
use crate::words::Words;

/// Progress of a controller with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every word was sent and received, and the last bit is out.
    Done,
    /// The CPU has nothing to do for this long; then the transfer is to be called again.
    /// `Nanos::ZERO`: at once.
    After(Nanos),
    /// The controller will interrupt, and the handler calls
    /// [`Bus::on_interrupt`](crate::Bus::on_interrupt); then the transfer is to be called
    /// again.
    Interrupt,
}

/// State of a chip-select line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The device is selected.
    Asserted,
    /// It is not.
    Released,
}

/// An SPI controller, as the bus drives it. Sharing, delays, time-outs and clean-up are
/// the bus's business.
///
/// One context at a time calls. No call waits for longer than a few words take, except
/// [`transfer`](Self::transfer) over a bus that blocks.
pub trait Controller {
    /// The controller's abilities. Asked once, before the first device is made.
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

    /// Sets mode, clock and word size, and returns the clock that was set, in hertz, from
    /// which time-outs are computed. Called only when something has changed; the device of
    /// `wire.select` is not selected yet, unless only clock or word size have changed in
    /// the middle of a message.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn set(&mut self, wire: &Wire) -> Result<u32, Fault>;

    /// Asserts or releases the line of the last `set`.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn select(&mut self, level: Level) -> Result<(), Fault>;

    /// Moves as many words as can be moved now. Called again with the same words until
    /// all are through.
    ///
    /// # Errors
    ///
    /// [`Fault`] ends the message.
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault>;

    /// Stops the transfer under way, releases every chip select and masks the interrupt:
    /// after a fault, a time-out, a panic, or a future that was dropped. Does not wait.
    /// The next [`set`](Self::set), which comes before anything else is sent, empties the
    /// FIFOs.
    fn abort(&mut self);

    /// Runs a whole message, for a controller that takes messages whole (Linux's spidev);
    /// `None` from all others. An error names its transfer.
    fn whole<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
    ) -> Option<Result<(), (usize, Fault)>> {
        let _ = (settings, message);
        None
    }
}

/// A way of waiting that does not block.
pub trait Waits {
    /// Waits as `progress` says.
    fn wait(&self, progress: Progress) -> impl Future<Output = ()>;
}

/// A controller whose transfers can be awaited.
///
/// The default is right for controllers that report [`Progress`]. A future from here may
/// be dropped at any moment: the hardware must not touch the words afterwards.
pub trait AsyncController: Controller {
    /// Sets the controller as [`set`](Controller::set) does. It may have to wait after an
    /// [`abort`](Controller::abort), until the FIFOs are empty.
    ///
    /// # Errors
    ///
    /// [`Fault`] if that cannot be done.
    fn set_async(&mut self, wire: &Wire) -> impl Future<Output = Result<u32, Fault>> {
        async { self.set(wire) }
    }

    /// Moves all words.
    ///
    /// # Errors
    ///
    /// [`Fault`] ends the message.
    fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        waits: &impl Waits,
    ) -> impl Future<Output = Result<(), Fault>> {
        async {
            loop {
                match self.transfer(words)? {
                    Progress::Done => return Ok(()),
                    progress => waits.wait(progress).await,
                }
            }
        }
    }
}
