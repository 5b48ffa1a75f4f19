//! Several CPUs in virtual time.
//!
//! Each CPU has its own time and stack. The CPU with the earliest time runs next, so that no CPU
//! sees the effect of a later access. Before every access to shared state, a CPU that is ahead lets
//! the others catch up.

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use nostall_io::{Clock, Nanos, Processor};

/// Stack size of a CPU in bytes.
const STACK: usize = 256 << 10;

/// Interval of the timer tick: 4 ms, as in distributions' Linux kernels (HZ=250).
pub const TICK: Nanos = Nanos(4_000_000);

/// Duration of a clock read in a panic.
const CLOCK_READ: Nanos = Nanos(500);

/// Marks a time that is never reached.
const NEVER: u64 = u64::MAX;

/// A machine with several CPUs. They run in one thread, one CPU at a time.
#[derive(Debug)]
pub struct ModelMachine {
    /// Time of the running CPU.
    now: AtomicU64,
    /// Time until which the running CPU need not yield to the others.
    horizon: AtomicU64,
    current: AtomicUsize,
    /// Time of the injected NMI, or `NEVER`.
    nmi: AtomicU64,
    /// Set when a panic has stopped all other CPUs.
    is_panic: AtomicBool,
    cpus: Box<[State]>,
}

/// State of one CPU.
#[derive(Debug)]
struct State {
    /// Time at which the CPU continues; `NEVER` while it spins or is stopped.
    wakes_at: AtomicU64,
    spins: AtomicBool,
    /// Nesting depth of masked interrupts.
    masked: AtomicUsize,
    next_tick: AtomicU64,
    timer: AtomicU64,
    /// Total time given to a second task.
    given_away: AtomicU64,
    /// Start of the current sleep, if any.
    asleep_since: AtomicU64,
    /// Handle that suspends this CPU's coroutine.
    yielder: AtomicPtr<Yielder<(), ()>>,
}

/// A program for the machine.
pub trait Program {
    /// Runs the body of CPU `cpu`.
    fn run(&self, cpu: &ModelCpu<'_, Self>);
    /// Handles the timer tick; `missed` ticks were skipped.
    fn tick(&self, cpu: &ModelCpu<'_, Self>, missed: u64);
    /// Handles the one-shot timer interrupt.
    fn timer(&self, cpu: &ModelCpu<'_, Self>);
    /// Runs the panic at the injected time, in any state of the CPU.
    fn panic(&self, cpu: &ModelCpu<'_, Self>);
    /// Returns whether the program is complete.
    fn is_over(&self) -> bool;
}

/// Error: no CPU can continue, because all wait for each other.
#[derive(Debug)]
pub struct Deadlock;

impl ModelMachine {
    /// Creates a machine with its clock at zero.
    pub fn new(cpus: usize) -> Self {
        Self {
            now: AtomicU64::new(0),
            horizon: AtomicU64::new(NEVER),
            current: AtomicUsize::new(0),
            nmi: AtomicU64::new(NEVER),
            is_panic: AtomicBool::new(false),
            cpus: (0..cpus).map(|_| State::new()).collect(),
        }
    }

    /// Runs `program` on all CPUs until it, or its panic, is complete.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] if no CPU can continue.
    pub fn run<P: Program>(
        &self,
        program: &P,
        panic_at: Option<(usize, Nanos)>,
    ) -> Result<(), Deadlock> {
        let start = self.now().0;
        self.nmi
            .store(panic_at.map_or(NEVER, |(_, at)| at.0.max(start)), Relaxed);
        let count = self.cpus.len() as u64;
        for (id, cpu) in self.cpus.iter().enumerate() {
            cpu.wakes_at.store(start, Relaxed);
            // The CPUs' ticks are staggered, as in Linux.
            let phase = TICK.0 * (id as u64 + 1) / count;
            cpu.next_tick.store(start + phase, Relaxed);
        }
        let mut coroutines: Vec<_> = (0..self.cpus.len())
            .map(|id| self.spawn(program, id, run))
            .collect();
        // A panic never returns to the interrupted code.
        let mut interrupted = None;
        while !program.is_over() || self.nmi.load(Relaxed) != NEVER || interrupted.is_some() {
            let wakes = |id: usize| self.cpus[id].wakes_at.load(Relaxed);
            let next = (0..self.cpus.len()).min_by_key(|&id| wakes(id));
            let next = next.ok_or(Deadlock)?;
            let nmi = self.nmi.load(Relaxed);
            if let Some((id, _)) = panic_at
                && nmi <= wakes(next)
                && nmi != NEVER
            {
                self.nmi.store(NEVER, Relaxed);
                let panic = self.spawn(program, id, |cpu| cpu.program.panic(cpu));
                interrupted = Some(mem::replace(&mut coroutines[id], panic));
                self.cpus[id].masked.store(1, Relaxed);
                self.cpus[id].wakes_at.store(nmi, Relaxed);
                continue;
            }
            if wakes(next) == NEVER {
                return Err(Deadlock);
            }
            self.enter(next);
            coroutines[next].resume(());
            if coroutines[next].done() {
                break;
            }
        }
        drop(interrupted);
        Ok(())
    }

    /// Resumes the CPU `id`.
    fn enter(&self, id: usize) {
        let wakes = |cpu: &State| cpu.wakes_at.load(Relaxed);
        let others = self.cpus.iter().enumerate().filter(|(n, _)| *n != id);
        let horizon = others.map(|(_, cpu)| wakes(cpu)).min().unwrap_or(NEVER);
        self.horizon
            .store(horizon.min(self.nmi.load(Relaxed)), Relaxed);
        self.now.store(wakes(&self.cpus[id]), Relaxed);
        self.current.store(id, Relaxed);
    }

    fn spawn<'p, P: Program>(
        &'p self,
        program: &'p P,
        id: usize,
        run: impl FnOnce(&ModelCpu<'p, P>) + 'p,
    ) -> Coroutine<(), (), ()> {
        let body = move |yielder: &Yielder<(), ()>, ()| {
            let yielder = ptr::from_ref(yielder).cast_mut();
            self.cpus[id].yielder.store(yielder, Relaxed);
            run(&ModelCpu {
                machine: self,
                program,
                id,
            });
        };
        // Without memory for a stack, the machine cannot run.
        let stack = DefaultStack::new(STACK).expect("memory for a CPU's stack");
        // SAFETY: the borrows of `body` must outlive the coroutine: coroutines are local to
        // `ModelMachine::run`, which borrows machine and program for longer, and drops them.
        unsafe { Coroutine::with_stack_unchecked(stack, body) }
    }

    /// Yields until the other CPUs have caught up with this one.
    fn let_others(&self) {
        let cpu = &self.cpus[self.current.load(Relaxed)];
        cpu.wakes_at.store(self.now.load(Relaxed), Relaxed);
        self.suspend();
    }

    /// Suspends this CPU until its `wakes_at` time.
    fn suspend(&self) {
        let cpu = &self.cpus[self.current.load(Relaxed)];
        let yielder = cpu.yielder.load(Relaxed);
        // SAFETY: a coroutine's yielder lives as long as its body runs. Only the running CPU calls
        // this function, from the body that stored the yielder.
        unsafe { &*yielder }.suspend(());
    }

    /// Keeps this CPU busy until `then`, with interrupts enabled; used for polling.
    #[inline]
    pub fn go_to(&self, then: Nanos) {
        self.now.store(then.0, Relaxed);
        if then.0 > self.horizon.load(Relaxed) {
            self.let_others();
        }
    }

    /// Returns the time until which no other CPU runs.
    #[inline]
    pub fn horizon(&self) -> Nanos {
        Nanos(self.horizon.load(Relaxed))
    }

    /// Returns the time that each CPU has given to a second task so far.
    pub fn given_away(&self) -> Vec<Nanos> {
        let now = self.now().0;
        let of = |cpu: &State| {
            let since = cpu.asleep_since.load(Relaxed);
            Nanos(cpu.given_away.load(Relaxed) + now.saturating_sub(since))
        };
        self.cpus.iter().map(of).collect()
    }
}

/// Runs a CPU's body, outside a panic.
fn run<P: Program>(cpu: &ModelCpu<'_, P>) {
    cpu.program.run(cpu);
    // The body is done: the CPU only handles interrupts now.
    cpu.sleep_until(Nanos(NEVER));
}

impl Clock for ModelMachine {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Relaxed))
    }

    fn wait_until(&self, deadline: Nanos) {
        if deadline > self.now() {
            self.go_to(deadline);
        }
    }
}

impl State {
    fn new() -> Self {
        Self {
            wakes_at: AtomicU64::new(NEVER),
            spins: AtomicBool::new(false),
            masked: AtomicUsize::new(0),
            next_tick: AtomicU64::new(NEVER),
            timer: AtomicU64::new(NEVER),
            given_away: AtomicU64::new(0),
            asleep_since: AtomicU64::new(NEVER),
            yielder: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// A CPU's interface for the program that runs on it.
pub struct ModelCpu<'m, P: ?Sized> {
    machine: &'m ModelMachine,
    program: &'m P,
    id: usize,
}

impl<P: Program> ModelCpu<'_, P> {
    /// Returns the program that runs on it.
    pub fn program(&self) -> &P {
        self.program
    }

    /// Spins with interrupts masked while `condition` holds. Each [signal](Self::signal) makes the
    /// CPU check it again.
    pub fn spin_while(&self, condition: impl Fn() -> bool) {
        let state = self.state();
        while condition() {
            state.spins.store(true, Relaxed);
            state.wakes_at.store(NEVER, Relaxed);
            self.machine.suspend();
        }
    }

    /// Makes all CPUs that [spin](Self::spin_while) check their condition again.
    pub fn signal(&self) {
        let now = self.now().0;
        for cpu in &self.machine.cpus {
            if cpu.spins.swap(false, Relaxed) {
                cpu.wakes_at.store(now, Relaxed);
                self.machine.horizon.fetch_min(now, Relaxed);
            }
        }
    }

    /// Sets this CPU's one-shot timer, replacing its previous time.
    pub fn set_timer(&self, at: Nanos) {
        self.state().timer.store(at.0, Relaxed);
    }

    /// Stops all other CPUs permanently, because this CPU panics.
    pub fn stop_others(&self) {
        let others = self.machine.cpus.iter().enumerate();
        for (_, cpu) in others.filter(|(id, _)| *id != self.id) {
            cpu.spins.store(false, Relaxed);
            cpu.wakes_at.store(NEVER, Relaxed);
        }
        self.machine.horizon.store(NEVER, Relaxed);
        self.machine.is_panic.store(true, Relaxed);
    }

    fn state(&self) -> &State {
        &self.machine.cpus[self.id]
    }

    /// Handles the interrupts that are due, unless they are masked.
    fn interrupts(&self) {
        let state = self.state();
        if state.masked.load(Relaxed) > 0 {
            return;
        }
        loop {
            let now = self.now().0;
            let tick = state.next_tick.load(Relaxed);
            if tick <= now {
                // The first missed tick is handled late; the others are skipped.
                let missed = (now - tick) / TICK.0;
                let next = tick + (missed + 1) * TICK.0;
                state.next_tick.store(next, Relaxed);
                self.handle(|| self.program.tick(self, missed));
            } else if state.timer.load(Relaxed) <= now {
                state.timer.store(NEVER, Relaxed);
                self.handle(|| self.program.timer(self));
            } else {
                return;
            }
        }
    }

    fn handle(&self, handler: impl FnOnce()) {
        self.state().masked.fetch_add(1, Relaxed);
        handler();
        self.state().masked.fetch_sub(1, Relaxed);
    }
}

impl<P: Program> Clock for ModelCpu<'_, P> {
    fn now(&self) -> Nanos {
        let now = self.machine.now();
        if self.machine.is_panic.load(Relaxed) {
            // In a panic, a clock wait takes the time of one clock read.
            self.machine.wait_until(now + CLOCK_READ);
        }
        now
    }

    fn wait_until(&self, deadline: Nanos) {
        self.machine.wait_until(deadline);
    }

    fn sleep_until(&self, deadline: Nanos) {
        let state = self.state();
        loop {
            self.interrupts();
            let now = self.now();
            if now >= deadline {
                return;
            }
            let interrupt = state.next_tick.load(Relaxed).min(state.timer.load(Relaxed));
            state.asleep_since.store(now.0, Relaxed);
            let until = deadline.min(Nanos(interrupt));
            self.machine.now.store(until.0, Relaxed);
            self.machine.let_others();
            state.asleep_since.store(NEVER, Relaxed);
            let slept = self.now() - now;
            state.given_away.fetch_add(slept.0, Relaxed);
        }
    }
}

impl<P: Program> Processor for ModelCpu<'_, P> {
    fn id(&self) -> usize {
        self.id
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        let masked = &self.state().masked;
        masked.fetch_add(1, Relaxed);
        let result = critical();
        masked.fetch_sub(1, Relaxed);
        self.interrupts();
        result
    }
}
