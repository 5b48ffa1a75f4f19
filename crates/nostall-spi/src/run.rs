//! One message, from selection to release.

use nostall_io::{Clock, Nanos};

use crate::controller::{Controller, Level, Progress};
use crate::error::{Error, Fault};
use crate::settings::{Settings, Wire};
use crate::transfer::{Message, Options, Outline};
use crate::words::{Moved, Words};

/// Waits that are shorter keep the CPU; longer ones give it away.
pub(crate) const SHORT: Nanos = Nanos::from_micros(50);

/// What a transfer may take besides twice its time: interrupts, others' turns on
/// the CPU, a slow memory.
const GRACE: Nanos = Nanos::from_millis(200);

/// The controller, and what we know of it.
#[derive(Debug)]
pub(crate) struct Station<C> {
    pub(crate) controller: C,
    /// What it is set to, if we know.
    wire: Option<Wire>,
    /// Whether a line is asserted.
    selected: bool,
    pub(crate) prepared: bool,
}

/// What is to happen before the message can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it is through.
    Done,
    /// So much time, which is over then.
    After { span: Nanos, until: Nanos },
    /// The controller's interrupt, no later than this.
    Interrupt(Nanos),
}

/// How far a message has come. It borrows nothing, so it can lie still while
/// somebody waits for an interrupt, and another may go on with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    transfer: usize,
    /// The controller is set for this transfer, and the device selected.
    begun: bool,
    moved: Moved,
    /// Of this transfer; not known before the controller has made us wait.
    deadline: Option<Nanos>,
}

impl Run {
    /// Goes on as far as it goes without waiting for the controller.
    ///
    /// When it returns `Done` or an error, the device is not selected any more.
    #[inline]
    pub(crate) fn step<C: Controller, M: Message + ?Sized>(
        &mut self,
        station: &mut Station<C>,
        settings: &Settings,
        message: &mut M,
        clock: &impl Clock,
    ) -> Result<Step, Error> {
        let stepped = self.steps(station, settings, message, clock);
        if stepped.is_err() {
            station.abort();
        }
        stepped
    }

    #[inline]
    fn steps<C: Controller, M: Message + ?Sized>(
        &mut self,
        station: &mut Station<C>,
        settings: &Settings,
        message: &mut M,
        clock: &impl Clock,
    ) -> Result<Step, Error> {
        if self.transfer == 0
            && !self.begun
            && let Some(ran) = station.controller.whole(settings, message)
        {
            let failed = |(transfer, fault)| Error::Failed { transfer, fault };
            return ran.map(|()| Step::Done).map_err(failed);
        }
        let transfers = message.transfers();
        while let Some(transfer) = message.transfer(self.transfer) {
            let options = transfer.options;
            let wire = options.wire(settings);
            let number = self.transfer;
            let failed = |fault| Error::Failed {
                transfer: number,
                fault,
            };
            if !self.begun {
                station.begin(&wire, settings, clock).map_err(failed)?;
                self.begun = true;
            }
            let mut words = Words::new(transfer.buffers, wire.word, settings.fill, &mut self.moved);
            if words.total() != 0 {
                match station.controller.transfer(&mut words).map_err(failed)? {
                    Progress::Done if words.is_complete() => {}
                    Progress::Done => return Err(failed(Fault::Short)),
                    waits => {
                        let total = words.total();
                        return self.wait(waits, total, &wire, clock);
                    }
                }
            }
            let last = self.transfer + 1 >= transfers;
            station
                .end(&options, settings, last, clock)
                .map_err(failed)?;
            if last {
                break;
            }
            *self = Self {
                transfer: self.transfer + 1,
                ..Self::default()
            };
        }
        Ok(Step::Done)
    }

    #[cold]
    fn wait(
        &mut self,
        waits: Progress,
        words: usize,
        wire: &Wire,
        clock: &impl Clock,
    ) -> Result<Step, Error> {
        let now = clock.now();
        let bits = words as u64 * u64::from(wire.word.bits());
        let deadline = *self
            .deadline
            .get_or_insert_with(|| now + time_of(bits, wire.clock) * 2 + GRACE);
        if now >= deadline {
            return Err(Error::Timeout {
                transfer: self.transfer,
            });
        }
        Ok(match waits {
            Progress::After(span) => {
                let span = span.min(deadline - now);
                let until = now + span;
                Step::After { span, until }
            }
            _ => Step::Interrupt(deadline),
        })
    }
}

impl<C: Controller> Station<C> {
    pub(crate) const fn new(controller: C) -> Self {
        Self {
            controller,
            wire: None,
            selected: false,
            prepared: false,
        }
    }

    /// Sets the controller for a transfer, and selects the device if it is not.
    #[inline(always)]
    fn begin(&mut self, wire: &Wire, settings: &Settings, clock: &impl Clock) -> Result<(), Fault> {
        if !self.is_set(wire) {
            self.set(wire)?;
        }
        if !self.selected {
            // First, so that a line that was asserted half is released.
            self.selected = true;
            self.controller.select(Level::Asserted)?;
            pause(clock, settings.setup);
        }
        Ok(())
    }

    /// Whether the controller is set so already.
    #[inline(always)]
    fn is_set(&self, wire: &Wire) -> bool {
        // No short cuts: comparisons that are nearly always equal are quicker than
        // branches.
        self.wire.is_some_and(|set| {
            (set.clock == wire.clock)
                & (set.mode as u8 == wire.mode as u8)
                & (set.order as u8 == wire.order as u8)
                & (set.wires as u8 == wire.wires as u8)
                & (set.word as u8 == wire.word as u8)
                & (set.select.key() == wire.select.key())
        })
    }

    #[cold]
    fn set(&mut self, wire: &Wire) -> Result<(), Fault> {
        self.controller.set(wire)?;
        self.wire = Some(*wire);
        Ok(())
    }

    /// What comes after a transfer.
    #[inline(always)]
    fn end(
        &mut self,
        options: &Options,
        settings: &Settings,
        last: bool,
        clock: &impl Clock,
    ) -> Result<(), Fault> {
        pause(clock, options.delay);
        if last || options.deselect.is_some() {
            pause(clock, settings.hold);
            self.controller.select(Level::Released)?;
            self.selected = false;
            pause(clock, options.deselect.unwrap_or(Nanos::ZERO));
        }
        Ok(())
    }

    /// Stops what is under way; no device is selected afterwards.
    pub(crate) fn abort(&mut self) {
        self.controller.abort();
        self.selected = false;
        self.wire = None;
    }

    /// Whether a message was left in its middle.
    pub(crate) const fn is_selected(&self) -> bool {
        self.selected
    }

    /// Puts the hardware to sleep.
    pub(crate) fn unprepare(&mut self) {
        self.controller.unprepare();
        self.prepared = false;
        self.wire = None;
    }
}

/// Lets `span` pass. Without one, the clock is not read.
#[inline]
pub(crate) fn pause(clock: &impl Clock, span: Nanos) {
    if span > Nanos::ZERO {
        pause_until(clock, span, clock.now() + span);
    }
}

/// Lets `span` pass, which ends at `deadline`.
pub(crate) fn pause_until(clock: &impl Clock, span: Nanos, deadline: Nanos) {
    if span <= SHORT {
        clock.wait_until(deadline);
    } else {
        clock.sleep_until(deadline);
    }
}

/// What so many bits take at `hertz`.
pub(crate) fn time_of(bits: u64, hertz: u32) -> Nanos {
    Nanos(bits.saturating_mul(1_000_000_000)) / u64::from(hertz)
}

/// What a message takes by its clocks and delays.
pub(crate) fn time_of_message<M: Outline + ?Sized>(settings: &Settings, message: &M) -> Nanos {
    let ends = settings.setup + settings.hold;
    (0..message.transfers()).fold(ends, |time, index| {
        let shape = message.shape(index);
        let hertz = shape.options.clock.unwrap_or(settings.clock);
        let deselected = shape.options.deselect.map_or(Nanos::ZERO, |it| it + ends);
        time + time_of(shape.len() as u64 * 8, hertz) + shape.options.delay + deselected
    })
}
