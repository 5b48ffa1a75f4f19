//! The bounded console: a log ring, drained in slices that never wait.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_console::{
    Drain, FlushLimits, Level, Meta, Next, Priority, Ring, SinkOptions, UartSink, flush,
};
use nostall_io::{Clock, Nanos, Registers};

use super::{Context, Cpu, Hold, Path, Role};

/// Longest pause after a slice. A slice can seem long because the host took the CPU away.
const LONGEST_PAUSE: Nanos = Nanos::from_micros(100);

/// A console whose log ring is drained in slices: by each CPU that logs, and by its timer.
#[derive(Debug)]
pub struct Bounded<'r, R, C> {
    drain: Drain<'r, UartSink<R, C>>,
    /// Time before which no CPU sends. It keeps the CPU that sent last free until then.
    rests_until: AtomicU64,
}

impl<'r, R, C> Bounded<'r, R, C>
where
    R: Registers + Clone + Send,
    C: Clock + Clone + Send,
{
    /// Creates a console that drains `ring` to `serial`.
    pub const fn new(ring: &'r Ring, serial: UartSink<R, C>) -> Self {
        Self {
            drain: Drain::new(ring, serial, SinkOptions::DEFAULT.progress_slot(0)),
            rests_until: AtomicU64::new(0),
        }
    }

    /// Hides records of lesser importance than this level.
    pub fn set_level(&self, level: Level) {
        self.drain.set_level(level);
    }

    /// Sends as many bytes as the port accepts now, and sets this CPU's timer for the rest.
    fn slice(&self, cpu: &impl Cpu, context: Context) -> Role {
        let priority = match context {
            Context::Task => Priority::Normal,
            Context::Interrupt | Context::Panic => Priority::Emergency,
        };
        let from = cpu.now();
        let (sent, offers) = (self.drain.bytes(), self.drain.sink().offers());
        let next = self.drain.drain_bounded(cpu.id() as u16, priority, cpu);
        let until = cpu.now();
        if let Some(time) = next.time() {
            // The CPU stays free for as long as the slice took, even if the port accepts more at
            // once. Slices without a pause would hold it like one long slice.
            let pause = (until - from).min(LONGEST_PAUSE);
            self.rests_until.store((until + pause).0, Ordering::Relaxed);
            cpu.call_at(time.max(until + pause));
        }
        let has_looked = self.drain.sink().offers() != offers;
        if has_looked && until > from && !matches!(next, Next::Busy(_)) {
            cpu.held(Hold {
                context,
                from,
                owner_from: from,
                until,
            });
        }
        if self.drain.bytes() > sent {
            Role::Owner
        } else {
            Role::Left
        }
    }
}

impl<R, C> Path for Bounded<'_, R, C>
where
    R: Registers + Clone + Send,
    C: Clock + Clone + Send,
{
    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role {
        self.drain.ring().log(meta, text);
        cpu.stored();
        cpu.without_interrupts(|| {
            let rests_until = Nanos(self.rests_until.load(Ordering::Relaxed));
            let left = rests_until - cpu.now();
            // A longer remaining time means that the clock went back.
            if left > Nanos::ZERO && left <= LONGEST_PAUSE {
                cpu.call_at(rests_until);
                return Role::Left;
            }
            self.slice(cpu, context)
        })
    }

    fn timer(&self, cpu: &impl Cpu) {
        // The timer interrupts, but the CPU was free since the previous slice.
        self.slice(cpu, Context::Task);
    }

    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]) {
        let from = cpu.now();
        self.drain.ring().log(meta, text);
        cpu.stored();
        cpu.stop_others();
        flush(&[&self.drain], cpu.id() as u16, cpu, FlushLimits::DEFAULT);
        cpu.owned(Context::Panic, from);
    }

    fn is_idle(&self) -> bool {
        self.drain.unread() == 0
    }

    fn lost(&self) -> u64 {
        self.drain.lost()
    }
}
