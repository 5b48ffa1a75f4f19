//! Prediction of the time to poll the transmitter again.
//!
//! After a burst the transmitter is busy for a time that can be predicted: first
//! from the nominal line rate, then from what this line has been seen to do. The
//! real rate is learned both ways: every virtual machine's line is faster than
//! nominal; a management controller's is slower once its buffer is full.

use nostall_io::Nanos;

/// Looks are a little early, so that a port that has become faster is noticed:
/// by 1/64 of the prediction, twice as much each time the port was ready already.
const EARLY_PARTS: u64 = 64;

/// Between looks at a port that is not ready yet: 1/128 of the time since the
/// burst. That is how late we may be, in the mean by half of it; and a port that
/// has become ten times slower costs some 300 looks, once.
const STEP_PARTS: u64 = 128;

/// The longest pause between two looks at a port that is stuck, so that it is served soon
/// after it has come back.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(10);

/// Looks that an offer makes in such short steps: enough for a line that is as fast as before.
/// After them its steps are longer, because its caller is interrupted for each. They are first
/// these parts of the time since the burst. For a port that is stuck, they are these of the time
/// since it was found busy. A reader that takes bytes in lumps then costs fewer than four looks a
/// load, and 2 % of its rate if nothing behind the port holds bytes for it.
const SHORT_STEPS: u32 = 2;
const OFFER_PARTS: u64 = 20;
const STUCK_PARTS: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Pace {
    load: u64,
    /// The longest time that is learned, and so the longest prediction.
    longest: Nanos,
    /// Time that the transmitter needs for a full load.
    full: Nanos,
    /// Earliness of the first poll, in parts of [`EARLY_PARTS`].
    early: u64,
    /// The last burst.
    start: Nanos,
    bytes: u64,
    /// Bytes that the transmitter is busy with: all, or all behind the first.
    behind: u64,
    /// Times of the first and the next poll.
    first_look: Nanos,
    next_look: Nanos,
    /// Time at which `next_look` was computed.
    set_at: Nanos,
    /// Looks since the burst that found the transmitter busy, and when the first was.
    busy_looks: u32,
    busy_since: Nanos,
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
            bytes: 0,
            behind: 0,
            first_look: Nanos::ZERO,
            next_look: Nanos::ZERO,
            set_at: Nanos::ZERO,
            busy_looks: 0,
            busy_since: Nanos::ZERO,
        }
    }

    /// Returns the time of the next poll. It is `now` if the clock was set back, because the
    /// stored time may be hours away.
    pub(crate) fn next_look(&self, now: Nanos) -> Nanos {
        if now < self.set_at {
            now
        } else {
            self.next_look
        }
    }

    /// Puts the next look off until `until`.
    pub(crate) const fn hold(&mut self, now: Nanos, until: Nanos) {
        self.next_look = until;
        self.set_at = now;
    }

    /// A burst of `bytes` was begun at `start`. An idle transmitter takes the
    /// first byte straight to its shift register and asks for more after those
    /// behind it; a busy one has a byte left to shift out, and needs the time of
    /// all of them.
    pub(crate) fn burst(&mut self, start: Nanos, bytes: usize, idle: bool) {
        self.start = start;
        self.bytes = bytes as u64;
        self.behind = self.bytes - u64::from(idle && bytes > 0);
        self.busy_looks = 0;
        let busy = self.full * self.behind / self.load;
        let busy = busy - busy * self.early / EARLY_PARTS;
        // A transmitter that empties at once is ready now, whenever the caller's now is.
        self.first_look = match busy {
            Nanos::ZERO => Nanos::ZERO,
            _ => start + busy,
        };
        self.hold(start, self.first_look);
    }

    /// The transmitter was busy when looked at, at `now`.
    pub(crate) fn busy(&mut self, now: Nanos) {
        if now < self.set_at {
            // The clock was set back: measure from here.
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

    /// Lets the next offer of a busy port look in short steps again: for a panic, which waits.
    pub(crate) fn hurry(&mut self) {
        self.busy_looks = self.busy_looks.min(1);
    }

    /// The same for an offer. A port that stays busy is looked at ever more seldom.
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

    /// The burst may be long ago: the port may have been in other hands.
    fn since_burst(&self, now: Nanos) -> Nanos {
        (now - self.start).min(self.longest)
    }

    fn look_after(&mut self, now: Nanos, pause: Nanos) {
        let pause = pause.max(Nanos::from_micros(1)).min(LONGEST_PAUSE);
        self.hold(now, now + pause);
    }

    /// The transmitter was ready when looked at, at `now`.
    pub(crate) fn ready(&mut self, now: Nanos) {
        // A part of a load says little of a whole one.
        if self.bytes != self.load || self.behind == 0 {
            return;
        }
        // The time of the whole load, also for a port that was idle.
        let took = (now - self.start).min(self.longest);
        let took = (took * self.load / self.behind).min(self.longest);
        if self.busy_looks > 0 {
            // It became ready since the look before: that long, then.
            self.full = took;
            self.early = 1;
        } else if took < self.full * 2 {
            // Ready at the first look, which was early, or somewhat late: it may be faster
            // than predicted, so that the next look is made earlier.
            self.full = self.full.min(took);
            self.early = (self.early * 2).min(EARLY_PARTS);
        }
        // Else the caller came late, and the moment of readiness is unknown.
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

    /// Sends full loads over a line that needs `busy` for each, and returns for
    /// each how often it was looked at and how late it was found ready.
    fn send(pace: &mut Pace, now: &mut Nanos, busy: Nanos, loads: usize) -> Vec<(u32, Nanos)> {
        send_to(pace, now, busy, vec![false; loads])
    }

    /// The same, to a transmitter that is idle or not before each.
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
    fn a_line_at_its_nominal_rate_costs_three_looks_and_less_than_a_frame() {
        let mut pace = Pace::new(LOAD, NOMINAL, LONGEST);
        for (looks, late) in send(&mut pace, &mut Nanos(0), NOMINAL * 16, 100) {
            assert!(looks <= 3, "{looks}");
            assert!(late < NOMINAL / 4, "{late}");
        }
    }

    #[test]
    fn an_idle_line_teaches_the_time_of_all_that_it_is_given() {
        for nominal in [NOMINAL, Nanos(1_000)] {
            let mut pace = Pace::new(LOAD, nominal, LONGEST);
            let now = &mut Nanos(0);
            send_to(&mut pace, now, NOMINAL * 16, [true]);
            // Always idle, never, and by turns.
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
    fn a_caller_that_comes_late_teaches_nothing() {
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
        fn the_next_look_is_never_far_away(
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
                // An idle port was busy with all but one of them.
                let spared = u64::from(idle) * (now - start).0 / (LOAD as u64 - 1);
                longest = longest.max(now - start + Nanos(spared + 1));
            }
        }
    }
}
