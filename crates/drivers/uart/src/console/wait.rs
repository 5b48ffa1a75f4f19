//! Bounded waits.

use nostall_io::{Clock, Held, Nanos, StallCondition, Timeout};

use super::entry::{Entered, Stall};
use super::state::{Console, Port, Turn};
use crate::hardware::UartHardware;
use crate::registers::lsr;
use crate::{FlowControl, Strategy};

/// Linux's limit for one wait: 10,000 polls at intervals of 1 us. Here it ends the polls at even
/// intervals, and is the longest interval between two polls.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(10);

/// Interval of the even polls.
const SHORTEST_PAUSE: Nanos = Nanos::from_micros(1);

/// Fraction of the time waited so far that is the interval after the even polls.
const PAUSE_PARTS: u64 = 128;

/// Number of time limits for which CTS may be low: by default one second, as in Linux.
const CTS_BOUNDS: u64 = 2;

/// Shortest sleep. For less time, a sleep costs more than it saves.
const SHORTEST_SLEEP: Nanos = Nanos::from_micros(5);

/// Duration that counts for a wait that returns early. It has read the clock up to 16,384 times,
/// and each read takes at least a nanosecond.
const SHORTEST_WAIT: Nanos = Nanos(16_384);

/// A transmitter that takes a load, on a line that this port may use.
pub(super) struct Room {
    /// Time of the poll, only with pacing, which reads the clock.
    pub(super) since: Option<Nanos>,
    /// The transmitter is completely empty, including its shift register.
    pub(super) idle: bool,
}

impl Port {
    /// Returns the longest pause that pacing predicts for a full load: eight times the nominal
    /// time, for a line that is slower than its rate.
    pub(super) fn longest_pause(&self) -> Nanos {
        let full = self.frame_time * (self.load as u64 + 1);
        (full * 8).min(LONGEST_PAUSE.max(full * 2))
    }
}

impl<U: UartHardware, C: Clock> Entered<'_, U, C> {
    /// Waits until the transmitter takes a load and this port may use the line.
    #[inline(always)]
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
                // The burst starts now.
                room.since = room.since.map(|_| self.clock.now());
            }
        }
        Ok(room)
    }

    /// Waits until the last bit is on the line.
    pub(super) fn drain(&mut self) -> Result<(), Stall> {
        let idle = lsr::THRE | lsr::TEMT;
        if self.never_idle || !self.uart.reports_idle() {
            self.wait_for(lsr::THRE)?;
            // The last byte gets this time to leave, and one poll.
            let shifted = self.clock.now() + self.port.frame_time * 2;
            let _held = Held::begin(StallCondition::Transmitter);
            self.clock.wait_until(shifted);
            self.never_idle = self.uart.reports_idle() && self.status()? & idle != idle;
        } else {
            if self.strategy == Strategy::FifoPaced {
                let room = self.pace()?;
                if room.idle {
                    self.in_port = 0;
                    return Ok(());
                }
                if let Some(since) = room.since {
                    // One byte is left to shift out.
                    self.clock.sleep_until(since + self.port.frame_time);
                }
            }
            if let Err(stall) = self.wait_for(idle) {
                if stall == Stall::Stuck && self.status()? & lsr::THRE != 0 {
                    // This is no outage, because the port takes bytes.
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
    /// If the port is ready, this costs one register read and no clock read.
    #[inline(always)]
    fn wait_for(&mut self, bits: u8) -> Result<(), Stall> {
        if self.status()? & bits == bits {
            self.outage = None;
            return Ok(());
        }
        self.keep_waiting_for(bits)
    }

    #[cold]
    fn keep_waiting_for(&mut self, bits: u8) -> Result<(), Stall> {
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

    /// Polls until `ready` or until `timeout` is over, possibly from the start. Returns whether it
    /// became ready. Ends the stall `held`.
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

    /// Sleeps until the transmitter should take a load, polls it, and learns the line's rate.
    fn pace(&mut self) -> Result<Room, Stall> {
        let mut held = None;
        loop {
            let now = self.clock.now();
            // During an outage whose limit has passed, one poll is made.
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
                // The line's own time for the last load does not count as an outage.
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
        // The other end is slow, so one poll per frame is enough.
        let every = self.port.frame_time.max(SHORTEST_PAUSE);
        let held = Held::begin(StallCondition::ClearToSend);
        if self.keep_polling(held, &mut held_off, every, |port| Ok(port.may_send()))? {
            return Ok(());
        }
        self.held_off = Some(held_off);
        Err(Stall::Stuck)
    }

    /// Waits for `span`, even if the clock's [`wait_until`](Clock::wait_until) returns early
    /// because the clock has long steps.
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

impl<U: UartHardware, C: Clock> Console<U, C> {
    /// Reads the line status, and keeps the bits that the read clears.
    #[inline(always)]
    pub(super) fn status(&mut self) -> Result<u8, Stall> {
        let status = self.uart.line_status();
        if status == !0 {
            return self.status_again();
        }
        self.keep_errors(status);
        Ok(status)
    }

    /// Reads the line status after all ones. They mean "ready" with every receive error: probably no
    /// port.
    #[cold]
    fn status_again(&mut self) -> Result<u8, Stall> {
        // The read has cleared those errors, so a port does not report them again.
        if U::ERRORS_IN_STATUS {
            self.keep_errors(!0);
        }
        let status = self.uart.line_status();
        if status == !0 {
            // If the port returns, it gets the full time limit again.
            self.outage = None;
            self.never_idle = false;
            return Err(Stall::Gone);
        }
        self.keep_errors(status);
        Ok(status)
    }

    /// Returns the bits of the line status that show that all bytes have left, as far as this port
    /// reports it.
    pub(super) fn idle_bits(&self) -> u8 {
        let empty = if self.uart.reports_idle() {
            lsr::TEMT
        } else {
            0
        };
        lsr::THRE | empty
    }

    /// Returns whether the port reports that it is empty, or has disappeared. Makes one poll. If so,
    /// [`flush`](Self::flush) waits for two frames at most.
    pub fn looks_idle(&mut self) -> bool {
        let idle = self.idle_bits();
        self.status().map_or(true, |status| status & idle == idle)
    }

    const fn keep_errors(&mut self, status: u8) {
        let errors = lsr::OVERRUN | lsr::PARITY | lsr::FRAMING | lsr::BREAK;
        self.seen.line_status |= status & errors;
        self.front_errors = match status & lsr::DATA_READY {
            // Some ports report a break without a NUL.
            0 => 0,
            _ => self.front_errors | status & errors,
        };
    }
}
