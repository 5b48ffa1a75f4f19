//! A console with its own printing task, compared with [`Bounded`](super::Bounded).

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nostall_console::{Caller, Cursor, Meta, Ring, UartSink};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::Console;
use spin::mutex::SpinMutex;

use super::position::{Line, Position};
use super::{Context, Cpu, Hold, Path, Role};

/// Interval between the task's attempts while a record is incomplete or an emergency owns the port.
const RETRY: Nanos = Nanos::from_millis(1);

/// Longest time that an emergency waits for the port.
const TAKE_OVER: Nanos = Nanos::from_millis(10);

/// Interval between attempts to send to a port that has disappeared.
const GONE: Nanos = Nanos::from_secs(1);

/// Value of `runs_on` in a panic: the panicking CPU prints, and the task never runs again.
const PANIC: usize = usize::MAX;

/// A console as one of Linux's nbcon consoles (since 6.12) would be on an 8250. The console's own
/// task prints, and a logging task only stores its message.
///
/// - The task takes the port for one full FIFO at a time, with interrupts enabled. In between, it
///   sleeps until the port accepts more. A second task then runs for at least as long as filling
///   the FIFO took.
/// - If the task sleeps, logging wakes it on the logging CPU. It runs as soon as that CPU's logging
///   task yields.
/// - An emergency in an interrupt handler takes the port over. Before the handler returns, it
///   prints all records up to its own, in order. If it interrupted the printing task while that
///   used the port, it leaves its message to the task.
/// - In a panic the other CPUs are stopped. The panicking CPU takes the port over at any point of
///   its owner, and prints everything in order: the panic message is last.
/// - After a takeover, a line that the task had begun is printed again from its start, after the
///   mark `{again}`.
///
/// Linux's driver for the 8250, as posted, polls the line status between full FIFOs, in a thread of
/// the highest fair priority. This task sleeps instead, so the comparison favours the task.
#[derive(Debug)]
pub struct PrinterThread<'r, R, C> {
    ring: &'r Ring,
    serial: UartSink<R, C>,
    position: Position,
    /// CPU number plus 1 of the task; 0 while it sleeps until a record is logged.
    runs_on: AtomicUsize,
    /// Time at which the task runs again.
    wakes_at: AtomicU64,
    /// CPU number plus 1 of the port's owner, or 0.
    holder: AtomicUsize,
    /// Number of bytes of the record at `position` that the port has accepted.
    sent: AtomicUsize,
    /// The task's current line, and the positions before and after it.
    line: SpinMutex<Option<(Line, Cursor, Cursor)>>,
}

impl<'r, R, C> PrinterThread<'r, R, C>
where
    R: Registers + Clone,
    C: Clock + Clone,
{
    /// Creates a console that prints `ring` to `serial`, with the sink's strategy.
    pub const fn new(ring: &'r Ring, serial: UartSink<R, C>) -> Self {
        Self {
            ring,
            serial,
            position: Position::start(),
            runs_on: AtomicUsize::new(0),
            wakes_at: AtomicU64::new(0),
            holder: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            line: SpinMutex::new(None),
        }
    }

    /// Assigns the task to `cpu`, if the task sleeps. Returns whether it did.
    fn wake(&self, cpu: &impl Cpu) -> bool {
        let me = cpu.id() + 1;
        self.runs_on
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Puts the task to sleep until a record is logged. Returns whether it sleeps.
    fn sleep(&self, cpu: &impl Cpu) -> bool {
        let me = cpu.id() + 1;
        let slept = self
            .runs_on
            .compare_exchange(me, 0, Ordering::SeqCst, Ordering::SeqCst);
        // Another CPU may have logged since, and have left its message to this task.
        slept.is_err() || self.position.is_at_end(self.ring) || !self.wake(cpu)
    }

    /// Runs with the port, unless another context owns it.
    fn with<T>(
        &self,
        cpu: &impl Cpu,
        caller: Caller,
        act: impl FnOnce(&mut Console<R, C>) -> T,
    ) -> Option<T> {
        let done = self.serial.with(caller, |console| {
            self.holder.store(cpu.id() + 1, Ordering::SeqCst);
            let done = act(console);
            self.holder.store(0, Ordering::SeqCst);
            done
        });
        cpu.signal();
        done
    }

    /// Sends as many bytes as the port accepts now. Returns when it accepts more, or `None` if
    /// nothing is left.
    fn step(&self, cpu: &impl Cpu) -> Option<Nanos> {
        let mut line = self.line.try_lock()?;
        let from = cpu.now();
        let offered = self.with(cpu, Caller::Normal, |console| {
            // An emergency may have printed this line meanwhile.
            if line
                .as_ref()
                .is_none_or(|line| line.1 != self.position.cursor())
            {
                let next = self.position.line(self.ring, false);
                *line = next.map(|(line, after)| (line, self.position.cursor(), after));
            }
            let (text, _, after) = line.as_ref()?;
            let sent = self.sent.load(Ordering::Relaxed);
            let offered = console.offer(&text.as_bytes()[sent..]);
            let sent = sent + offered.taken;
            self.sent.store(sent, Ordering::Relaxed);
            if sent == text.len() {
                self.position.set(*after);
                self.sent.store(0, Ordering::Relaxed);
            }
            Some(offered.ready_at)
        });
        let until = cpu.now();
        if until > from {
            cpu.held(Hold {
                context: Context::Task,
                from,
                owner_from: from,
                until,
            });
        }
        let took = until - from;
        match offered {
            Some(Some(ready_at)) => Some(ready_at.map_or(until + GONE, |at| at.max(until + took))),
            Some(None) if self.position.is_at_end(self.ring) => None,
            Some(None) | None => Some(until + RETRY),
        }
    }

    /// Prints all records up to `last`, in order, and waits until they are sent. If the port's
    /// owner was `interrupted`, the line that it had begun is printed again.
    fn print_all(&self, console: &mut Console<R, C>, interrupted: bool, last: u64) {
        let mut replay = interrupted | (self.sent.swap(0, Ordering::Relaxed) > 0);
        while let Some((line, after)) = self.position.line(self.ring, replay) {
            if replay {
                console.write(b"\n{again}\n");
                replay = false;
            }
            console.write(line.as_bytes());
            self.position.set(after);
            if after.next > last {
                break;
            }
        }
        // The flush takes bounded time. If the port does not become ready, the last bytes are lost.
        let _ = console.flush();
    }

    /// Prints everything up to the newest record, in an emergency. Returns whether it did.
    fn take_over(&self, cpu: &impl Cpu) -> bool {
        let newest = self.ring.newest();
        let deadline = cpu.now() + TAKE_OVER;
        let mut done = None;
        while done.is_none() {
            let holder = self.holder.load(Ordering::SeqCst);
            let is_panic = self.runs_on.load(Ordering::SeqCst) == PANIC;
            if holder == cpu.id() + 1 || is_panic || cpu.now() >= deadline {
                return false;
            }
            done = self.with(cpu, Caller::Normal, |console| {
                self.print_all(console, false, newest);
            });
            if done.is_none() {
                let is_held = || self.holder.load(Ordering::SeqCst) == holder && holder != 0;
                cpu.spin_while(|| is_held() && cpu.now() < deadline);
            }
        }
        true
    }
}

impl<R, C> Path for PrinterThread<'_, R, C>
where
    R: Registers + Clone,
    C: Clock + Clone,
{
    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role {
        let from = cpu.now();
        self.ring.log(meta, text);
        cpu.stored();
        if context == Context::Interrupt && cpu.without_interrupts(|| self.take_over(cpu)) {
            cpu.owned(context, from);
            return Role::Owner;
        }
        self.wake(cpu);
        Role::Left
    }

    fn timer(&self, _: &impl Cpu) {}

    fn run_task(&self, cpu: &impl Cpu) -> Option<Nanos> {
        while self.runs_on.load(Ordering::SeqCst) == cpu.id() + 1 {
            let wakes_at = Nanos(self.wakes_at.load(Ordering::Relaxed));
            if cpu.now() < wakes_at {
                return Some(wakes_at);
            }
            match self.step(cpu) {
                Some(at) => self.wakes_at.store(at.0, Ordering::Relaxed),
                None if self.sleep(cpu) => break,
                None => {}
            }
        }
        None
    }

    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]) {
        let from = cpu.now();
        self.ring.log(meta, text);
        cpu.stored();
        self.runs_on.store(PANIC, Ordering::SeqCst);
        cpu.stop_others();
        let mut interrupted = self.holder.load(Ordering::SeqCst) != 0;
        self.position.print_in_panic(self.ring, || {
            self.with(cpu, Caller::Panic, |console| {
                self.print_all(console, interrupted, u64::MAX);
            });
            interrupted = false;
        });
        cpu.owned(Context::Panic, from);
    }

    fn is_idle(&self) -> bool {
        self.runs_on.load(Ordering::SeqCst) == 0 && self.position.is_at_end(self.ring)
    }

    fn lost(&self) -> u64 {
        self.position.lost()
    }
}
