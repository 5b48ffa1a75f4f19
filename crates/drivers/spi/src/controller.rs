//! Traits for controller drivers.

use nostall_io::Nanos;

use crate::capabilities::Capabilities;
use crate::error::Fault;
use crate::settings::{Settings, Wire};
use crate::transfer::Message;
use crate::words::Words;

/// Progress of a controller with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every word was sent and received, and the last bit is sent.
    Done,
    /// The CPU has nothing to do for this time; then the transfer must be called again. With
    /// `Nanos::ZERO`, at once.
    After(Nanos),
    /// The controller will interrupt, and its handler calls
    /// [`Bus::on_interrupt`](crate::Bus::on_interrupt). Then the transfer must be called again.
    Interrupt,
}

/// State of a chip-select line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The device is selected.
    Asserted,
    /// The device is not selected.
    Released,
}

/// SPI controller as driven by the bus. The bus handles sharing, delays, time-outs and clean-up.
///
/// Only one context at a time calls these methods. No call waits for longer than the time of a few
/// words, except [`transfer`](Self::transfer) on a blocking bus.
///
/// # Example
///
/// The five methods without a default, for a controller that receives what it sends:
///
/// ```
/// use nostall_io::HostClock;
/// use nostall_spi::{AsyncController, Bare, Bus, Capabilities, Controller, Fault, Level};
/// use nostall_spi::{Progress, Settings, Transfer, Wire, Words};
///
/// struct Echo;
///
/// impl Controller for Echo {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::least(2) // mode 0, 8-bit words, two chip-select lines
///     }
///     fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
///         Ok(wire.clock) // the actual clock
///     }
///     fn select(&mut self, _: Level) -> Result<(), Fault> {
///         Ok(())
///     }
///     fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
///         while let Some(word) = words.next_word() {
///             words.receive(word);
///         }
///         Ok(Progress::Done)
///     }
///     fn abort(&mut self) -> Result<(), Fault> {
///         Ok(())
///     }
/// }
/// impl AsyncController for Echo {} // for awaited devices
///
/// let bus = Bus::new(Echo, Bare(HostClock::new()));
/// let device = bus.device(Settings::new(1_000_000, 1))?;
/// let mut bytes = [1, 2, 3];
/// device.sync(&mut [Transfer::in_place(&mut bytes)])?;
/// assert_eq!(bytes, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a controller of an SPI bus",
    note = "a HAL's `SpiBus` and its chip selects are one: `Hal::new(bus, [pin], (8_000_000, MODE_0))`"
)]
pub trait Controller {
    /// Returns the controller's capabilities. Called before the first device is created.
    fn capabilities(&self) -> Capabilities;

    /// Wakes the hardware: clocks, power, pins, DMA. Called before the first message, and before
    /// the next message after each [`unprepare`](Self::unprepare).
    ///
    /// # Errors
    ///
    /// [`Fault`] if the hardware does not wake. The message is not run; the next one tries again.
    fn prepare(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Puts the hardware to sleep, until [`prepare`](Self::prepare).
    fn unprepare(&mut self) {}

    /// Sets mode, clock and word size. Returns the actual clock in hertz, from which time-outs are
    /// computed; with 0, the message is refused. Called only after a change, an
    /// [`abort`](Self::abort), an [`unprepare`](Self::unprepare) or a
    /// [`Bus::with_controller`](crate::Bus::with_controller). The device of `wire.select` is not
    /// selected yet, unless only clock or word size change during a message.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the settings are not possible.
    fn set(&mut self, wire: &Wire) -> Result<u32, Fault>;

    /// Asserts or releases the chip-select line of the last `set`.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the line cannot be driven.
    fn select(&mut self, level: Level) -> Result<(), Fault>;

    /// Moves as many words as possible now. Called again with the same words until all are moved.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the transfer fails; it ends the message.
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault>;

    /// Stops the current transfer, releases every chip select and masks the interrupt. Called after
    /// a fault, a time-out, a panic or a dropped future. Does not wait. No device may receive its
    /// other words, and no later message its answers. Either the next [`set`](Self::set) clears the
    /// FIFOs, or [`drain`](Self::drain) waits until they are empty.
    ///
    /// # Errors
    ///
    /// [`Fault`] if a chip select may still be asserted. It is called again before the next
    /// message, which is not run unless it succeeds.
    fn abort(&mut self) -> Result<(), Fault>;

    /// Returns the progress of an aborted transfer, for a controller that cannot clear its FIFOs.
    /// Called until it is done, before the next [`set`](Self::set), which may then change the clock
    /// and the line. No device is selected meanwhile.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the controller fails; the next message is not run.
    fn drain(&mut self) -> Result<Progress, Fault> {
        Ok(Progress::Done)
    }

    /// Runs a whole message, for a controller that takes whole messages (Linux's spidev). Other
    /// controllers return `None`. An error includes the index of its transfer.
    fn whole<M: Message + ?Sized>(
        &mut self,
        settings: &Settings,
        message: &mut M,
    ) -> Option<Result<(), (usize, Fault)>> {
        let _ = (settings, message);
        None
    }
}

/// Non-blocking way to wait.
pub trait Waits {
    /// Waits as `progress` requires.
    fn wait(&self, progress: Progress) -> impl Future<Output = ()>;
}

/// Controller whose transfers can be awaited.
///
/// The default is right for controllers that report [`Progress`] ([example](Controller#example)). The futures may be dropped at any
/// time; the hardware must not access the words afterwards.
#[diagnostic::on_unimplemented(
    message = "transfers of `{Self}` cannot be awaited",
    note = "for a driver that reports its progress, an empty `impl AsyncController` suffices"
)]
pub trait AsyncController: Controller {
    /// Does the same as [`set`](Controller::set). After an [`abort`](Controller::abort), it may
    /// wait until the FIFOs are empty.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the settings are not possible.
    fn set_async(&mut self, wire: &Wire) -> impl Future<Output = Result<u32, Fault>> {
        async { self.set(wire) }
    }

    /// Moves all words.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the transfer fails; it ends the message.
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
