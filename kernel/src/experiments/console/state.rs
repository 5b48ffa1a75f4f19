//! State of the flood: what its CPUs share, and figures that are kept until it is over.
//!
//! All of it is zero at first, so that it takes no room in the image.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use nostall_io::Nanos;
use nostall_work::console::{Context, Fired, Held, Hold, PerCpu, Throttle};
use spin::Mutex;

use crate::arch::{MAX_CPUS, MachineClock, SerialPort};

/// The port, as slow as a real one.
pub type Port = Throttle<'static, SerialPort, MachineClock>;

/// Lines whose delay is kept, and bytes whose arrival is.
const LINES: usize = 16 << 10;
const BYTES: usize = 64 << 10;

/// CpuTime that CPUs were held, at most.
const HOLDS: usize = 8 << 10;

/// Reports of detectors, at most.
const FIRED: usize = 1 << 10;

/// State of the flood.
pub struct State {
    pub delays: [AtomicU64; LINES],
    pub arrivals: [AtomicU32; BYTES],
    pub cpus: [PerCpu; MAX_CPUS],
    pub times: [CpuTime; MAX_CPUS],
    /// Time at which the CPU that panics was told to, plus 1; 0 before.
    told: AtomicU64,
    /// A panic stops the other CPUs; how many it has stopped.
    pub stopping: AtomicBool,
    pub stopped: AtomicUsize,
    holds: [KeptHold; HOLDS],
    holds_count: AtomicUsize,
    fired: Mutex<heapless::Vec<(usize, Fired), FIRED>>,
}

/// Time of one CPU, in nanoseconds.
pub struct CpuTime {
    /// Spent in handlers of its timer.
    pub handled: AtomicU64,
    /// Slept by its task.
    pub given_away: AtomicU64,
}

/// CPU and context, and three times. Atomic, for a panic may come in between.
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
    told: AtomicU64::new(0),
    stopping: AtomicBool::new(false),
    stopped: AtomicUsize::new(0),
    holds: [const { KeptHold([const { AtomicU64::new(0) }; 4]) }; HOLDS],
    holds_count: AtomicUsize::new(0),
    fired: Mutex::new(heapless::Vec::new()),
};

impl State {
    /// Tells a CPU to panic; `false` if one has been told before.
    pub fn tell_to_panic(&self, now: Nanos) -> bool {
        let told = self
            .told
            .compare_exchange(0, now.0 + 1, Ordering::AcqRel, Ordering::Relaxed);
        told.is_ok()
    }

    /// Returns when a CPU was told to panic.
    pub fn told_to_panic(&self) -> Option<Nanos> {
        self.told.load(Ordering::Acquire).checked_sub(1).map(Nanos)
    }

    /// Keeps a hold of the console's. In any context.
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

    /// Returns the holds that are kept.
    ///
    /// Panics if there were more than there is room for.
    pub fn holds(&self) -> impl Iterator<Item = Held> {
        let holds = self.holds_count.load(Ordering::Relaxed);
        assert!(holds <= HOLDS, "held {holds} times: more than {HOLDS}");
        self.holds[..holds].iter().filter_map(|KeptHold(kept)| {
            let [place, from, owner_from, until] =
                kept.each_ref().map(|at| at.load(Ordering::Relaxed));
            // Kept in part, by a CPU that was stopped: nothing.
            (until != 0).then_some(Held {
                cpu: (place >> 8) as u16,
                context: place as u8,
                from,
                owner_from,
                until,
            })
        })
    }

    /// Keeps a detector's report. In an interrupt handler.
    pub fn keep_fired(&self, cpu: usize, fired: Fired) {
        // Of more than there is room for, the first; `each_fired` panics then.
        let _ = self.fired.lock().push((cpu, fired));
    }

    /// Calls `each` with every detector's report.
    ///
    /// Panics if there may have been more than there is room for.
    pub fn each_fired(&self, mut each: impl FnMut(usize, Fired)) {
        // A CPU that has it for good has been stopped in it.
        let fired = self.fired.try_lock();
        let is_full = fired.as_ref().is_some_and(|fired| fired.is_full());
        assert!(!is_full, "the detectors fired {FIRED} times or more");
        for &(cpu, fired) in fired.iter().flat_map(|fired| fired.iter()) {
            each(cpu, fired);
        }
    }
}
