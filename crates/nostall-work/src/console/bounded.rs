//! The stall's cure: a ring, and slices that wait for nothing.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_console::{Drain, Limits, Meta, Next, Options, Priority, Ring, flush};
use nostall_io::{Clock, Nanos, Registers};

use super::{Context, Cpu, Hold, Path, Role, Serial};

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
        match self.drain.slice(cpu.id() as u16, priority, from) {
            Next::At(at) => self.come_back(cpu, at),
            Next::Busy => return Role::Left,
            // Others may have left it to us, and nobody may ever log again.
            Next::Backlog => self.come_back(cpu, cpu.now()),
            Next::Empty => {}
        }
        let until = cpu.now();
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
            // In an interrupt, but nobody waits in it: a slice is as short here.
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use nostall_console::{Level, Slot};
    use nostall_io::Processor;
    use nostall_uart::registers::{LCR, LSR, THR, lcr, lsr};
    use nostall_uart::{Console, LineSettings, Model, Settings};
    use spin::Mutex;
    use std::string::String;
    use std::vec::Vec;

    /// A port that takes everything at once; and the one CPU, whose time goes on when it
    /// waits.
    #[derive(Default)]
    struct Machine {
        registers: Mutex<[u8; 8]>,
        sent: Mutex<Vec<u8>>,
        now: AtomicU64,
        alarm: Mutex<Option<Nanos>>,
    }

    impl Registers for &Machine {
        fn read8(&self, offset: usize) -> u8 {
            match offset {
                LSR => lsr::THRE | lsr::TEMT,
                _ => self.registers.lock()[offset],
            }
        }

        fn write8(&self, offset: usize, value: u8) {
            let mut registers = self.registers.lock();
            if offset == THR && registers[LCR] & lcr::DLAB == 0 {
                self.sent.lock().push(value);
            }
            registers[offset] = value;
        }
    }

    impl Clock for &Machine {
        fn now(&self) -> Nanos {
            Nanos(self.now.load(Ordering::Relaxed))
        }

        fn wait_until(&self, deadline: Nanos) {
            self.now.fetch_max(deadline.0, Ordering::Relaxed);
        }
    }

    impl Processor for &Machine {
        fn id(&self) -> usize {
            0
        }

        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            critical()
        }
    }

    impl Cpu for &Machine {
        fn call_at(&self, at: Nanos) {
            *self.alarm.lock() = Some(at);
        }

        fn stop_others(&self) {}
    }

    fn meta(priority: Priority) -> Meta<'static> {
        Meta {
            time: Nanos::ZERO,
            cpu: 0,
            level: Level::Info,
            priority,
            target: "",
        }
    }

    /// What is sent of a backlog that another CPU left, whose slice found one under way,
    /// after what `interrupt` does; when nobody logs any more.
    fn sent_after(interrupt: impl FnOnce(&Bounded<'_, &Machine, &Machine>, &&Machine)) -> String {
        let machine = Machine::default();
        let settings = Settings {
            model: Some(Model::Uart16550A),
            ..Settings::from(LineSettings::baud(115_200))
        };
        let console = Console::open(&machine, &machine, settings).unwrap();
        let ring = Ring::<[Slot; 16]>::new();
        let bounded = Bounded::new(&ring, Serial::new(console));
        ring.log(&meta(Priority::Normal), b"backlog");
        interrupt(&bounded, &&machine);
        // Each brings a byte at least.
        for _ in 0..100 {
            let Some(at) = machine.alarm.lock().take() else {
                break;
            };
            (&machine).wait_until(at);
            bounded.timer(&&machine);
        }
        String::from_utf8(machine.sent.lock().clone()).unwrap()
    }

    #[test]
    fn after_an_emergency_in_an_interrupt_the_timer_sends_the_backlog() {
        let sent = sent_after(|bounded, cpu| {
            let urgent = meta(Priority::Emergency);
            bounded.log(cpu, Context::Interrupt, &urgent, b"urgent");
        });
        let (urgent, backlog) = (sent.find("urgent"), sent.find("backlog\r\n"));
        assert!(urgent.unwrap() < backlog.unwrap(), "{sent}");
    }

    #[test]
    fn so_it_does_after_an_emergency_that_another_cpu_has_sent() {
        let sent = sent_after(|bounded, cpu| {
            bounded.slice(cpu, Context::Interrupt);
        });
        assert!(sent.ends_with("backlog\r\n"), "{sent}");
    }
}
