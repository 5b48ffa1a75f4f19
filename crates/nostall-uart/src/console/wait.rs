//! Bounded waits.

use nostall_io::{Clock, Nanos, Registers};

use super::{Console, Room};
use crate::registers::{LSR, lsr};
use crate::{FlowControl, Strategy};

/// Linux's limit for one wait: 10,000 looks a microsecond apart.
const LONGEST_WAIT: Nanos = Nanos::from_millis(10);

/// Linux's limit for CTS.
const CTS_WAIT: Nanos = Nanos::from_secs(1);

/// Sleeping for less costs more than it gives.
const SHORTEST_SLEEP: Nanos = Nanos::from_micros(5);

/// Why a write could not go on.
pub(super) enum Stall {
    /// The transmitter did not become ready in time, or was held off.
    Stuck,
    /// Nothing answers any more.
    Gone,
}

/// The longest wait for a port that holds `load` bytes and one in the shift
/// register, on a line that needs `frame_time` for each.
pub(super) fn bound(frame_time: Nanos, load: usize) -> Nanos {
    let full = frame_time * (load as u64 + 1);
    (full * 8).min(LONGEST_WAIT.max(full * 2))
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Until the transmitter takes a load.
    pub(super) fn wait_for_room(&mut self) -> Result<Room, Stall> {
        let room = if self.strategy == Strategy::FifoPaced {
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
        Ok(room)
    }

    /// Until the last bit is on the line.
    pub(super) fn drain(&mut self) -> Result<(), Stall> {
        if self.strategy == Strategy::FifoPaced
            && let Room {
                since: Some(since),
                idle: false,
            } = self.pace()?
        {
            // One byte is left to shift out.
            self.clock.sleep_until(since + self.port.frame_time);
        }
        self.wait_for(lsr::THRE | lsr::TEMT)?;
        self.drained = true;
        Ok(())
    }

    /// Polls until the line status shows all of `bits`.
    ///
    /// A port that is ready costs one read and no look at the clock.
    pub(super) fn wait_for(&mut self, bits: u8) -> Result<(), Stall> {
        let mut ready = self.status()? & bits == bits;
        if !ready && !self.stalled {
            let every = Nanos::from_micros(1);
            ready = self.keep_polling(self.longest_wait(), every, |console| {
                Ok(console.status()? & bits == bits)
            })?;
        }
        self.stalled = !ready;
        if ready { Ok(()) } else { Err(Stall::Stuck) }
    }

    #[cold]
    fn keep_polling(
        &mut self,
        bound: Nanos,
        every: Nanos,
        mut ready: impl FnMut(&mut Self) -> Result<bool, Stall>,
    ) -> Result<bool, Stall> {
        let deadline = self.clock.now() + bound;
        loop {
            let next = self.clock.now() + every;
            if self.strategy == Strategy::FifoPaced && every >= SHORTEST_SLEEP {
                self.clock.sleep_until(next);
            } else {
                self.clock.wait_until(next);
            }
            self.reassure_watchdog();
            if ready(self)? {
                return Ok(true);
            }
            if next >= deadline {
                return Ok(false);
            }
        }
    }

    /// Sleeps until the transmitter should take a load, looks, and learns.
    fn pace(&mut self) -> Result<Room, Stall> {
        let start = self.clock.now();
        let deadline = start.max(self.pace.next_look()) + self.longest_wait();
        loop {
            let next = self.pace.next_look();
            let now = self.clock.now();
            if next > now + SHORTEST_SLEEP {
                self.clock.sleep_until(next);
            } else {
                self.clock.wait_until(next);
            }
            let status = self.status()?;
            let now = self.clock.now();
            if status & lsr::THRE != 0 {
                self.pace.ready(now);
                self.stalled = false;
                return Ok(Room {
                    since: Some(now),
                    idle: status & lsr::TEMT != 0,
                });
            }
            if self.stalled || now >= deadline {
                self.stalled = true;
                return Err(Stall::Stuck);
            }
            self.reassure_watchdog();
            self.pace.busy(now);
        }
    }

    fn wait_for_cts(&mut self) -> Result<(), Stall> {
        let mut ready = self.may_send();
        if !ready && !self.held_off {
            // The other end takes its time: no need to look more than once a frame.
            let every = self.port.frame_time.max(Nanos::from_micros(1));
            ready = self.keep_polling(CTS_WAIT, every, |console| Ok(console.may_send()))?;
        }
        self.held_off = !ready;
        if ready { Ok(()) } else { Err(Stall::Stuck) }
    }

    fn reassure_watchdog(&self) {
        if let Some(hook) = self.settings.while_waiting {
            hook();
        }
    }

    /// The line status. What it shows once is kept.
    pub(super) fn status(&mut self) -> Result<u8, Stall> {
        let mut status = self.registers.read8(LSR);
        if status == !0 {
            // "Ready", with every receive error there is: hardly a port. The
            // read has cleared those errors, so a port will not say it again.
            self.keep_errors(status);
            status = self.registers.read8(LSR);
            if status == !0 {
                return Err(Stall::Gone);
            }
        }
        self.keep_errors(status);
        Ok(status)
    }

    const fn keep_errors(&mut self, status: u8) {
        let errors = lsr::OVERRUN | lsr::PARITY | lsr::FRAMING | lsr::BREAK;
        self.seen.line_status |= status & errors;
    }
}
