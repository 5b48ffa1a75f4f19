//! The console that stalls: the logging task prints.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nostall_console::{Caller, Meta, Ring, UartSink};
use nostall_io::{Clock, Registers};

use super::position::Position;
use super::{Context, Cpu, Hold, Path, Role};

/// A console as in Linux 4.15 to 6.x: the logging task stores its message in the ring and tries to
/// become the console's owner. The owner prints all tasks' messages until none is left.
///
/// - The owner runs with pre-emption off. Interrupts are masked during each record and enabled
///   between records, unless the owner itself is in an interrupt.
/// - If the console has an owner, one other CPU at a time may wait for it
///   (`console_trylock_spinning`). It spins with interrupts masked until the owner has printed a
///   record. Any further CPU leaves its message and continues. The CPUs of a flood thus take turns.
///   When logging stops, the last owner prints the backlog. The next CPU to log is often a
///   watchdog's in the timer interrupt.
/// - The owner does not touch the watchdog meanwhile. Linux's 8250 driver does so for each record,
///   which silences the detector although the CPU is stuck.
/// - In a panic the other CPUs are stopped, and everything is printed in order: the panic message
///   is last (`console_flush_on_panic`). An owner that cannot be stopped releases the console after
///   its current record (`abandon_console_lock_in_panic`, since 5.18).
#[derive(Debug)]
pub struct Inline<'r, R, C> {
    ring: &'r Ring,
    serial: UartSink<R, C>,
    /// The owner's CPU number plus 1, or 0.
    owner: AtomicUsize,
    /// CPU number plus 1 of the CPU that spins for the console, or 0.
    waiter: AtomicUsize,
    position: Position,
    panicking: AtomicBool,
}

/// Result of printing a record.
enum Printed {
    One,
    Nothing,
    /// The record was printed, and the console was handed to the waiting CPU.
    HandedOver,
}

impl<'r, R, C> Inline<'r, R, C>
where
    R: Registers + Clone,
    C: Clock + Clone,
{
    /// Creates a console that prints `ring` to `serial`, with the sink's strategy.
    pub const fn new(ring: &'r Ring, serial: UartSink<R, C>) -> Self {
        Self {
            ring,
            serial,
            owner: AtomicUsize::new(0),
            waiter: AtomicUsize::new(0),
            position: Position::start(),
            panicking: AtomicBool::new(false),
        }
    }

    /// Tries to become the owner, waiting for at most one record of another owner.
    fn acquire(&self, cpu: &impl Cpu) -> bool {
        if self.panicking.load(Ordering::Acquire) {
            return false;
        }
        let me = cpu.id() + 1;
        match take(&self.owner, me) {
            Ok(()) => true,
            // This CPU already owns the console, within a record or between two.
            Err(owner) if owner == me => false,
            Err(_) => cpu.without_interrupts(|| self.wait(cpu, me)),
        }
    }

    /// Waits until the owner hands over or releases the console. Returns whether this CPU owns it
    /// now.
    fn wait(&self, cpu: &impl Cpu, me: usize) -> bool {
        if take(&self.waiter, me).is_err() {
            return false;
        }
        cpu.spin_while(
            || !matches!(self.owner.load(Ordering::Acquire), owner if owner == me || owner == 0),
        );
        // The owner released the console, unless a new owner has taken it since and hands it over.
        if self.owner.load(Ordering::Acquire) != me && self.no_longer_waits(me) {
            return take(&self.owner, me).is_ok();
        }
        cpu.spin_while(|| self.owner.load(Ordering::Acquire) != me);
        true
    }

    fn no_longer_waits(&self, waiter: usize) -> bool {
        self.waiter
            .compare_exchange(waiter, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Prints as the owner until no record is left or the console is handed over.
    fn print_all(&self, cpu: &impl Cpu) {
        loop {
            match cpu.without_interrupts(|| self.print_one(cpu)) {
                Printed::One => {
                    if self.panicking.load(Ordering::Acquire) {
                        self.owner.store(0, Ordering::SeqCst);
                        cpu.signal();
                        return;
                    }
                }
                Printed::HandedOver => return,
                Printed::Nothing => {
                    self.owner.store(0, Ordering::SeqCst);
                    cpu.signal();
                    // Another CPU may have logged since, and have left its message to this CPU.
                    if self.is_idle_now() || take(&self.owner, cpu.id() + 1).is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn print_one(&self, cpu: &impl Cpu) -> Printed {
        if !self.next_line(|line| self.write(line, Caller::Normal)) {
            return Printed::Nothing;
        }
        let waiter = self.waiter.load(Ordering::Acquire);
        if waiter != 0 && self.no_longer_waits(waiter) {
            self.owner.store(waiter, Ordering::Release);
            cpu.signal();
            return Printed::HandedOver;
        }
        Printed::One
    }

    /// Prints the next record as a line, if there is one.
    fn next_line(&self, print: impl Fn(&[u8])) -> bool {
        let next = self.position.line(self.ring, false);
        let is_there = next.is_some();
        if let Some((line, after)) = next {
            self.position.set(after);
            print(line.as_bytes());
        }
        is_there
    }

    /// Writes all of `line` and waits until it is sent.
    fn write(&self, line: &[u8], caller: Caller) {
        self.serial.with(caller, |console| console.write(line));
    }

    fn is_idle_now(&self) -> bool {
        self.position.is_at_end(self.ring)
    }
}

/// Stores `me` in `place` if that is 0; otherwise returns the stored value.
fn take(place: &AtomicUsize, me: usize) -> Result<(), usize> {
    place
        .compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire)
        .map(drop)
}

impl<R, C> Path for Inline<'_, R, C>
where
    R: Registers + Clone,
    C: Clock + Clone,
{
    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role {
        let from = cpu.now();
        self.ring.log(meta, text);
        cpu.stored();
        let is_owner = self.acquire(cpu);
        let owner_from = cpu.now();
        if is_owner {
            self.print_all(cpu);
        }
        let until = cpu.now();
        if until > from {
            cpu.held(Hold {
                context,
                from,
                owner_from,
                until,
            });
        }
        if is_owner { Role::Owner } else { Role::Left }
    }

    fn timer(&self, _: &impl Cpu) {}

    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]) {
        let from = cpu.now();
        self.ring.log(meta, text);
        cpu.stored();
        self.panicking.store(true, Ordering::Release);
        cpu.stop_others();
        self.position.print_in_panic(self.ring, || {
            while self.next_line(|line| self.write(line, Caller::Panic)) {}
        });
        cpu.owned(Context::Panic, from);
    }

    fn is_idle(&self) -> bool {
        self.owner.load(Ordering::Acquire) == 0 && self.is_idle_now()
    }

    fn lost(&self) -> u64 {
        self.position.lost()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::cell::Cell;
    use nostall_console::{Level, Priority, Slot};
    use nostall_devices::uart::{Profile, Uart};
    use nostall_io::{Nanos, Processor};
    use nostall_uart::{Console, ConsoleSettings, LineSettings, Model};
    use std::string::String;
    use std::vec::Vec;

    /// A CPU that cannot be stopped. `between` performs other CPUs' actions between two of its
    /// records.
    struct TestCpu<'a>(usize, &'a dyn Fn());

    impl Clock for TestCpu<'_> {
        fn now(&self) -> Nanos {
            Nanos::ZERO
        }

        fn wait_until(&self, _: Nanos) {}
    }

    impl Processor for TestCpu<'_> {
        fn id(&self) -> usize {
            self.0
        }

        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            let result = critical();
            (self.1)();
            result
        }
    }

    impl Cpu for TestCpu<'_> {
        fn call_at(&self, _: Nanos) {}

        fn stop_others(&self) {}
    }

    #[test]
    fn an_owner_that_a_panic_cannot_stop_finishes_only_its_current_record() {
        let ring = Ring::<[Slot; 16]>::new();
        let meta = Meta {
            time: Nanos::ZERO,
            cpu: 0,
            level: Level::Info,
            priority: Priority::Normal,
            target: "",
        };
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let settings = ConsoleSettings {
            model: Some(Model::Uart16550A),
            ..ConsoleSettings::from(LineSettings::baud(115_200))
        };
        let console = Console::open(&port, &clock, settings).unwrap();
        let inline = Inline::new(&ring, UartSink::new(console));
        let records = Cell::new(0);
        let panics = || {
            records.set(records.get() + 1);
            if records.get() == 1 {
                inline.panic(&TestCpu(1, &|| {}), &meta, b"panic");
                ring.log(&meta, b"late");
            }
        };
        ring.log(&meta, b"one");
        let role = inline.log(&TestCpu(0, &panics), Context::Task, &meta, b"two");
        assert_eq!((role, records.get()), (Role::Owner, 1));
        let role = inline.log(&TestCpu(2, &|| {}), Context::Interrupt, &meta, b"later");
        assert_eq!(role, Role::Left);
        let sent = String::from_utf8(port.into_sink()).unwrap();
        let texts: Vec<_> = sent.lines().map(|line| line.split_at(15).1).collect();
        assert_eq!(texts, ["one", "two", "panic"], "{sent}");
    }
}
