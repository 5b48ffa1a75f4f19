//! Run of one message, from selection to release: blocking and asynchronous.

use core::pin::pin;

use nostall_io::Nanos;

use crate::controller::{AsyncController, Controller, Level, Progress, Waits};
use crate::error::{Error, Fault};
use crate::platform::Platform;
use crate::settings::{Settings, Wire, WordSize};
use crate::sync::constant;
use crate::transfer::Message;
use crate::twins::{awaited, blocked};
use crate::waiting::{CLOCK_READ, GRACE, UNRECORDED, Waiting, sleep};
use crate::words::Words;

/// Shape of a controller whose settings are not known. No device has it.
const UNKNOWN: u16 = u16::MAX;

/// Controller and its state.
#[derive(Debug)]
pub(crate) struct Station<C> {
    pub(crate) controller: C,
    /// Clock of the controller's settings, in hertz.
    clock: u32,
    /// The other settings of the controller; `UNKNOWN` if none are known.
    shape: u16,
    /// Actual clock in hertz.
    rate: u32,
    /// A chip select may be asserted.
    selected: bool,
    phase: Phase,
    /// Time of the next check for an idle bus.
    check: Unaligned,
}

/// State of the hardware, and of the last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The hardware sleeps.
    Asleep,
    /// No message was run since the next check for an idle bus was set.
    Idle,
    /// Messages were run since then.
    Ran,
    /// A message was begun and has not ended.
    Begun,
    /// The same, and words of it may have been sent.
    Moved,
}

/// Time without the alignment of a [`Nanos`].
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Unaligned(Nanos);

/// Runs the transfers of a message, blocking or asynchronously: `$wait!` is `blocked!` or
/// `awaited!`, and `$face` waits in that way.
///
/// A future that is ready at its first poll would also work, but takes 2.5 times the instructions
/// of a short message.
macro_rules! run_transfers {
    ($station:ident, $settings:ident, $message:ident, $waiting:ident, $face:ident, $wait:ident) => {{
        if $station.selected {
            $station.abort()?;
        }
        $station.phase = Phase::Begun;
        if let Some(ran) = $station.controller.whole($settings, $message) {
            $station.phase = Phase::Moved;
            return ran.map_err(|(transfer, fault)| Error::Failed { transfer, fault });
        }
        let transfers = $message.transfers();
        let (mut number, mut unrecorded) = (0, 0);
        while let Some(transfer) = $message.transfer(number) {
            let failed = |fault| Error::Failed {
                transfer: number,
                fault,
            };
            let timeout = Error::Timeout { transfer: number };
            let (delay, cs_change) = (transfer.pause_after(), transfer.options.cs_change);
            let ends = number + 1 == transfers || cs_change.is_some();
            let cs_change = cs_change.unwrap_or(Nanos::ZERO);
            let mut wire = transfer.options.wire($settings);
            if transfer.options.clock.is_some() {
                wire.clock = $waiting.possible(wire.clock);
            }
            if !$station.is_set(&wire) {
                if $station.shape == UNKNOWN {
                    let drained = $wait!($face::drain(&mut $station.controller, $waiting));
                    drained.ok_or(timeout)?.map_err(failed)?;
                }
                // Unknown if the call fails, panics or is dropped before its end.
                $station.shape = UNKNOWN;
                let set = $wait!($face::set(&mut $station.controller, &wire, $waiting));
                $station.rate = match set.ok_or(timeout)?.map_err(failed)? {
                    // No transfer would end.
                    0 => return Err(failed(Fault::Refused)),
                    rate => rate,
                };
                ($station.clock, $station.shape) = (wire.clock, wire.shape());
            }
            // Without a pause, the clock is not read.
            if $station.select().map_err(failed)? && $settings.setup > Nanos::ZERO {
                $wait!($face::pause($waiting, $settings.setup));
            }
            let mut words = Words::new(transfer, wire.word, $settings.fill);
            if words.total() != 0 {
                $station.phase = Phase::Moved;
                let (controller, rate) = (&mut $station.controller, $station.rate);
                unrecorded += words.total();
                if unrecorded > UNRECORDED {
                    $waiting.begin_long(time_limit(unrecorded, words.word(), rate));
                    unrecorded = 0;
                }
                let moved = $wait!($face::transfer(controller, &mut words, $waiting, rate));
                moved.ok_or(timeout)?.map_err(failed)?;
                if !words.is_complete() {
                    return Err(failed(Fault::Short));
                }
            }
            let after = match ends {
                true => delay + $settings.hold,
                false => delay,
            };
            if after > Nanos::ZERO {
                $wait!($face::pause($waiting, after));
            }
            if ends {
                $station.release().map_err(failed)?;
            }
            if cs_change > Nanos::ZERO {
                $wait!($face::pause($waiting, cs_change));
            }
            number += 1;
        }
        Ok(())
    }};
}

impl<C: Controller> Station<C> {
    /// Runs a message; [`end`](Self::end) must follow.
    #[inline(always)]
    pub(crate) fn run<M: Message + ?Sized, P: Platform>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        waiting: Waiting<'_, P>,
    ) -> Result<(), Error> {
        run_transfers!(self, settings, message, waiting, blocking, blocked)
    }

    /// Does the same, asynchronously. If the future is dropped, the station stays dirty, and the
    /// owner's drop [aborts](Self::abort) the message.
    pub(crate) async fn run_awaited<M: Message + ?Sized, P: Platform>(
        &mut self,
        settings: &Settings,
        message: &mut M,
        waiting: &Waiting<'_, P>,
    ) -> Result<(), Error>
    where
        C: AsyncController,
    {
        run_transfers!(self, settings, message, waiting, awaiting, awaited)
    }

    /// Ends the message that was begun, if any. Afterwards no device is selected.
    #[inline]
    pub(crate) fn end(&mut self, result: &Result<(), Error>) {
        if result.is_err() {
            // If it fails, the next message tries again.
            if self.is_dirty() {
                let _ = self.abort();
            }
            // The hardware was not woken.
            if !self.is_prepared() {
                return;
            }
        }
        self.phase = Phase::Ran;
    }

    constant! {
        pub(crate) fn new(controller: C) -> Self {
            Self {
                controller,
                clock: 0,
                shape: UNKNOWN,
                rate: 1,
                selected: false,
                phase: Phase::Asleep,
                check: Unaligned(Nanos::ZERO),
            }
        }
    }

    /// Selects the device if it is not selected. Returns whether it was selected now.
    #[inline(always)]
    fn select(&mut self) -> Result<bool, Fault> {
        if self.selected {
            return Ok(false);
        }
        // Set first, so that a partly asserted line is released.
        self.selected = true;
        self.controller.select(Level::Asserted)?;
        Ok(true)
    }

    #[inline(always)]
    fn is_set(&self, wire: &Wire) -> bool {
        // No short-circuit operator: comparisons that are nearly always equal are faster than
        // branches.
        (self.clock == wire.clock) & (self.shape == wire.shape())
    }

    #[inline(always)]
    fn release(&mut self) -> Result<(), Fault> {
        self.controller.select(Level::Released)?;
        self.selected = false;
        Ok(())
    }

    /// Stops the last message. Afterwards no device is selected.
    #[cold]
    pub(crate) fn abort(&mut self) -> Result<(), Error> {
        // These come first, in case the driver panics here.
        self.shape = UNKNOWN;
        self.selected = true;
        if self.is_dirty() {
            self.phase = Phase::Ran;
        }
        self.controller.abort().map_err(|_| Error::StillSelected)?;
        self.selected = false;
        Ok(())
    }

    /// Returns whether a message was interrupted before its end.
    #[inline]
    pub(crate) const fn is_dirty(&self) -> bool {
        matches!(self.phase, Phase::Begun | Phase::Moved)
    }

    /// Returns whether words of the interrupted message may have been sent.
    pub(crate) const fn has_moved(&self) -> bool {
        matches!(self.phase, Phase::Moved)
    }

    /// Returns the controller. Its settings are unknown afterwards.
    pub(crate) const fn controller_to_change(&mut self) -> &mut C {
        self.shape = UNKNOWN;
        &mut self.controller
    }

    /// Returns whether the hardware is awake.
    #[inline]
    pub(crate) const fn is_prepared(&self) -> bool {
        !matches!(self.phase, Phase::Asleep)
    }

    /// Wakes the hardware.
    pub(crate) fn prepare(&mut self) -> Result<(), Fault> {
        self.controller.prepare()?;
        self.phase = Phase::Ran;
        Ok(())
    }

    /// Begins an idle time, which ends at `check`.
    pub(crate) const fn begin_idle(&mut self, check: Nanos) {
        self.check = Unaligned(check);
        self.phase = Phase::Idle;
    }

    /// Returns the end of the idle time, which begins again after messages.
    pub(crate) fn idle_end(&mut self, end: impl FnOnce() -> Nanos) -> Nanos {
        if self.phase != Phase::Idle {
            self.begin_idle(end());
        }
        self.check.0
    }

    /// Puts the hardware to sleep.
    pub(crate) fn unprepare(&mut self) {
        self.shape = UNKNOWN;
        self.phase = Phase::Asleep;
        self.controller.unprepare();
    }
}

/// Waits of a caller that blocks.
mod blocking {
    use super::*;

    #[inline(always)]
    pub(super) fn set<C: Controller, P: Platform>(
        controller: &mut C,
        wire: &Wire,
        _: Waiting<'_, P>,
    ) -> Option<Result<u32, Fault>> {
        Some(controller.set(wire))
    }

    /// Moves all words. Returns `None` after the time limit.
    #[inline(always)]
    pub(super) fn transfer<C: Controller, P: Platform>(
        controller: &mut C,
        words: &mut Words<'_>,
        waiting: Waiting<'_, P>,
        rate: u32,
    ) -> Option<Result<(), Fault>> {
        let (total, word) = (words.total(), words.word());
        let limit = || time_limit(total, word, rate);
        finish(waiting, limit, || controller.transfer(words))
    }

    /// Waits until no aborted word is under way. Returns `None` after the time limit.
    #[cold]
    pub(super) fn drain<C: Controller, P: Platform>(
        controller: &mut C,
        waiting: Waiting<'_, P>,
    ) -> Option<Result<(), Fault>> {
        finish(waiting, || GRACE, || controller.drain())
    }

    #[inline(always)]
    fn finish<P: Platform>(
        waiting: Waiting<'_, P>,
        limit: impl Fn() -> Nanos,
        mut step: impl FnMut() -> Result<Progress, Fault>,
    ) -> Option<Result<(), Fault>> {
        let (mut wait, mut pause) = (None, CLOCK_READ);
        loop {
            let progress = match step() {
                Ok(Progress::Done) => return Some(Ok(())),
                Ok(progress) => progress,
                Err(fault) => return Some(Err(fault)),
            };
            if !waiting.block(progress, &mut wait, &mut pause, &limit) {
                return None;
            }
        }
    }

    pub(super) fn pause<P: Platform>(waiting: Waiting<'_, P>, span: Nanos) {
        waiting.pause(span);
    }
}

/// Waits of a future.
mod awaiting {
    use super::*;

    pub(super) async fn set<C: AsyncController, P: Platform>(
        controller: &mut C,
        wire: &Wire,
        waiting: &Waiting<'_, P>,
    ) -> Option<Result<u32, Fault>> {
        let setting = pin!(controller.set_async(wire));
        waiting.within(|| GRACE, setting).await
    }

    pub(super) async fn transfer<C: AsyncController, P: Platform>(
        controller: &mut C,
        words: &mut Words<'_>,
        waiting: &Waiting<'_, P>,
        rate: u32,
    ) -> Option<Result<(), Fault>> {
        let (total, word) = (words.total(), words.word());
        let moving = pin!(controller.transfer_async(words, waiting));
        waiting
            .within(|| time_limit(total, word, rate), moving)
            .await
    }

    pub(super) async fn drain<C: AsyncController, P: Platform>(
        controller: &mut C,
        waiting: &Waiting<'_, P>,
    ) -> Option<Result<(), Fault>> {
        let draining = pin!(async {
            loop {
                match controller.drain()? {
                    Progress::Done => return Ok(()),
                    progress => waiting.wait(progress).await,
                }
            }
        });
        waiting.within(|| GRACE, draining).await
    }

    pub(super) async fn pause<P: Platform>(waiting: &Waiting<'_, P>, span: Nanos) {
        sleep(waiting.platform, span).await;
    }
}

/// Returns a transfer's time limit: twice its time at the actual clock, and [`GRACE`].
fn time_limit(words: usize, word: WordSize, rate: u32) -> Nanos {
    let bits = words as u64 * u64::from(word.bits());
    time_of(bits, rate) * 2 + GRACE
}

/// Returns the time of `bits` bits at `hertz`.
pub(crate) fn time_of(bits: u64, hertz: u32) -> Nanos {
    Nanos(bits.saturating_mul(1_000_000_000)) / u64::from(hertz)
}
