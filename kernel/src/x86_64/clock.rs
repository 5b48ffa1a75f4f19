//! The time stamp counter as a clock.

use nostall_io::Tsc as Counter;
use nostall_io::{Clock, Nanos, Ports, Registers};

/// The time stamp counter with a known rate.
#[derive(Clone, Copy)]
pub struct Tsc {
    start: u64,
    hz: u64,
    /// Nanoseconds per cycle, times 2^32.
    scale: u64,
}

/// Input clock of the 8253 in hertz.
const PIT_HZ: u64 = 1_193_182;

impl Tsc {
    /// Creates the clock with the rate that the hypervisor or the processor reports, or measures
    /// it.
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

    /// Measures the counter's rate against the programmable interval timer.
    ///
    /// On a shared machine, a pause can hit the start or the end of an interval. One interval with
    /// exact ends is enough; otherwise the best one counts. The first 8 of 40 intervals have 5 ms,
    /// and the others 1 ms. A host may run this CPU for less than 5 ms at a time. Then each long
    /// interval has a pause.
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

    /// Returns the rate in cycles per second.
    pub const fn hz(&self) -> u64 {
        self.hz
    }
}

/// Steps of the interval timer in a long interval: 5 ms.
const COUNT: u16 = (PIT_HZ / 200) as u16;

/// One interval of the timer, in cycles of the time stamp counter.
#[derive(Clone, Copy)]
struct Stretch {
    /// Length in steps of the interval timer.
    count: u16,
    cycles: u64,
    /// Maximum error of `cycles`, in both directions.
    doubt: u64,
}

impl Stretch {
    /// Returns whether the relative error is smaller.
    const fn is_surer_than(self, other: Self) -> bool {
        self.doubt as u128 * (other.cycles as u128) < other.doubt as u128 * (self.cycles as u128)
    }
}

/// Measures a one-shot of channel 2 (8254 data sheet, mode 0; gate and output are bits 0 and 5 of
/// port 0x61).
///
/// Returns `None` if the output was not seen low at first: a missing timer reads as all ones.
fn measure(count: u16) -> Option<Stretch> {
    // No port is read faster than in 1 ns, so 5 ms have at most this many reads. An existing port
    // is read more often than `FEW_READS` in that time.
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
    // The output was still low at some time after the start of the last read that returned low. It
    // was high before the end of the next read. A pause can hit either read.
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
    // Mode 0 starts with a low output. With few reads, the output was not seen low.
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
