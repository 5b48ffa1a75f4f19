//! The stall's cure: a ring, and slices that wait for nothing.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_console::{Drain, Limits, Meta, Next, Options, Priority, Ring, flush};
use nostall_io::{Clock, Nanos, Registers};

use super::{Context, Cpu, Hold, Path, Role, Serial};

/// After a slice, which is to be as short; a host may have taken the CPU away meanwhile.
const LONGEST_PAUSE: Nanos = Nanos::from_micros(100);

/// A log ring that is drained in slices, by whoever logs or has a timer when the port
/// takes more.
#[derive(Debug)]
pub struct Bounded<'r, R, C> {
    drain: Drain<'r, Serial<R, C>>,
    /// When the port takes more. Whoever set it has a timer for it.
    ready_at: AtomicU64,
}

impl<'r, R, C> Bounded<'r, R, C>
where
    R: Registers + Clone + Send,
    C: Clock + Clone + Send,
{
    /// From `ring` to `serial`.
    pub const fn new(ring: &'r Ring, serial: Serial<R, C>) -> Self {
        Self {
            drain: Drain::new(ring, serial, Options::DEFAULT.place(0)),
            ready_at: AtomicU64::new(0),
        }
    }

    /// Gives the port what it takes, if it should take something now.
    fn slice(&self, cpu: &impl Cpu, context: Context) -> Role {
        let from = cpu.now();
        if from < Nanos(self.ready_at.load(Ordering::Relaxed)) {
            // Somebody comes back then.
            return Role::Left;
        }
        let priority = match context {
            Context::Task => Priority::Normal,
            Context::Interrupt | Context::Panic => Priority::Emergency,
        };
        self.slice_at(cpu, context, priority, from)
    }

    fn slice_at(&self, cpu: &impl Cpu, context: Context, priority: Priority, from: Nanos) -> Role {
        let sent = self.drain.bytes();
        let next = self.drain.slice(cpu.id() as u16, priority, from);
        let until = cpu.now();
        // For as long the CPU is others', even if the port takes more at once: slices that
        // follow one another are one to whoever waits for the CPU.
        let pause = (until - from).min(LONGEST_PAUSE);
        match next {
            Next::At(at) => self.come_back(cpu, at.max(until + pause)),
            Next::Busy => return Role::Left,
            // Others may have left it to us, and nobody may ever log again.
            Next::Backlog => self.come_back(cpu, until + pause),
            Next::Empty => {}
        }
        if until > from {
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

    /// This CPU's timer sees to what is left.
    fn come_back(&self, cpu: &impl Cpu, at: Nanos) {
        self.ready_at.store(at.0, Ordering::Relaxed);
        cpu.call_at(at);
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
        cpu.without_interrupts(|| self.slice(cpu, context))
    }

    fn timer(&self, cpu: &impl Cpu) {
        let now = cpu.now();
        if now >= Nanos(self.ready_at.load(Ordering::Relaxed)) {
            // In an interrupt, but the CPU was others' since the slice before.
            self.slice_at(cpu, Context::Task, Priority::Normal, now);
        }
    }

    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]) {
        let from = cpu.now();
        self.drain.ring().log(meta, text);
        cpu.stored();
        cpu.stop_others();
        flush(&[&self.drain], cpu.id() as u16, cpu, Limits::DEFAULT);
        cpu.held(Hold {
            context: Context::Panic,
            from,
            owner_from: from,
            until: cpu.now(),
        });
    }

    fn is_idle(&self) -> bool {
        self.drain.unread() == 0
    }

    fn lost(&self) -> u64 {
        self.drain.lost()
    }
}
