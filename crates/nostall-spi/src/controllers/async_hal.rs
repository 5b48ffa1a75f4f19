//! embedded-hal's asynchronous bus and output pins as a controller.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_hal::spi::Operation;
use embedded_hal_async::spi::SpiBus;

use super::hal::{Configure, fault};
use super::lines::{self, Lines};
use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::Fault;
use crate::settings::{Select, Wire};
use crate::words::Words;

/// Polls of a blocking caller for one transfer, at most: some seconds.
const POLLS: u32 = 1 << 24;

/// A controller made of embedded-hal's asynchronous bus, as Embassy's HALs have it, and
/// chip-select [`Lines`].
///
/// The bus needs no blocking face. Blocking callers poll its transfers in place, 2^24 times
/// at most, and keep the CPU meanwhile. A transfer's future must stop the DMA when it is
/// dropped.
#[derive(Debug)]
pub struct AsyncHal<B, L> {
    bus: B,
    lines: L,
    select: Select,
    /// A transfer was given up, and may still be in the FIFO.
    stale: bool,
}

impl<B: SpiBus + Configure, L: Lines> AsyncHal<B, L> {
    /// `lines` are in the state in which no device listens.
    pub const fn new(bus: B, lines: L) -> Self {
        Self {
            bus,
            lines,
            select: Select::None,
            stale: false,
        }
    }

    /// Gives the parts back.
    pub fn release(self) -> (B, L) {
        (self.bus, self.lines)
    }

    async fn apply(&mut self, wire: &Wire) -> Result<u32, Fault> {
        if self.stale {
            self.bus.flush().await.map_err(fault)?;
            self.stale = false;
        }
        self.select = wire.select;
        self.bus.configure(wire)
    }
}

/// Moves all words, and returns when the last bit is out.
pub(super) async fn move_words<B: SpiBus>(bus: &mut B, words: &mut Words<'_>) -> Result<(), Fault> {
    let fill = words.fill();
    match words.operation() {
        Operation::Write(bytes) => bus.write(bytes).await,
        Operation::Read(into) => {
            into.fill(fill);
            bus.transfer_in_place(into).await
        }
        Operation::Transfer(read, write) if read.len() > write.len() => {
            let (both, rest) = read.split_at_mut(write.len());
            rest.fill(fill);
            bus.transfer(both, write).await.map_err(fault)?;
            bus.transfer_in_place(rest).await
        }
        Operation::Transfer(read, write) => bus.transfer(read, write).await,
        Operation::TransferInPlace(bytes) => bus.transfer_in_place(bytes).await,
        Operation::DelayNs(_) => Ok(()),
    }
    .map_err(fault)?;
    // The last bit must be out before a line moves.
    bus.flush().await.map_err(fault)?;
    words.complete();
    Ok(())
}

/// Polls `future` until it is ready.
fn in_place<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        core::hint::spin_loop();
    }
    Err(Fault::Short)
}

impl<B: SpiBus + Configure, L: Lines> Controller for AsyncHal<B, L> {
    fn capabilities(&self) -> Capabilities {
        self.bus.capabilities(L::COUNT)
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        in_place(self.apply(wire))
    }

    fn select(&mut self, level: Level) -> Result<(), Fault> {
        lines::set(&mut self.lines, self.select, level)
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        in_place(move_words(&mut self.bus, words)).map(|()| Progress::Done)
    }

    fn abort(&mut self) {
        self.stale = true;
        // The line must move. If it does not, there is nothing else to be done.
        let _ = self.select(Level::Released);
    }
}

impl<B: SpiBus + Configure, L: Lines> AsyncController for AsyncHal<B, L> {
    fn set_async(&mut self, wire: &Wire) -> impl Future<Output = Result<u32, Fault>> {
        self.apply(wire)
    }

    fn transfer_async(
        &mut self,
        words: &mut Words<'_>,
        _waits: &impl Waits,
    ) -> impl Future<Output = Result<(), Fault>> {
        move_words(&mut self.bus, words)
    }
}
