//! State of the flood: data that its CPUs share, and figures that are kept until the end.
//!
//! All values are 0 at first, so that the state needs no room in the image.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use nostall_io::Nanos;
use nostall_work::console::{Context, Fired, Held, Hold, PerCpu, Throttle};
use spin::Mutex;

use crate::arch::{MAX_CPUS, MachineClock, SerialPort};

/// The port, with the speed of a real one.
pub type Port = Throttle<'static, SerialPort, MachineClock>;

/// Maximum number of lines whose delays are kept, and of bytes whose arrival times are kept.
const LINES: usize = 16 << 10;
const BYTES: usize = 64 << 10;

/// Maximum number of kept holds of the console.
const HOLDS: usize = 8 << 10;

/// Maximum number of kept detector reports.
const FIRED: usize = 1 << 10;

/// State of the flood.
pub struct State {
    pub delays: [AtomicU64; LINES],
    pub arrivals: [AtomicU32; BYTES],
    pub cpus: [PerCpu; MAX_CPUS],
    pub times: [CpuTime; MAX_CPUS],
    /// Time at which the panicking CPU was told to panic, plus 1; 0 before.
    result: AtomicU64,
    /// Set when a panic stops the other CPUs; `stopped` counts the stopped ones.
    pub stopping: AtomicBool,
    pub stopped: AtomicUsize,
    holds: [KeptHold; HOLDS],
    holds_count: AtomicUsize,
    fired: Mutex<heapless::Vec<(usize, Fired), FIRED>>,
}

/// Times of one CPU in nanoseconds.
pub struct CpuTime {
    /// Time in interrupt handlers of the flood.
    pub handled: AtomicU64,
    /// Time for which the task slept.
    pub given_away: AtomicU64,
}

/// CPU and context in one word, then three times. Atomic, because a panic may interrupt a store.
struct KeptHold([AtomicU64; 4]);

pub static STATE: State = State {
    delays: [const { AtomicU64::new(0) }; LINES],
    arrivals: [const { AtomicU32::new(0) }; BYTES],
    cpus: [const { PerCpu::new() }; MAX_CPUS],
    times: [const {
        CpuTime {
            handled: AtomicU64::new(0),
            given_away: AtomicU64::new(0),
        }
    }; MAX_CPUS],
    result: AtomicU64::new(0),
    stopping: AtomicBool::new(false),
    stopped: AtomicUsize::new(0),
    holds: [const { KeptHold([const { AtomicU64::new(0) }; 4]) }; HOLDS],
    holds_count: AtomicUsize::new(0),
    fired: Mutex::new(heapless::Vec::new()),
};

impl State {
    /// Tells a CPU to panic. Returns `false` if one has been told before.
    pub fn tell_to_panic(&self, now: Nanos) -> bool {
        let result =
            self.result
                .compare_exchange(0, now.0 + 1, Ordering::AcqRel, Ordering::Relaxed);
        result.is_ok()
    }

    /// Returns when a CPU was told to panic.
    pub fn told_to_panic(&self) -> Option<Nanos> {
        self.result
            .load(Ordering::Acquire)
            .checked_sub(1)
            .map(Nanos)
    }

    /// Keeps a hold of the console. Can be called in any context.
    pub fn keep_hold(&self, cpu: usize, hold: Hold) {
        let at = self.holds_count.fetch_add(1, Ordering::Relaxed);
        let Some(KeptHold(kept)) = self.holds.get(at) else {
            return;
        };
        let context = match hold.context {
            Context::Task => 0,
            Context::Interrupt => 1,
            Context::Panic => 2,
        };
        let place = (cpu as u64) << 8 | context;
        let words = [place, hold.from.0, hold.owner_from.0, hold.until.0];
        for (kept, word) in kept.iter().zip(words) {
            kept.store(word, Ordering::Relaxed);
        }
    }

    /// Returns the kept holds.
    ///
    /// Panics if there were more than [`HOLDS`].
    pub fn holds(&self) -> impl Iterator<Item = Held> {
        let holds = self.holds_count.load(Ordering::Relaxed);
        assert!(holds <= HOLDS, "held {holds} times: more than {HOLDS}");
        self.holds[..holds].iter().filter_map(|KeptHold(kept)| {
            let [place, from, owner_from, until] =
                kept.each_ref().map(|at| at.load(Ordering::Relaxed));
            // A CPU was stopped while it stored this one: skip it.
            (until != 0).then_some(Held {
                cpu: (place >> 8) as u16,
                context: place as u8,
                from,
                owner_from,
                until,
            })
        })
    }

    /// Keeps a detector's report. Called in an interrupt handler.
    pub fn keep_fired(&self, cpu: usize, fired: Fired) {
        // If the list is full, the first reports stay; `each_fired` panics then.
        let _ = self.fired.lock().push((cpu, fired));
    }

    /// Calls `each` with every detector's report.
    ///
    /// Panics if the list is full, because reports may be missing.
    pub fn each_fired(&self, mut each: impl FnMut(usize, Fired)) {
        // The lock may be held forever by a CPU that was stopped.
        let fired = self.fired.try_lock();
        let is_full = fired.as_ref().is_some_and(|fired| fired.is_full());
        assert!(!is_full, "the detectors fired {FIRED} times or more");
        for &(cpu, fired) in fired.iter().flat_map(|fired| fired.iter()) {
            each(cpu, fired);
        }
    }
}
