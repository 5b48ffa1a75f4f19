//! The time stamp counter as a clock.

use nostall_io::Tsc as Counter;
use nostall_io::{Clock, Nanos, Ports, Registers};

/// The time stamp counter, of known rate.
#[derive(Clone, Copy)]
pub struct Tsc {
    start: u64,
    hz: u64,
    /// Nanoseconds a cycle, times 2^32.
    scale: u64,
}

/// The 8253's input clock, in hertz.
const PIT_HZ: u64 = 1_193_182;

impl Tsc {
    /// Returns the counter with the rate that hypervisor or processor report, or measures it.
    pub fn find() -> Self {
        Counter::reported_rate().map_or_else(Self::calibrate, Self::of_rate)
    }

    fn of_rate(hz: u64) -> Self {
        assert!(hz > 1_000_000, "the time stamp counter runs at {hz} Hz");
        Self {
            start: Counter::ticks(),
            hz,
            scale: ((1_000_000_000u128 << 32) / u128::from(hz)) as u64,
        }
    }

    /// Measures the counter's rate against the programmable interval timer, in
    /// stretches of 5 ms: on a shared machine one may be interrupted just when it
    /// begins or ends. One whose ends are sure is enough; of 40 that are not, the
    /// best. Most of them are short: where a CPU's turns are shorter than 5 ms, that end
    /// is never in the turn in which it began.
    fn calibrate() -> Self {
        const SURE: u64 = 1_000;
        const TRIES: usize = 40;
        const LONG: usize = 8;
        let counts = (0..TRIES).map(|n| if n < LONG { COUNT } else { COUNT / 5 });
        let mut best: Option<Stretch> = None;
        for stretch in counts.filter_map(measure) {
            if best.is_none_or(|best| stretch.is_surer_than(best)) {
                best = Some(stretch);
            }
            if stretch.doubt < stretch.cycles / SURE {
                break;
            }
        }
        let Some(stretch) = best else {
            panic!("no clock to go by: the interval timer (8254) is missing");
        };
        Self::of_rate(stretch.cycles * PIT_HZ / u64::from(stretch.count))
    }

    /// Cycles a second.
    pub const fn hz(&self) -> u64 {
        self.hz
    }
}

/// What the interval timer counts down in a long stretch.
const COUNT: u16 = (PIT_HZ / 200) as u16;

/// One stretch of the interval timer, in cycles of the time stamp counter.
#[derive(Clone, Copy)]
struct Stretch {
    /// Of the interval timer.
    count: u16,
    cycles: u64,
    /// How much more or less it may have been.
    doubt: u64,
}

impl Stretch {
    /// For its length.
    const fn is_surer_than(self, other: Self) -> bool {
        self.doubt as u128 * (other.cycles as u128) < other.doubt as u128 * (self.cycles as u128)
    }
}

/// Measures a one-shot of channel 2 (8254 data sheet, mode 0; gate and output are
/// bits 0 and 5 of port 0x61). `None` if the output was not seen to be low for a
/// while: a timer that is not there reads all ones.
fn measure(count: u16) -> Option<Stretch> {
    // A port that is read in 1 ns is faster than any; one that is there is read
    // more often than this in 5 ms.
    const MOST_READS: u32 = 5_000_000;
    const FEW_READS: u32 = 4;
    // SAFETY: ring 0; a timer does no DMA.
    let timer = unsafe { Ports::new(0x40, 4) };
    // SAFETY: as above.
    let control = unsafe { Ports::new(0x61, 1) };
    let [low, high] = count.to_le_bytes();
    let gate_off = control.read8(0) & !0b11;
    control.write8(0, gate_off);
    timer.write8(3, 0b1011_0000); // channel 2, low then high byte, mode 0
    timer.write8(2, low);
    timer.write8(2, high);
    let before = Counter::ticks();
    control.write8(0, gate_off | 1);
    let start = Counter::ticks();
    // It was low at some time after the last look that found it so was begun (a look
    // may be interrupted, too), and high before the next one was done.
    let (mut asked, mut looked) = (start, start);
    let ended = (0..MOST_READS).find_map(|reads| {
        let now = looked;
        let is_high = control.read8(0) & 1 << 5 != 0;
        looked = Counter::ticks();
        let low = core::mem::replace(&mut asked, now);
        is_high.then_some((reads, low))
    });
    let Some((reads, last_low)) = ended else {
        panic!("no clock to go by: the interval timer (8254) does not count");
    };
    control.write8(0, gate_off);
    let span = |from: u64, to: u64| to.wrapping_sub(from);
    // Low at first, as mode 0 has it, or else there were no reads before.
    (reads > FEW_READS).then(|| Stretch {
        count,
        cycles: span(start, looked),
        doubt: span(before, start) + span(last_low, looked),
    })
}

impl Clock for Tsc {
    fn now(&self) -> Nanos {
        let cycles = Counter::ticks().wrapping_sub(self.start);
        Nanos(((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64)
    }
}
