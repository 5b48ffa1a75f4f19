//! Controller on embedded-hal's asynchronous bus and output pins.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_hal::spi::Mode;
use embedded_hal_async::spi::SpiBus;
use nostall_io::{Held, Nanos, StallCondition};

use super::lines::Lines;
use super::parts::{Configure, Parts, move_words_awaited};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::Fault;
use crate::settings::Wire;
use crate::words::Words;

/// Number of polls of a blocking caller beyond a transfer's own time: about 170 ms at [`POLL`]
/// each.
const POLLS: u64 = 1 << 24;

/// Shortest time of one poll.
const POLL: Nanos = Nanos(10);

/// Controller on an asynchronous embedded-hal bus, as in Embassy's HALs, and chip-select [`Lines`].
///
/// The bus needs no blocking interface. Blocking callers poll its transfers in place, and keep the
/// CPU meanwhile. They give up after 2^24 polls, plus one for each 5 ns of the transfer's time.
/// When a transfer's future is dropped, it must stop the DMA. The same methods of the bus are called
/// as by [`Hal`](super::Hal).
///
/// ```
/// use embedded_hal::digital::OutputPin;
/// use embedded_hal_async::spi::SpiBus;
/// use nostall_io::Clock;
/// use nostall_spi::controllers::AsyncHal;
/// use nostall_spi::{Bare, Bus, MODE_0, Settings, Transfer};
///
/// async fn identity(
///     spi: impl SpiBus,
///     pins: [impl OutputPin; 2],
///     timer: impl Clock,
/// ) -> Result<[u8; 3], Box<dyn std::error::Error>> {
///     let bus = Bus::new(AsyncHal::new(spi, pins, (8_000_000, MODE_0)), Bare(timer));
///     let flash = bus.device(Settings::new(8_000_000, 0))?; // also an asynchronous `SpiDevice`
///     let mut id = [0; 3];
///     let message = &mut [Transfer::write(&[0x9f]), Transfer::read(&mut id)];
///     flash.transfer_async(message).await?;
///     Ok(id)
/// }
/// ```
#[derive(Debug)]
pub struct AsyncHal<B, L, K = (u32, Mode)>(Parts<B, L, K>);

impl<B: SpiBus, L: Lines, K: Configure<B>> AsyncHal<B, L, K> {
    /// Creates the controller. `lines` must be in the state in which no device is selected.
    /// `settings` are the clock and mode of a bus that keeps them, and is always awake. Or they
    /// [`Configure`] the bus.
    pub const fn new(bus: B, lines: L, settings: K) -> Self {
        Self(Parts::new(bus, lines, settings))
    }

    /// Returns the bus and the lines. A bus that is awake stays so.
    pub fn release(self) -> (B, L) {
        (self.0.bus, self.0.lines)
    }
}

/// Polls `future` until it is ready. It may take a little more than twice `time`.
fn in_place<T>(time: Nanos, future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut held = None;
    for _ in 0..POLLS + time.0 / POLL.0 * 2 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        held.get_or_insert_with(|| Held::begin(StallCondition::SpiTransfer));
        core::hint::spin_loop();
    }
    Err(Fault::Short)
}

impl<B: SpiBus, L: Lines, K: Configure<B>> Controller for AsyncHal<B, L, K> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        self.0.prepare()
    }

    fn unprepare(&mut self) {
        self.0.unprepare();
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        in_place(Nanos::ZERO, self.0.set_awaited(wire))
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        self.0.select(level)
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let time = self.0.time_of(words.total());
        in_place(time, move_words_awaited(&mut self.0.bus, words)).map(|()| Progress::Done)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        self.0.abort()
    }
}

impl<B: SpiBus, L: Lines, K: Configure<B>> AsyncController for AsyncHal<B, L, K> {
    fn set_async(&mut self, wire: &Wire) -> impl Future<Output = Result<u32, Fault>> {
        self.0.set_awaited(wire)
    }

    fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        _waits: &impl Waits,
    ) -> impl Future<Output = Result<(), Fault>> {
        move_words_awaited(&mut self.0.bus, words)
    }
}
