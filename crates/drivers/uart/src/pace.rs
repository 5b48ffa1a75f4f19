//! Prediction of the time to poll the transmitter again.
//!
//! After a burst the transmitter is busy for a predictable time: initially from the nominal line
//! rate, then from measurements of this line. The real rate may be higher or lower. A virtual
//! machine's line is faster than nominal. A management controller's is slower once its buffer is
//! full.

use nostall_io::Nanos;

/// Fraction of the prediction by which a poll is early. An early poll detects a port with a higher
/// speed than before. The earliness doubles each time the port is found ready.
const EARLY_PARTS: u64 = 64;

/// Fraction of the time since the burst that is the interval of polls of a busy port. It is also
/// the largest delay; the mean is half of it. A port that becomes ten times slower costs about 300
/// polls, once.
const STEP_PARTS: u64 = 128;

/// Fraction of a measured time by which its ends may be uncertain. Beyond that the CPU was stopped
/// meanwhile, as a host stops a virtual one, and nothing is learned.
const DOUBT_PARTS: u64 = 4;

/// Longest time for the bytes of a burst that says nothing, even on a fast line.
const LONGEST_BURST: Nanos = Nanos::from_micros(100);

/// Longest interval of polls of a stuck port, so that it is served soon after it recovers.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(10);

/// Assumed step of a clock that measures a line. A line that is ahead by less proves nothing.
const LONGEST_STEP: Nanos = Nanos::from_millis(20);

/// Number of polls of an offer at short intervals: enough for a line that keeps its rate.
///
/// Later intervals are longer, because each poll interrupts the caller. At first they are
/// 1/[`OFFER_PARTS`] of the time since the burst. For a stuck port, they are 1/[`STUCK_PARTS`] of
/// the time since it was found busy. So a reader that takes bytes in lumps costs fewer than four
/// polls per load. It loses 2 % of its rate if nothing behind the port buffers bytes.
const SHORT_STEPS: u32 = 2;
const OFFER_PARTS: u64 = 20;
const STUCK_PARTS: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Pace {
    load: u64,
    /// Longest time that is learned, and so the longest prediction.
    longest: Nanos,
    /// Time that the transmitter needs for a full load.
    full: Nanos,
    /// Earliness of the first poll, in parts of [`EARLY_PARTS`].
    early: u64,
    /// Start, duration if known, and size of the last burst.
    start: Nanos,
    burst_took: Nanos,
    bytes: u64,
    /// Number of bytes that keep the transmitter busy: all, or all after the first.
    behind: u64,
    /// Times of the first and the next poll.
    first_look: Nanos,
    next_look: Nanos,
    /// Time at which `next_look` was computed.
    set_at: Nanos,
    /// Number of polls since the burst that found the transmitter busy, and the time of the first.
    busy_looks: u32,
    busy_since: Nanos,
    /// Shortest time in which the line can send a byte, and a full load with the clock's step.
    frame: Nanos,
    ahead: Nanos,
    /// Time at which the line can have sent all bytes, at the earliest.
    sent_at: Nanos,
    outruns_line: bool,
}

impl Pace {
    /// Creates the prediction for a port that takes `load` bytes at once, on a line that needs
    /// `frame_time` for each. Learned times are at most `longest`.
    pub(crate) fn new(load: usize, frame_time: Nanos, longest: Nanos) -> Self {
        let load = load as u64;
        Self {
            load,
            longest,
            full: (frame_time * load).min(longest),
            early: 1,
            start: Nanos::ZERO,
            burst_took: Nanos::ZERO,
            bytes: 0,
            behind: 0,
            first_look: Nanos::ZERO,
            next_look: Nanos::ZERO,
            set_at: Nanos::ZERO,
            busy_looks: 0,
            busy_since: Nanos::ZERO,
            frame: frame_time * 3 / 4,
            ahead: frame_time * load * 3 / 4 + LONGEST_STEP,
            sent_at: Nanos::ZERO,
            outruns_line: false,
        }
    }

    /// Returns the time of the next poll. Returns `now` if the clock went back, because the stored
    /// time may be hours away.
    pub(crate) fn next_look(&self, now: Nanos) -> Nanos {
        if now < self.set_at {
            now
        } else {
            self.next_look
        }
    }

    /// Returns whether the port has taken more bytes than its line can have sent and a full load.
    pub(crate) const fn outruns_line(&self) -> bool {
        self.outruns_line
    }

    /// Returns whether each recent load was taken at once, so that the next poll is made at once.
    pub(crate) const fn is_instant(&self) -> bool {
        self.early == EARLY_PARTS
    }

    /// Compares the bytes that were taken with those that the line can have sent.
    pub(crate) fn watch(&mut self, now: Nanos, bytes: usize) {
        if self.outruns_line {
            return;
        }
        self.sent_at = self.sent_at.max(now) + self.frame * bytes as u64;
        if self.sent_at - now > self.ahead {
            self.is_ahead(now);
        }
    }

    /// The port is ahead of the line, or the clock went back. Measures from here.
    #[cold]
    fn is_ahead(&mut self, now: Nanos) {
        self.outruns_line |= now >= self.start && now.is_known();
        self.sent_at = now;
    }

    /// Delays the next poll until `until`.
    pub(crate) const fn hold(&mut self, now: Nanos, until: Nanos) {
        self.next_look = until;
        self.set_at = now;
    }

    /// Records a burst of `bytes` at `start`. An idle transmitter moves the first byte to its shift
    /// register at once, and is busy with the others. A busy one still has a byte to shift out, so
    /// it is busy with all of them.
    pub(crate) fn burst(&mut self, start: Nanos, bytes: usize, idle: bool) {
        self.watch(start, bytes);
        self.start = start;
        self.burst_took = Nanos::ZERO;
        self.bytes = bytes as u64;
        self.behind = self.bytes - u64::from(idle && bytes > 0);
        self.busy_looks = 0;
        let busy = if self.is_instant() {
            Nanos::ZERO
        } else {
            let busy = self.full * self.behind / self.load;
            busy - busy * self.early / EARLY_PARTS
        };
        // A transmitter that empties at once is ready now, whatever time the next caller reads.
        self.first_look = match busy {
            Nanos::ZERO => Nanos::ZERO,
            _ => start + busy,
        };
        self.hold(start, self.first_look);
    }

    /// Records that the last burst was over at `now`. Its bytes came to the port between its start
    /// and then.
    pub(crate) fn burst_over(&mut self, now: Nanos) {
        self.burst_took = now - self.start;
    }

    /// Records that the transmitter was busy at `now`.
    pub(crate) fn busy(&mut self, now: Nanos) {
        if now < self.set_at {
            // The clock went back: measure from here.
            self.start = now;
            self.busy_looks = 0;
        }
        if self.busy_looks == 0 {
            self.busy_since = now;
        }
        self.busy_looks = self.busy_looks.saturating_add(1);
        let waited = now - self.busy_since;
        let mut pause = self.since_burst(now) / STEP_PARTS;
        if waited > LONGEST_PAUSE {
            pause = pause.max(waited / STEP_PARTS);
        }
        self.look_after(now, pause);
    }

    /// Makes the next offer to a busy port poll at short intervals again, for a panic, which waits.
    pub(crate) fn hurry(&mut self) {
        self.busy_looks = self.busy_looks.min(1);
    }

    /// Records for an offer that the transmitter was busy. A port that stays busy is polled at
    /// longer and longer intervals.
    pub(crate) fn busy_for_offer(&mut self, now: Nanos) {
        self.busy(now);
        if self.busy_looks <= SHORT_STEPS {
            return;
        }
        let waited = now - self.busy_since;
        let mut pause = self.since_burst(now) / OFFER_PARTS;
        if waited > self.longest {
            pause = pause.max(waited / STUCK_PARTS);
        }
        self.look_after(now, pause);
    }

    /// Returns the time since the burst, limited because another driver may have used the port
    /// meanwhile.
    fn since_burst(&self, now: Nanos) -> Nanos {
        (now - self.start).min(self.longest)
    }

    fn look_after(&mut self, now: Nanos, pause: Nanos) {
        let pause = pause.max(Nanos::from_micros(1)).min(LONGEST_PAUSE);
        self.hold(now, now + pause);
    }

    /// Records that the transmitter was ready at `now`.
    pub(crate) fn ready(&mut self, now: Nanos) {
        // A partial load says little about a whole one, and a ready port that is polled at once
        // nothing new.
        let is_known = self.is_instant() && self.busy_looks == 0;
        if is_known || self.bytes != self.load || self.behind == 0 {
            return;
        }
        // Time of the whole load, even for a port that was idle.
        let took = (now - self.start).min(self.longest);
        let took = (took * self.load / self.behind).min(self.longest);
        if self.busy_looks > 0 {
            // It became ready after the last poll, so the measured time is accurate, unless the
            // burst took long or this poll was late.
            let doubt = (self.burst_took - LONGEST_BURST).max(now - self.next_look);
            if doubt <= took / DOUBT_PARTS {
                self.full = took;
                self.early = 1;
            }
        } else if took < self.full * 2 {
            // Ready at the first poll, which was early or slightly late. The port may be faster
            // than predicted, so the next poll is made earlier.
            self.full = self.full.min(took);
            self.early = (self.early * 2).min(EARLY_PARTS);
        }
        // Otherwise the caller was late, and the time of readiness is unknown.
        self.bytes = 0;
        self.busy_looks = 0;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const LOAD: usize = 16;
    const NOMINAL: Nanos = Nanos(86_805);
    const LONGEST: Nanos = Nanos::from_millis(10);

    /// Sends full loads over a line that needs `busy` for each. Returns, for each load, the number
    /// of polls and the delay of the last one.
    fn send(pace: &mut Pace, now: &mut Nanos, busy: Nanos, loads: usize) -> Vec<(u32, Nanos)> {
        send_to(pace, now, busy, vec![false; loads])
    }

    /// Does the same, with a transmitter that is idle or not before each load.
    fn send_to(
        pace: &mut Pace,
        now: &mut Nanos,
        busy: Nanos,
        idle: impl IntoIterator<Item = bool>,
    ) -> Vec<(u32, Nanos)> {
        let mut found = Vec::new();
        for idle in idle {
            let behind = LOAD as u64 - u64::from(idle);
            let ready_at = *now + busy * behind / LOAD as u64;
            pace.burst(*now, LOAD, idle);
            let mut looks = 0;
            loop {
                *now = (*now).max(pace.next_look(*now)) + Nanos(1_700);
                looks += 1;
                if *now >= ready_at {
                    pace.ready(*now);
                    break;
                }
                pace.busy(*now);
            }
            found.push((looks, *now - ready_at));
        }
        found
    }

    #[test]
    fn a_line_at_its_nominal_rate_costs_three_polls_and_less_than_a_frame() {
        let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
        for (looks, late) in send(&mut pace, &mut Nanos(0), NOMINAL * 16, 100) {
            assert!(looks <= 3, "{looks}");
            assert!(late < NOMINAL / 4, "{late}");
        }
    }

    #[test]
    fn a_cpu_that_was_stopped_in_a_burst_or_before_a_poll_learns_nothing() {
        let stop = Nanos::from_millis(3);
        for in_burst in [true, false] {
            let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
            let now = &mut Nanos(0);
            send(&mut pace, now, NOMINAL * 16, 100);
            pace.burst(*now, LOAD, false);
            if in_burst {
                *now = *now + stop;
                pace.burst_over(*now);
                pace.busy(*now);
                *now = pace.next_look(*now);
            } else {
                *now = pace.next_look(*now);
                pace.busy(*now);
                *now = *now + stop;
            }
            pace.ready(*now);
            for (looks, late) in send(&mut pace, now, NOMINAL * 16, 10) {
                assert!(looks <= 3, "{looks}");
                assert!(late < NOMINAL / 4, "{late}");
            }
        }
    }

    #[test]
    fn from_an_idle_line_the_time_of_a_whole_load_is_learned() {
        for nominal in [NOMINAL, Nanos(1_000)] {
            let mut pace = Pace::new(LOAD, nominal, LONGEST);
            let now = &mut Nanos(0);
            send_to(&mut pace, now, NOMINAL * 16, [true]);
            // Always idle, never idle, and alternating.
            for period in [1, 50, 2, 3] {
                let idle = (0..50).map(|n| n % period == 0);
                for (looks, late) in send_to(&mut pace, now, NOMINAL * 16, idle) {
                    assert!(looks <= 4, "{looks} looks, every {period}th idle");
                    assert!(late < NOMINAL / 4, "{late}");
                }
            }
        }
    }

    #[test]
    fn a_line_that_empties_at_once_is_soon_not_waited_for() {
        let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
        let now = &mut Nanos(0);
        send(&mut pace, now, Nanos::ZERO, 10);
        for (looks, late) in send(&mut pace, now, Nanos::ZERO, 100) {
            assert_eq!(looks, 1);
            assert!(late < Nanos::from_micros(4), "{late}");
        }
    }

    #[test]
    fn a_line_that_becomes_slower_and_faster_is_followed() {
        let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
        let now = &mut Nanos(0);
        let slow = Nanos::from_micros(5_390);
        send(&mut pace, now, NOMINAL * 16, 10);
        let change = send(&mut pace, now, slow, 1);
        assert!(change[0].0 < 200, "{change:?}");
        for (looks, late) in send(&mut pace, now, slow, 100) {
            assert!(looks <= 3, "{looks}");
            assert!(late < slow / 100, "{late}");
        }
        send(&mut pace, now, NOMINAL, 10);
        for (_, late) in send(&mut pace, now, NOMINAL, 100) {
            assert!(late < NOMINAL / 20, "{late}");
        }
    }

    #[test]
    fn nothing_is_learned_from_a_late_caller() {
        let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
        pace.burst(Nanos::ZERO, LOAD, false);
        pace.ready(Nanos::from_secs(1));
        let now = &mut Nanos::from_secs(1);
        let found = send(&mut pace, now, NOMINAL * 16, 1);
        assert!(found[0].0 <= 3);
    }

    #[test]
    fn a_port_that_was_stuck_for_an_hour_is_not_slept_for_as_long() {
        let hour = Nanos::from_secs(3_600);
        let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
        pace.burst(Nanos::ZERO, LOAD, false);
        pace.busy(hour);
        assert!(pace.next_look(hour) - hour <= LONGEST / 100);
        pace.ready(hour + Nanos(1_700));
        pace.burst(hour, LOAD, false);
        assert!(pace.next_look(hour) - hour <= LONGEST);
    }

    proptest! {
        /// For any line, the next poll is at most the last load's time (or the prediction)
        /// away, so no wait is endless.
        #[test]
        fn the_next_poll_is_never_far_away(
            loads in prop::collection::vec((0u64..10_000_000, 1usize..=LOAD, any::<bool>()), 1..50),
        ) {
            let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
            let mut now = Nanos::ZERO;
            let mut longest = NOMINAL * 16;
            for (busy, bytes, idle) in loads {
                let ready_at = now + Nanos(busy);
                let start = now;
                pace.burst(start, bytes, idle);
                prop_assert!(pace.next_look(start) - start <= longest);
                loop {
                    now = now.max(pace.next_look(now)) + Nanos(1_700);
                    if now >= ready_at {
                        pace.ready(now);
                        break;
                    }
                    pace.busy(now);
                    prop_assert!(pace.next_look(now) > now);
                    prop_assert!(pace.next_look(now) - now <= (now - start) / 100 + Nanos(1_000));
                }
                // An idle port was busy with all bytes except one.
                let spared = u64::from(idle) * (now - start).0 / (LOAD as u64 - 1);
                longest = longest.max(now - start + Nanos(spared + 1));
            }
        }
    }
}
