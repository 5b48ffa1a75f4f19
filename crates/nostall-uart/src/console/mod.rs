//! The polled console writer.

mod open;
mod wait;

use core::fmt;

use nostall_io::{Clock, Nanos, Registers};

use crate::crlf::Crlf;
use crate::pace::Pace;
use crate::registers::{IER, MCR, MSR, SCR, THR, lsr, mcr, msr};
use crate::{FlowControl, PowerLoss, Settings, Strategy};

use wait::Stall;

/// The most that is loaded at once: the largest FIFO of the family.
const LARGEST_LOAD: usize = 128;

/// What the scratch register holds while the port has its power.
const CANARY: u8 = 0x5a;

/// A polled console on a port of the 16550's family.
///
/// `R` reaches the port's registers, `C` tells the time. The console owns the
/// port: let nobody else reprogram it.
#[derive(Clone, Debug)]
pub struct Console<R, C> {
    registers: R,
    clock: C,
    settings: Settings,
    strategy: Strategy,
    port: Port,
    pace: Pace,
    /// The last wait ended at its bound or found nobody.
    stalled: bool,
    /// The last wait for CTS was in vain.
    held_off: bool,
    /// Nothing has been given to the transmitter since it was seen empty.
    drained: bool,
    /// Of the LF that comes next, the CR has gone out.
    cr_sent: bool,
    seen: Seen,
}

/// What is known of the port.
#[derive(Clone, Copy, Debug)]
struct Port {
    model: crate::Model,
    frame_time: Nanos,
    /// What the transmitter takes at once when it says that it is empty, 1
    /// without a FIFO. Known from what *we* wrote to the FIFO control register:
    /// that register cannot be read, and reading the IIR in its place would clear
    /// somebody's transmit interrupt.
    load: usize,
}

impl Port {
    /// Nothing learned of the line yet.
    fn pace(&self) -> Pace {
        let longest = wait::bound(self.frame_time, self.load);
        Pace::new(self.load, self.frame_time, longest)
    }
}

/// What became of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Bytes given to the transmitter, inserted CRs included.
    pub written: usize,
    /// Bytes given up, inserted CRs included: the port was stuck or held off
    /// ([`timed_out`](Self::timed_out)) or gone.
    pub dropped: usize,
    /// A wait reached its bound. With nothing dropped it was the last one: the
    /// bytes are in the port, but the port never said that they had left.
    pub timed_out: bool,
}

impl WriteReport {
    /// Every byte went out.
    pub const fn is_complete(&self) -> bool {
        self.dropped == 0 && !self.timed_out
    }
}

/// What a port took without being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Bytes of the text that need not be offered again.
    pub taken: usize,
    /// When to offer the next; `None` if the port is gone.
    pub ready_at: Option<Nanos>,
}

/// What was seen of the line while it was polled: a status register shows these
/// once. The receive side needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Error bits of the [`LSR`](crate::registers::LSR): overrun, parity,
    /// framing, break.
    pub line_status: u8,
    /// Delta bits of the [`MSR`](crate::registers::MSR).
    pub modem_status: u8,
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Writes `text`, each LF as CR LF, and returns when the last bit is on the
    /// line, or with [`Strategy::FifoPaced`] when the last byte is in the FIFO.
    ///
    /// The port's interrupts are masked meanwhile. A port that stops taking
    /// bytes costs at most one bound (see [`longest_wait`](Self::longest_wait));
    /// what it did not take is dropped, and the next write gives it one look
    /// instead of another bound, until it is ready again.
    pub fn write(&mut self, text: &[u8]) -> WriteReport {
        if text.is_empty() {
            return WriteReport::default();
        }
        let enabled = self.begin();
        let mut text = Crlf::new(text, core::mem::take(&mut self.cr_sent));
        let mut report = self.send(&mut text);
        if report.is_complete() && self.drains_each_write() {
            match self.drain() {
                Ok(()) => {}
                Err(Stall::Stuck) => report.timed_out = true,
                Err(Stall::Gone) => {
                    // With what was still in it: a load, and a byte shifting out.
                    let lost = report.written.min(self.port.load + 1);
                    report.written -= lost;
                    report.dropped += lost;
                }
            }
        }
        self.end(enabled);
        if self.has_lost_power() {
            // Nobody can say what of it went out.
            report.dropped += core::mem::take(&mut report.written);
        }
        report
    }

    fn send(&mut self, text: &mut Crlf<'_>) -> WriteReport {
        let mut room = [0; LARGEST_LOAD];
        let room = &mut room[..self.load()];
        let mut report = WriteReport::default();
        loop {
            let load = text.fill(room);
            if load.is_empty() {
                return report;
            }
            match self.wait_for_room() {
                Ok(room) => self.give(load, room),
                Err(stall) => {
                    report.dropped = load.len() + text.remaining();
                    report.timed_out = matches!(stall, Stall::Stuck);
                    return report;
                }
            }
            report.written += load.len();
        }
    }

    /// Gives the transmitter a load that it has room for.
    fn give(&mut self, load: &[u8], room: Room) {
        match (self.strategy, load) {
            (_, &[byte]) => self.registers.write8(THR, byte),
            (Strategy::FifoBurst | Strategy::FifoPaced, _) => {
                self.registers.write_burst(THR, load);
            }
            _ => load.iter().for_each(|&b| self.registers.write8(THR, b)),
        }
        self.drained = false;
        if let Some(since) = room.since {
            self.pace.burst(since, load.len(), room.idle);
        }
    }

    /// How much is loaded at once.
    fn load(&self) -> usize {
        match (self.strategy, self.settings.flow_control) {
            (Strategy::BytePolled, _) | (_, FlowControl::Cts) => 1,
            _ => self.port.load,
        }
    }

    fn drains_each_write(&self) -> bool {
        self.strategy != Strategy::FifoPaced || self.settings.rs485.is_some()
    }
}

/// A transmitter that takes a load.
struct Room {
    /// When it was found; only pacing asks the clock.
    since: Option<Nanos>,
    /// Not even a byte to shift out is left in it.
    idle: bool,
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Gives the port what it takes of `text` now, without waiting for it, and
    /// says when to come back with the rest. For a caller that has other things
    /// to do than to be held: it costs one look and at most one FIFO-full.
    ///
    /// The port's interrupt enables are left alone.
    pub fn offer(&mut self, text: &[u8]) -> Offered {
        let now = self.clock.now();
        let status = match self.status() {
            Ok(status) => status,
            Err(_) => {
                return Offered {
                    taken: 0,
                    ready_at: None,
                };
            }
        };
        let ready = status & lsr::THRE != 0 && self.may_send();
        if !ready {
            self.pace.busy(now);
            return Offered {
                taken: 0,
                ready_at: Some(self.pace.next_look()),
            };
        }
        self.pace.ready(now);
        let mut room = [0; LARGEST_LOAD];
        let mut rest = Crlf::new(text, self.cr_sent);
        let load = match self.settings.flow_control {
            FlowControl::None => self.port.load,
            FlowControl::Cts => 1,
        };
        let load = rest.fill(&mut room[..load]);
        if !load.is_empty() {
            let idle = status & lsr::TEMT != 0;
            let since = Some(now);
            self.give(load, Room { since, idle });
        }
        self.cr_sent = rest.cr_sent();
        Offered {
            taken: text.len() - rest.text_remaining(),
            ready_at: Some(self.pace.next_look()),
        }
    }

    /// Waits until the last bit is on the line.
    ///
    /// # Errors
    ///
    /// [`Unsent`] if it did not leave in bounded time.
    pub fn flush(&mut self) -> Result<(), Unsent> {
        if self.drained {
            return Ok(());
        }
        self.drain().map_err(|_| Unsent)
    }

    /// Saves and masks the port's interrupts, and takes the line's turn.
    fn begin(&mut self) -> u8 {
        self.recover();
        let enabled = match self.registers.read8(IER) {
            // Nobody there: not to be given back to a port that returns.
            0xff => 0,
            enabled => enabled,
        };
        self.registers.write8(IER, 0);
        if let Some(turn) = self.settings.rs485 {
            self.registers.write8(MCR, mcr::DTR | mcr::RTS);
            self.clock.wait_until(self.clock.now() + turn.before);
        }
        enabled
    }

    fn end(&mut self, enabled: u8) {
        if let Some(turn) = self.settings.rs485 {
            self.clock.wait_until(self.clock.now() + turn.after);
            self.registers.write8(MCR, mcr::DTR);
        }
        self.registers.write8(IER, enabled);
    }

    /// Sets a port up again that has lost its power.
    fn recover(&mut self) {
        if self.has_lost_power() {
            let _ = self.configure();
            self.pace = self.port.pace();
        }
    }

    fn has_lost_power(&self) -> bool {
        self.settings.power_loss == PowerLoss::Recover && self.registers.read8(SCR) != CANARY
    }

    /// Whether the other end lets us send.
    fn may_send(&mut self) -> bool {
        if self.settings.flow_control == FlowControl::None {
            return true;
        }
        let status = self.registers.read8(MSR);
        let deltas = msr::DELTA_CTS | msr::DELTA_DSR | msr::TRAILING_RI | msr::DELTA_DCD;
        self.seen.modem_status |= status & deltas;
        status & msr::CTS != 0
    }

    /// The longest that any wait lasts, but for the second that a held off port
    /// is given.
    ///
    /// Eight times what the line needs for all that the port can hold (so that a
    /// port whose line is slower than it claims is waited for), but no longer
    /// than Linux's 10 ms, unless the line is so slow that twice that time is
    /// more.
    pub fn longest_wait(&self) -> Nanos {
        wait::bound(self.port.frame_time, self.port.load)
    }

    /// Chooses how bytes are brought to the transmitter from now on.
    pub const fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// How many bytes the transmitter takes at once, 1 where there is no FIFO
    /// that works.
    pub const fn transmit_load(&self) -> usize {
        self.port.load
    }

    /// The model, as probed or given.
    pub const fn model(&self) -> crate::Model {
        self.port.model
    }

    /// What was seen of the line since this was asked last.
    pub const fn take_seen(&mut self) -> Seen {
        let seen = self.seen;
        self.seen = Seen {
            line_status: 0,
            modem_status: 0,
        };
        seen
    }

    /// The window of registers.
    pub const fn registers(&self) -> &R {
        &self.registers
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

/// The last bytes did not leave the port in bounded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent;

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the port did not send its last bytes in bounded time")
    }
}

impl core::error::Error for Unsent {}

impl<R: Registers, C: Clock> fmt::Write for Console<R, C> {
    /// # Errors
    ///
    /// If not every byte went out.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.write(text.as_bytes()).is_complete() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
