//! embedded-hal's asynchronous bus and output pins as a controller.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_hal_async::spi::SpiBus;
use nostall_io::{Held, Nanos, StallCondition};

use super::lines::Lines;
use super::parts::{Configure, Parts, move_words_awaited};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::Fault;
use crate::settings::Wire;
use crate::words::Words;

/// Polls of a blocking caller besides those of a transfer's own time: 200 ms and more.
const POLLS: u64 = 1 << 24;

/// A poll takes at least as long as this.
const POLL: Nanos = Nanos(10);

/// A controller made of embedded-hal's asynchronous bus, as Embassy's HALs have it, and
/// chip-select [`Lines`].
///
/// The bus needs no blocking face. Blocking callers poll its transfers in place, and keep the
/// CPU meanwhile. They give up after 2^24 polls, and one more for each 5 ns of the transfer's
/// time. A transfer's future must stop the DMA when it is dropped.
#[derive(Debug)]
pub struct AsyncHal<B, L>(Parts<B, L>);

impl<B: SpiBus + Configure, L: Lines> AsyncHal<B, L> {
    /// `lines` are in the state in which no device listens.
    pub const fn new(bus: B, lines: L) -> Self {
        Self(Parts::new(bus, lines))
    }

    /// Gives the parts back.
    pub fn release(self) -> (B, L) {
        (self.0.bus, self.0.lines)
    }
}

/// Polls `future`, which may take twice `time` and some, until it is ready.
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

impl<B: SpiBus + Configure, L: Lines> Controller for AsyncHal<B, L> {
    fn capabilities(&self) -> Capabilities {
        self.0.bus.capabilities(L::COUNT)
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

    fn abort(&mut self) {
        self.0.abort();
    }
}

impl<B: SpiBus + Configure, L: Lines> AsyncController for AsyncHal<B, L> {
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
