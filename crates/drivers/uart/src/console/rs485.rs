//! Direction of an RS-485 line.

use nostall_io::{Clock, Nanos};

use super::entry::Entered;
use super::state::Turn;
use crate::hardware::UartHardware;
use crate::registers::lsr;

impl<U: UartHardware, C: Clock> Entered<'_, U, C> {
    /// Takes an RS-485 line for sending. Returns `false` if the delay before the first bit is not
    /// over. The next poll is then at its end.
    pub(super) fn take_line(&mut self, now: Nanos) -> bool {
        let Some(times) = self.settings.rs485 else {
            return true;
        };
        let raised_at = match self.turn {
            Turn::Talking | Turn::Closing(_) => {
                self.turn = Turn::Talking;
                return true;
            }
            Turn::Opening(at) if at <= now => at,
            // The clock went back.
            Turn::Opening(_) => now,
            Turn::Listening => {
                self.uart.set_rts(true, self.receives);
                self.clock.now()
            }
        };
        let open_at = raised_at + times.before;
        if now < open_at && times.before > Nanos::ZERO {
            self.turn = Turn::Opening(raised_at);
            self.pace.hold(now, open_at);
            return false;
        }
        self.turn = Turn::Talking;
        true
    }

    /// Takes the next step towards releasing an RS-485 line, and delays the next poll until the
    /// step after it.
    pub(super) fn rest(&mut self, status: u8, now: Nanos) {
        let Some(times) = self.settings.rs485 else {
            return;
        };
        if self.turn == Turn::Listening {
            return;
        }
        if status & lsr::TEMT == 0 {
            self.charge_outage(now);
            if self.turn != Turn::Listening {
                self.look_after_a_frame(now);
            }
            return;
        }
        self.outage = None;
        let idle_at = match self.turn {
            Turn::Closing(at) if at <= now => at,
            _ => now,
        };
        let over_at = idle_at + times.after;
        if now < over_at {
            self.turn = Turn::Closing(idle_at);
            self.pace.hold(now, over_at);
        } else {
            self.lower_rts();
        }
    }

    /// Releases an RS-485 line, after a wait for the delay behind the last bit.
    pub(super) fn hand_line_back(&mut self) {
        let Some(times) = self.settings.rs485 else {
            return;
        };
        if self.turn == Turn::Listening {
            return;
        }
        self.wait_at_least(times.after);
        self.lower_rts();
    }

    pub(super) fn lower_rts(&mut self) {
        self.uart.set_rts(false, self.receives);
        self.turn = Turn::Listening;
    }
}
