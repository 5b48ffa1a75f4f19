//! Polled console writer.

#[cfg(feature = "embedded-io")]
mod embedded;
mod entry;
mod lost;
mod open;
mod receive;
mod rs485;
mod state;
mod wait;

use core::fmt;

use nostall_io::{Clock, Counter, Nanos, Offered, Timeout, count};

use crate::crlf::Crlf;
use crate::hardware::UartHardware;
use crate::registers::{lsr, msr};
use crate::{FlowControl, Newline, PowerLoss, Strategy};

use crate::model::LARGEST_LOAD;
#[cfg(feature = "embedded-io")]
pub use embedded::IoError;
use entry::{Entered, Entry, Stall};
use state::Turn;
pub use state::{Console, LatchedStatus};
use wait::Room;

/// Result of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Number of bytes given to the transmitter, including inserted CRs.
    pub written: usize,
    /// Number of text bytes in [`written`](Self::written), from the beginning of the text. An LF
    /// counts when it is sent; its CR does not count.
    pub text: usize,
    /// Number of bytes dropped, including inserted CRs. The port was stuck or held off
    /// ([`timed_out`](Self::timed_out)), or has disappeared. The console reports them on the line
    /// when the port takes bytes again.
    pub dropped: usize,
    /// A wait reached its bound. If nothing was dropped, it was the last wait: the bytes are in the
    /// port, but the port has not reported that they left.
    pub timed_out: bool,
}

impl WriteReport {
    /// Returns whether every byte was sent.
    pub const fn is_complete(&self) -> bool {
        self.dropped == 0 && !self.timed_out
    }
}

impl<U: UartHardware, C: Clock> Console<U, C> {
    /// Writes `text`, with each LF sent as the [settings](crate::Newline) require. Returns when the
    /// last bit is on the line, or with [`Strategy::FifoPaced`] when the last byte is in the FIFO.
    ///
    /// A [receive interrupt](Self::enable_receive) is masked meanwhile. If the port stops taking
    /// bytes, the write waits up to [`longest_wait`](Self::longest_wait) from the last byte that it
    /// took. Then the rest is dropped, and each later write polls once until the port is ready
    /// again. So a stuck port costs one bound.
    ///
    /// The bound of a whole write depends on its text: `n` bytes take at most
    /// `n / transmit_load + 2` bounds. A port that takes each load just in time can hold the CPU
    /// for minutes: for six, with 11,500 bytes and loads of 16. With [`Strategy::BytePolled`] a
    /// load is one byte. With [`FlowControl::Cts`] it is also one byte, and takes up to three
    /// bounds. A crash path with a deadline calls [`offer`](Self::offer) until then, as
    /// `nostall-console` does.
    pub fn write(&mut self, text: &[u8]) -> WriteReport {
        let mut report = WriteReport::default();
        if text.is_empty() {
            return report;
        }
        let cr_sent = core::mem::take(&mut self.cr_sent);
        let whole = Crlf::new(text, self.settings.newline, cr_sent);
        let mut text = whole.clone();
        match self.write_out(&mut text, &mut report.written) {
            Ok(()) => {}
            Err(Stall::Stuck) => report.timed_out = true,
            Err(Stall::Gone) => {
                let ours = self.lose_port_content().min(report.written);
                report.written -= ours;
                report.dropped += ours;
            }
        }
        let rest = text.remaining();
        report.dropped += rest;
        self.lost.add(rest);
        if self.check_power() {
            // It is unknown which of the bytes were sent.
            self.lose_port_content();
            report.dropped += core::mem::take(&mut report.written);
        }
        report.text = whole.text_in(report.written);
        report
    }

    fn write_out(&mut self, text: &mut Crlf<'_>, written: &mut usize) -> Result<(), Stall> {
        let mut port = self.enter(Entry::Write)?;
        let mut sent = port.send(text, written);
        if sent.is_ok() && port.drains_each_write() {
            sent = port.drain();
        }
        port.hand_line_back();
        sent
    }

    /// Gives the port the part of `text` that it takes now, and returns when to offer the rest.
    /// Never waits. An offer costs one poll and at most one FIFO of bytes.
    ///
    /// An offer before the returned time does not access the port, and returns the same time. A
    /// port that is stuck or held off is polled at longer and longer intervals, up to 10 ms. The
    /// port's interrupt enables are not changed. While the clock returns [`Nanos::UNKNOWN`], each
    /// offer polls the port once.
    ///
    /// On an RS-485 line the first offer may only raise RTS, and take nothing. When all text is
    /// taken, continue with empty offers, each at the returned time. The line is released when an
    /// empty offer returns a time that has passed. [`flush`](Self::flush) does the same, and waits.
    pub fn offer(&mut self, text: &[u8]) -> Offered {
        self.offer_until(text, Nanos::ZERO)
    }

    /// Makes an [`offer`](Self::offer), and more of them while the port is ready at once and the clock
    /// shows less than `until`.
    ///
    /// A virtual machine's port is always ready, so that it takes the whole text. A port whose line
    /// needs time takes one FIFO. While the clock returns [`Nanos::UNKNOWN`], and `until` is computed
    /// from it, only the text's end is a limit.
    pub fn offer_until(&mut self, text: &[u8], until: Nanos) -> Offered {
        let mut now = self.clock.now();
        let next_look = self.pace.next_look(now);
        // A clock without a rate never reaches the time: poll the port.
        if now < next_look && now.is_known() {
            return Offered {
                taken: 0,
                ready_at: Some(next_look),
            };
        }
        let mut rest = Crlf::new(text, self.settings.newline, self.cr_sent);
        let entered = self.enter(Entry::Offer);
        let gone = match entered.and_then(|mut port| port.offer_loads(&mut rest, &mut now, until)) {
            Ok(()) => false,
            Err(Stall::Stuck) => {
                self.pace.busy_for_offer(now);
                false
            }
            Err(Stall::Gone) => {
                self.lose_port_content();
                true
            }
        };
        Offered {
            taken: text.len() - rest.text_remaining(),
            ready_at: (!gone).then(|| self.pace.next_look(now)),
        }
    }

    /// Makes the next [`offer`](Self::offer) poll a busy port again after 1/128 of a load's time,
    /// instead of 1/20. For a panic, whose offers interrupt no other work.
    pub fn hurry(&mut self) {
        self.pace.hurry();
    }

    /// Waits until the last bit is on the line, and reports lost bytes if the port takes the
    /// report.
    ///
    /// # Errors
    ///
    /// [`FlushTimeout`] if the last bit did not leave in bounded time.
    pub fn flush(&mut self) -> Result<(), FlushTimeout> {
        let is_empty = self.in_port == 0 && self.at_risk == 0;
        if is_empty && !self.lost.is_due() && self.turn == Turn::Listening {
            return Ok(());
        }
        let lost = self.lost.total();
        let flushed = self.flush_out();
        if matches!(flushed, Err(Stall::Gone)) || self.check_power() {
            self.lose_port_content();
        }
        let sent = flushed.is_ok() && self.lost.total() == lost;
        sent.then_some(()).ok_or(FlushTimeout)
    }

    fn flush_out(&mut self) -> Result<(), Stall> {
        let mut port = self.enter(Entry::Flush)?;
        let sent = port.send(&mut Crlf::new(&[], Newline::Lf, false), &mut 0);
        let drained = sent.and_then(|()| port.drain());
        port.hand_line_back();
        drained
    }
}

impl<U: UartHardware, C: Clock> Entered<'_, U, C> {
    /// Sends the report of lost bytes, if one is due, and all of `text`.
    fn send(&mut self, text: &mut Crlf<'_>, written: &mut usize) -> Result<(), Stall> {
        let load = match self.strategy {
            Strategy::BytePolled => 1,
            _ => self.load(),
        };
        while text.text_remaining() > 0 || self.lost.is_due() {
            let found = self.wait_for_room()?;
            *written += self.give_next(text, load, found);
        }
        Ok(())
    }

    /// Gives the port loads of `text` while it takes each at once, up to the time `until`. `now`
    /// becomes the time of the last load.
    fn offer_loads(
        &mut self,
        text: &mut Crlf<'_>,
        now: &mut Nanos,
        until: Nanos,
    ) -> Result<(), Stall> {
        let mut status = self.status()?;
        while self.offer_load(text, status, *now)? && text.text_remaining() > 0 && *now < until {
            *now = self.clock.now();
            self.pace.burst_over(*now);
            let is_early = self.pace.next_look(*now) > *now && now.is_known();
            if is_early || *now >= until {
                break;
            }
            status = self.status()?;
            if self.takes_at_once() && !self.give_run(text, &mut status, now, until)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether nothing has to be checked between two loads, except for the line status.
    fn takes_at_once(&self) -> bool {
        self.pace.is_instant()
            && !self.lost.is_due()
            && self.settings.flow_control == FlowControl::None
            && self.settings.rs485.is_none()
    }

    /// Gives loads while the port is idle before each, from `status` on. Returns whether the offer
    /// continues, with another `status`.
    fn give_run(
        &mut self,
        text: &mut Crlf<'_>,
        status: &mut u8,
        now: &mut Nanos,
        until: Nanos,
    ) -> Result<bool, Stall> {
        let idle = lsr::THRE | lsr::TEMT;
        // Most ports have a FIFO of at most 16 bytes.
        let (mut small, mut large);
        let room: &mut [u8] = if self.port.load <= 16 {
            small = [0; 16];
            &mut small
        } else {
            large = [0; LARGEST_LOAD];
            &mut large
        };
        let room = &mut room[..self.port.load];
        let (mut given, mut last, mut since) = (0, 0, *now);
        let mut goes_on = true;
        let mut next = Ok(*status);
        while goes_on && next == Ok(idle) {
            let load = match text.plain(room.len()) {
                Some(plain) => plain,
                None => text.fill(room),
            };
            self.give(load);
            self.lost.given(load, 0);
            (given, last, since) = (given + load.len(), load.len(), *now);
            goes_on = text.text_remaining() > 0;
            if goes_on {
                *now = self.clock.now();
                goes_on = *now < until;
            }
            if goes_on {
                next = self.status();
            }
        }
        if given > 0 {
            // All loads but the last one have left.
            self.in_port = 0;
            self.outage = None;
            self.cr_sent = text.cr_sent();
            self.at_risk += given - last;
            self.pace.watch(since, given - last);
            let found = Room {
                since: Some(since),
                idle: true,
            };
            self.given(last, last, found);
        }
        *status = next?;
        Ok(goes_on)
    }

    /// Gives the port the next load if this line status allows it. Returns whether it does.
    fn offer_load(&mut self, text: &mut Crlf<'_>, status: u8, now: Nanos) -> Result<bool, Stall> {
        if status & lsr::TEMT != 0 {
            self.in_port = 0;
        }
        if status & lsr::THRE == 0 {
            self.charge_outage(now);
            self.pace.busy_for_offer(now);
            return Ok(false);
        }
        if !self.may_send() {
            self.charge_outage(now);
            self.look_after_a_frame(now);
            return Ok(false);
        }
        self.pace.ready(now);
        let is_empty = text.text_remaining() == 0;
        if is_empty && !self.lost.is_due() {
            self.rest(status, now);
            return Ok(false);
        }
        self.outage = None;
        if !self.take_line(now) {
            return Ok(false);
        }
        let found = Room {
            since: Some(now),
            idle: status & lsr::TEMT != 0,
        };
        self.give_next(text, self.load(), found);
        if !is_empty {
            self.cr_sent = text.cr_sent();
        }
        Ok(true)
    }

    /// Gives the next `load` bytes to the transmitter. Returns the number of those that belong to the
    /// text, including inserted CRs.
    #[inline(always)]
    fn give_next(&mut self, text: &mut Crlf<'_>, load: usize, found: Room) -> usize {
        if !self.lost.is_due()
            && let Some(plain) = text.plain(load)
        {
            self.give_load(plain, 0, found);
            return plain.len();
        }
        // Most ports have a FIFO of at most 16 bytes.
        if load <= 16 {
            self.assemble(text, &mut [0; 16][..load], found)
        } else {
            self.assemble(text, &mut [0; LARGEST_LOAD][..load], found)
        }
    }

    /// Gives a load that has a report or a line feed, which is assembled in `room`.
    #[inline(never)]
    fn assemble(&mut self, text: &mut Crlf<'_>, room: &mut [u8], found: Room) -> usize {
        let newline = self.settings.newline;
        let report = self.lost.fill(room, newline);
        // A report that was cut short may need another one after it.
        let of_text = match self.lost.is_due() {
            true => 0,
            false => text.fill(&mut room[report..]).len(),
        };
        self.give_load(&room[..report + of_text], report, found);
        of_text
    }

    /// Gives `load` to the transmitter. Its first `report` bytes belong to a report.
    #[inline(always)]
    fn give_load(&mut self, load: &[u8], report: usize, found: Room) {
        self.give(load);
        self.given(load.len(), load.len() - report, found);
        self.lost.given(load, report);
    }

    /// Records that the transmitter was given `load` bytes, with `of_text` bytes of the text.
    #[inline(always)]
    fn given(&mut self, load: usize, of_text: usize, found: Room) {
        // One byte may still be in the shift register.
        let left = usize::from(self.in_port > 0);
        if self.settings.power_loss == PowerLoss::Ignore {
            self.in_port = left;
            self.settle();
        }
        self.in_port = load + left;
        self.at_risk += of_text;
        if let Some(since) = found.since {
            self.pace.burst(since, load, found.idle);
        }
    }

    #[inline(always)]
    fn give(&self, load: &[u8]) {
        count(Counter::UartBytes, load.len() as u64);
        match (self.strategy, load) {
            (_, &[byte]) => self.uart.send(byte),
            (Strategy::FifoBurst | Strategy::FifoPaced, _) => {
                self.uart.send_burst(load);
            }
            _ => load.iter().for_each(|&byte| self.uart.send(byte)),
        }
    }

    /// Returns the size of one load.
    fn load(&self) -> usize {
        match self.settings.flow_control {
            FlowControl::Cts => 1,
            FlowControl::None => self.port.load,
        }
    }

    fn drains_each_write(&self) -> bool {
        self.strategy != Strategy::FifoPaced || self.settings.rs485.is_some()
    }

    /// Returns whether the other end allows sending.
    fn may_send(&mut self) -> bool {
        if self.settings.flow_control == FlowControl::None {
            return true;
        }
        let status = self.uart.modem_status();
        let deltas = msr::DELTA_CTS | msr::DELTA_DSR | msr::TRAILING_RI | msr::DELTA_DCD;
        self.seen.modem_status |= status & deltas;
        status & msr::CTS != 0
    }

    /// Delays the next poll by at least one frame, because nothing happens sooner.
    pub(super) fn look_after_a_frame(&mut self, now: Nanos) {
        self.pace.busy_for_offer(now);
        let next_look = self.pace.next_look(now);
        let frame = now + self.port.frame_time;
        self.pace.hold(now, next_look.max(frame));
    }

    /// Records that an offer found the port not ready. If the port is stuck for longer than a
    /// write's limit, the RS-485 line is released.
    pub(super) fn charge_outage(&mut self, now: Nanos) {
        let longest = self.longest_wait();
        let outage = self
            .outage
            .get_or_insert_with(|| Timeout::new(now, longest));
        outage.charge(now, Nanos::ZERO);
        if outage.is_over() && self.turn != Turn::Listening {
            self.lower_rts();
        }
    }
}

impl<U: UartHardware, C: Clock> Console<U, C> {
    /// Returns a write's time limit for a port that takes no bytes. If CTS holds the port off, the
    /// limit is doubled.
    ///
    /// It is the longer of two times: the setting
    /// [`give_up_after`](crate::ConsoleSettings::give_up_after), or twice the transmission time of
    /// all bytes in a full port.
    pub fn longest_wait(&self) -> Nanos {
        let full = self.port.frame_time * (self.port.load as u64 + 1);
        self.settings.give_up_after.max(full * 2)
    }

    /// Returns the number of bytes dropped since the port was opened, including inserted CRs, and
    /// bytes in a port that disappeared or lost its power.
    pub const fn lost(&self) -> u64 {
        self.lost.total()
    }

    /// Returns whether the port has taken bytes faster than its line can send them, by the console's
    /// clock. Offers and [`Strategy::FifoPaced`] measure this, after more than a load and 20 ms.
    ///
    /// A virtual machine's port does so. A real port that does so loses bytes without a sign: its FIFO
    /// is smaller than [`transmit_load`](Self::transmit_load), or its status always says ready.
    pub const fn outruns_line(&self) -> bool {
        self.pace.outruns_line()
    }

    /// Sets the strategy for later writes.
    pub const fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// Returns the number of bytes that the transmitter takes at once, 1 without a working
    /// FIFO.
    pub const fn transmit_load(&self) -> usize {
        self.port.load
    }

    /// Returns the model, as probed or given.
    pub const fn model(&self) -> crate::Model {
        self.port.model
    }

    /// Returns the status bits latched since the last call, and clears them.
    pub const fn take_latched_status(&mut self) -> LatchedStatus {
        let seen = self.seen;
        self.seen = LatchedStatus {
            line_status: 0,
            modem_status: 0,
        };
        seen
    }

    /// Returns the register window.
    pub const fn registers(&self) -> &U {
        &self.uart
    }

    /// Returns the clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

/// Error: the last bytes did not leave the port in bounded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushTimeout;

impl fmt::Display for FlushTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the port did not send its last bytes in bounded time")
    }
}

impl core::error::Error for FlushTimeout {}

impl<U: UartHardware, C: Clock> fmt::Write for Console<U, C> {
    /// # Errors
    ///
    /// [`fmt::Error`] if not every byte was sent.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.write(text.as_bytes()).is_complete() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
