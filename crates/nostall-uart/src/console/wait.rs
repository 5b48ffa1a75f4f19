//! Bounded waits.

use nostall_io::{Clock, Held, Nanos, Registers, StallCondition, Timeout};

use super::entry::{Entered, Stall};
use super::state::{Console, Port, Turn};
use crate::registers::{LSR, lsr};
use crate::{FlowControl, Strategy};

/// Linux's limit for one wait: 10,000 looks a microsecond apart. Here it ends the even
/// looks, and is the longest pause between two.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(10);

/// Between two of the even looks.
const SHORTEST_PAUSE: Nanos = Nanos::from_micros(1);

/// After the even polls, a pause is this fraction of the time waited so far.
const PAUSE_PARTS: u64 = 128;

/// The other end may let go of CTS for this many bounds: by default for a second, which is
/// Linux's limit.
const CTS_BOUNDS: u64 = 2;

/// Sleeping for less costs more than it gives.
const SHORTEST_SLEEP: Nanos = Nanos::from_micros(5);

/// Shortest duration of a wait that returns early: a clock read takes a nanosecond.
const SHORTEST_WAIT: Nanos = Nanos(16_384);

/// A transmitter that takes a load, on a line that is ours.
pub(super) struct Room {
    /// Time of the observation; only pacing reads the clock.
    pub(super) since: Option<Nanos>,
    /// Set if the transmitter is completely empty, including its shift register.
    pub(super) idle: bool,
}

impl Port {
    /// The longest pause that pacing predicts for a full load. Eight times as long as the
    /// line needs, for a line that is slower than it claims.
    pub(super) fn longest_pause(&self) -> Nanos {
        let full = self.frame_time * (self.load as u64 + 1);
        (full * 8).min(LONGEST_PAUSE.max(full * 2))
    }
}

impl<R: Registers, C: Clock> Entered<'_, R, C> {
    /// Waits until the transmitter takes a load and the line is ours.
    pub(super) fn wait_for_room(&mut self) -> Result<Room, Stall> {
        let mut room = if self.strategy == Strategy::FifoPaced {
            self.pace()?
        } else {
            self.wait_for(lsr::THRE)?;
            Room {
                since: None,
                idle: false,
            }
        };
        if self.settings.flow_control == FlowControl::Cts {
            self.wait_for_cts()?;
        }
        if self.settings.rs485.is_some() {
            let now = self.clock.now();
            if !self.take_line(now) {
                self.wait_at_least(self.pace.next_look(now) - now);
                self.turn = Turn::Talking;
                // The burst begins now.
                room.since = room.since.map(|_| self.clock.now());
            }
        }
        Ok(room)
    }

    /// Waits until the last bit is on the line.
    pub(super) fn drain(&mut self) -> Result<(), Stall> {
        let idle = lsr::THRE | lsr::TEMT;
        if self.never_idle {
            self.wait_for(lsr::THRE)?;
            // The last byte has this time to leave, and is looked for once.
            let shifted = self.clock.now() + self.port.frame_time * 2;
            let _held = Held::begin(StallCondition::Transmitter);
            self.clock.wait_until(shifted);
            self.never_idle = self.status()? & idle != idle;
        } else {
            if self.strategy == Strategy::FifoPaced
                && let Room {
                    since: Some(since),
                    idle: false,
                } = self.pace()?
            {
                // One byte is left to shift out.
                let shifted = since + self.port.frame_time;
                self.clock.sleep_until(shifted);
            }
            if let Err(stall) = self.wait_for(idle) {
                if stall == Stall::Stuck && self.status()? & lsr::THRE != 0 {
                    // Not an outage: it takes bytes.
                    self.outage = None;
                    self.never_idle = true;
                }
                return Err(stall);
            }
        }
        if self.never_idle {
            return Err(Stall::Stuck);
        }
        self.in_port = 0;
        Ok(())
    }

    /// Polls until the line status shows all of `bits`.
    ///
    /// A port that is ready costs one read and no look at the clock.
    fn wait_for(&mut self, bits: u8) -> Result<(), Stall> {
        if self.status()? & bits == bits {
            self.outage = None;
            return Ok(());
        }
        let mut outage = match self.outage.take() {
            Some(outage) => outage,
            None => Timeout::new(self.clock.now(), self.longest_wait()),
        };
        let every = Nanos::from_micros(1);
        let held = Held::begin(StallCondition::Transmitter);
        let is_ready = |port: &mut Self| Ok(port.status()? & bits == bits);
        if self.keep_polling(held, &mut outage, every, is_ready)? {
            return Ok(());
        }
        self.outage = Some(outage);
        Err(Stall::Stuck)
    }

    /// Polls until `ready` or until `timeout` is over, which may be the case from the
    /// start. Returns whether it became ready. The stall `held` ends in here.
    #[cold]
    fn keep_polling(
        &mut self,
        mut held: Held,
        timeout: &mut Timeout,
        every: Nanos,
        mut ready: impl FnMut(&mut Self) -> Result<bool, Stall>,
    ) -> Result<bool, Stall> {
        let (mut pause, before) = (every, timeout.left());
        while !timeout.is_over() {
            pause = pause.min(timeout.left());
            let next = self.clock.now() + pause;
            if self.strategy == Strategy::FifoPaced && pause >= SHORTEST_SLEEP {
                held.aside(|| self.clock.sleep_until(next));
            } else {
                self.clock.wait_until(next);
            }
            self.reassure_watchdog();
            if ready(self)? {
                return Ok(true);
            }
            timeout.charge(self.clock.now(), pause);
            let waited = before - timeout.left();
            if waited > LONGEST_PAUSE {
                pause = pause.max(waited / PAUSE_PARTS).min(LONGEST_PAUSE);
            }
        }
        Ok(false)
    }

    /// Sleeps until the transmitter should take a load, looks, and learns.
    fn pace(&mut self) -> Result<Room, Stall> {
        let mut held = None;
        loop {
            let now = self.clock.now();
            // In an outage that was waited for already, there is one look.
            let given_up = self.outage.as_ref().is_some_and(Timeout::is_over);
            let next = if given_up {
                now
            } else {
                self.pace.next_look(now)
            };
            if next > now + SHORTEST_SLEEP {
                held = None;
                self.clock.sleep_until(next);
            } else {
                if next > now && held.is_none() {
                    held = Some(Held::begin(StallCondition::Transmitter));
                }
                self.clock.wait_until(next);
            }
            let status = self.status()?;
            let pause = (next - now).max(SHORTEST_PAUSE);
            let now = self.clock.now();
            if status & lsr::THRE != 0 {
                self.pace.ready(now);
                self.outage = None;
                let idle = status & lsr::TEMT != 0;
                if idle {
                    self.in_port = 0;
                }
                return Ok(Room {
                    since: Some(now),
                    idle,
                });
            }
            let longest = self.longest_wait();
            match &mut self.outage {
                Some(outage) => outage.charge(now, pause),
                // The time that the line needs for the last load is not part of it.
                none => *none = Some(Timeout::new(now, longest)),
            }
            if self.outage.as_ref().is_some_and(Timeout::is_over) {
                return Err(Stall::Stuck);
            }
            self.reassure_watchdog();
            self.pace.busy(now);
        }
    }

    fn wait_for_cts(&mut self) -> Result<(), Stall> {
        if self.may_send() {
            self.held_off = None;
            return Ok(());
        }
        let mut held_off = match self.held_off.take() {
            Some(held_off) => held_off,
            None => Timeout::new(self.clock.now(), self.longest_wait() * CTS_BOUNDS),
        };
        // The other end takes its time: no need to look more than once a frame.
        let every = self.port.frame_time.max(SHORTEST_PAUSE);
        let held = Held::begin(StallCondition::ClearToSend);
        if self.keep_polling(held, &mut held_off, every, |port| Ok(port.may_send()))? {
            return Ok(());
        }
        self.held_off = Some(held_off);
        Err(Stall::Stuck)
    }

    /// Waits for `span`, also by a clock whose [`wait_until`](Clock::wait_until) returns
    /// early because the clock has long steps.
    pub(super) fn wait_at_least(&self, span: Nanos) {
        let _held = Held::begin(StallCondition::LineTurn);
        let start = self.clock.now();
        let mut timeout = Timeout::new(start, span);
        while !timeout.is_over() {
            self.clock.wait_until(start + span);
            let now = self.clock.now();
            if now >= start + span {
                return;
            }
            timeout.charge(now, SHORTEST_WAIT);
        }
    }

    fn reassure_watchdog(&self) {
        if let Some(hook) = self.settings.while_waiting {
            hook();
        }
    }
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Reads the line status, and keeps the bits that it shows only once.
    pub(super) fn status(&mut self) -> Result<u8, Stall> {
        let mut status = self.registers.read8(LSR);
        if status == !0 {
            // "Ready", with every receive error there is: hardly a port. The
            // read has cleared those errors, so a port will not say it again.
            self.keep_errors(status);
            status = self.registers.read8(LSR);
            if status == !0 {
                // A port that comes back is waited for again.
                self.outage = None;
                self.never_idle = false;
                return Err(Stall::Gone);
            }
        }
        self.keep_errors(status);
        Ok(status)
    }

    const fn keep_errors(&mut self, status: u8) {
        let errors = lsr::OVERRUN | lsr::PARITY | lsr::FRAMING | lsr::BREAK;
        self.seen.line_status |= status & errors;
        self.front_errors = match status & lsr::DATA_READY {
            // Some ports show a break without making a NUL of it.
            0 => 0,
            _ => self.front_errors | status & errors,
        };
    }
}
