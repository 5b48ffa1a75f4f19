//! A flood on the model.

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;

use nostall_console::{Ring, Slot, UartSink};
use nostall_io::{Clock, Nanos, Processor};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, OpenError};
use nostall_work::console::{
    Bounded, Cpu, Fired, Flood, Hold, Inline, Lines, Path, PerCpu, PrintStrategy, PrinterThread,
    SLOTS,
};

use nostall_vm::model::{ModelCpu, ModelMachine, ModelPort, Program};

use super::check::Logged;
use super::outcome::{CpuOutcome, FloodOutcome, FloodPlan, FloodRecords};

/// Start of the log; the port is set up before it.
const START: Nanos = Nanos::from_millis(1);

/// Duration for which a waiting write polls the line status every microsecond. Later pauses are
/// longer.
const EVEN_LOOKS: Nanos = Nanos::from_millis(10);

/// Failure of a run on the model.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The port cannot be set up with these settings.
    #[error("the port cannot be set up: {0}")]
    Open(OpenError),
    /// Every CPU waits for another.
    #[error("every CPU waits for another: {0} has a deadlock")]
    Deadlock(PrintStrategy),
}

/// Runs the flood.
///
/// # Errors
///
/// [`Failure`].
pub fn run(plan: &FloodPlan<'_>, strategy: PrintStrategy) -> Result<FloodOutcome, Failure> {
    run_with(plan, strategy, Looks::Together)
}

/// Simulation of a waiting CPU's polls of the line status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// Polls with the same result are one step.
    Together,
    /// Each poll is a step, as a reference for the combined steps.
    #[cfg(test)]
    OneByOne,
}

fn run_with(
    plan: &FloodPlan<'_>,
    strategy: PrintStrategy,
    looks: Looks,
) -> Result<FloodOutcome, Failure> {
    let machine = ModelMachine::new(plan.cpus);
    let bus = ModelPort::new(&machine, plan.profile);
    let line = LineSettings::baud(plan.rate);
    let settings = ConsoleSettings {
        // Not probed.
        model: Some(Model::Uart16550A),
        ..ConsoleSettings::from(line)
    };
    let mut console = Console::open(&bus, &machine, settings).map_err(Failure::Open)?;
    console.set_strategy(strategy.uart());
    let is_inline = matches!(
        strategy,
        PrintStrategy::PrintInline | PrintStrategy::FifoInline
    );
    // A waiting write polls evenly at first. An offer returns at its own times.
    if looks == Looks::Together && is_inline {
        bus.polled_evenly(EVEN_LOOKS);
    }
    let serial = UartSink::new(console);
    let mut memory = Vec::new();
    let ring = ring_in(&mut memory);
    let ran = match strategy {
        PrintStrategy::Bounded => ModelRun::of(plan, &machine, ring, &Bounded::new(ring, serial)),
        PrintStrategy::PrinterThread => {
            ModelRun::of(plan, &machine, ring, &PrinterThread::new(ring, serial))
        }
        PrintStrategy::PrintInline | PrintStrategy::FifoInline => {
            ModelRun::of(plan, &machine, ring, &Inline::new(ring, serial))
        }
    };
    let ran = ran.ok_or(Failure::Deadlock(strategy))?;
    let wire = bus.into_wire();
    let cpus = ran.cpus.iter().zip(machine.given_away());
    let records = FloodRecords {
        start: START,
        end: machine.now(),
        lost: ran.lost,
        panic: plan.panic_at.map(|at| START + at),
        cpus: cpus
            .map(|(cpu, given_away)| CpuOutcome {
                given_away,
                ticks: cpu.ticks(),
                missed: cpu.missed(),
            })
            .collect(),
        holds: ran.holds,
        fired: ran.fired,
        delays: ran.delays,
    };
    Ok(FloodOutcome::of(
        plan,
        strategy,
        records,
        &ran.logged,
        &wire,
    ))
}

/// Makes a ring with `SLOTS` slots in `memory`, because a thread's stack may be too small for it.
fn ring_in(memory: &mut Vec<u8>) -> &Ring {
    type Whole = Ring<[Slot; SLOTS]>;
    memory.resize(size_of::<Whole>() + align_of::<Whole>() - 1, 0);
    Ring::in_memory(memory).expect("memory for all slots")
}

/// Records of the run when the machine has stopped.
struct ModelRun {
    logged: Logged,
    holds: Vec<(usize, Hold)>,
    fired: Vec<(usize, Fired)>,
    cpus: Vec<PerCpu>,
    delays: Vec<Nanos>,
    lost: u64,
}

impl ModelRun {
    /// Returns `None` for a deadlock.
    fn of(
        plan: &FloodPlan<'_>,
        machine: &ModelMachine,
        ring: &Ring,
        path: &impl Path,
    ) -> Option<Self> {
        machine.wait_until(START);
        let cpus: Vec<_> = (0..plan.cpus).map(|_| PerCpu::new()).collect();
        // The panic kept the line from being logged, so there is no delay.
        let delays: Vec<_> = Lines::new(plan.log)
            .map(|_| AtomicU64::new(u64::MAX))
            .collect();
        let program = Flooded {
            flood: Flood::new(path, plan.log, START, &cpus, &delays),
            ring,
            logged: RefCell::new(Logged::new()),
            holds: RefCell::default(),
            fired: RefCell::default(),
        };
        let last = plan.cpus - 1;
        let panic_at = plan.panic_at.map(|at| (last, START + at));
        machine.run(&program, panic_at).ok()?;
        let Flooded {
            logged,
            holds,
            fired,
            ..
        } = program;
        let mut delays: Vec<_> = delays
            .into_iter()
            .map(|delay| Nanos(delay.into_inner()))
            .filter(|&delay| delay != Nanos(u64::MAX))
            .collect();
        delays.sort_unstable();
        Some(Self {
            logged: logged.into_inner(),
            holds: holds.into_inner(),
            fired: fired.into_inner(),
            cpus,
            delays,
            lost: path.lost(),
        })
    }
}

/// A flood on the machine, and its observer.
struct Flooded<'a, P> {
    flood: Flood<'a, P>,
    ring: &'a Ring,
    logged: RefCell<Logged>,
    holds: RefCell<Vec<(usize, Hold)>>,
    fired: RefCell<Vec<(usize, Fired)>>,
}

/// A program that observes the console on its CPUs.
trait Observer: Program {
    /// Handles [`Cpu::stored`].
    fn stored(&self);

    /// Handles [`Cpu::held`] of the CPU with this number.
    fn held(&self, cpu: usize, hold: Hold);
}

/// A CPU of the model, with the experiment's observer.
struct ObservedCpu<'a, 'm, P>(&'a ModelCpu<'m, P>);

impl<P: Observer> Clock for ObservedCpu<'_, '_, P> {
    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }

    fn sleep_until(&self, deadline: Nanos) {
        self.0.sleep_until(deadline);
    }
}

impl<P: Observer> Processor for ObservedCpu<'_, '_, P> {
    fn id(&self) -> usize {
        self.0.id()
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        self.0.without_interrupts(critical)
    }
}

impl<P: Observer> Cpu for ObservedCpu<'_, '_, P> {
    fn spin_while(&self, condition: impl Fn() -> bool) {
        self.0.spin_while(condition);
    }

    fn signal(&self) {
        self.0.signal();
    }

    fn call_at(&self, at: Nanos) {
        self.0.set_timer(at);
    }

    fn stop_others(&self) {
        self.0.stop_others();
    }

    fn stored(&self) {
        self.0.program().stored();
    }

    fn held(&self, hold: Hold) {
        self.0.program().held(self.id(), hold);
    }
}

impl<P: Path> Program for Flooded<'_, P> {
    fn run(&self, cpu: &ModelCpu<'_, Self>) {
        self.flood.run(&ObservedCpu(cpu));
        // The machine ends it.
        self.flood.sleep_until(&ObservedCpu(cpu), Nanos(u64::MAX));
    }

    fn tick(&self, cpu: &ModelCpu<'_, Self>, missed: u64) {
        self.flood.tick(&ObservedCpu(cpu), missed, |fired| {
            self.fired.borrow_mut().push((cpu.id(), fired));
        });
    }

    fn timer(&self, cpu: &ModelCpu<'_, Self>) {
        self.flood.timer(&ObservedCpu(cpu));
    }

    fn panic(&self, cpu: &ModelCpu<'_, Self>) {
        self.flood.panic(&ObservedCpu(cpu));
    }

    fn is_over(&self) -> bool {
        self.flood.is_over()
    }
}

impl<P: Path> Observer for Flooded<'_, P> {
    fn stored(&self) {
        self.logged.borrow_mut().note(self.ring);
    }

    fn held(&self, cpu: usize, hold: Hold) {
        self.holds.borrow_mut().push((cpu, hold));
    }
}

#[cfg(test)]
mod tests {
    use nostall_devices::uart::Profile;

    use super::*;
    use nostall_console::{Level, Meta, Priority};
    use nostall_devices::uart::{Controller, Line};
    use nostall_work::console::Context;
    use std::cell::Cell;

    /// CPU 0 logs, promises to come back, and hangs with interrupts masked. CPU 1 logs an
    /// emergency after that, and nothing more.
    struct Hung<'a, P> {
        path: &'a P,
        is_over: Cell<bool>,
    }

    const HANGS: Nanos = Nanos::from_secs(1);
    const LOGGED: Nanos = Nanos::from_micros(1_500);

    impl<P: Path> Program for Hung<'_, P> {
        fn run(&self, cpu: &ModelCpu<'_, Self>) {
            let cpu = &ObservedCpu(cpu);
            let meta = |priority| Meta {
                time: cpu.now(),
                cpu: cpu.id() as u16,
                level: Level::Info,
                priority,
                target: "",
            };
            if cpu.id() == 0 {
                for _ in 0..4 {
                    let meta = meta(Priority::Normal);
                    self.path.log(cpu, Context::Task, &meta, b"backlog");
                }
                cpu.without_interrupts(|| cpu.wait_until(HANGS));
            } else {
                cpu.sleep_until(LOGGED);
                let meta = meta(Priority::Emergency);
                self.path.log(cpu, Context::Interrupt, &meta, b"urgent");
                cpu.sleep_until(HANGS / 2);
                self.is_over.set(true);
            }
        }

        fn tick(&self, _: &ModelCpu<'_, Self>, _: u64) {}

        fn timer(&self, cpu: &ModelCpu<'_, Self>) {
            self.path.timer(&ObservedCpu(cpu));
        }

        fn panic(&self, _: &ModelCpu<'_, Self>) {}

        fn is_over(&self) -> bool {
            self.is_over.get()
        }
    }

    impl<P: Path> Observer for Hung<'_, P> {
        fn stored(&self) {}

        fn held(&self, _: usize, _: Hold) {}
    }

    #[test]
    fn an_emergency_is_sent_although_the_cpu_that_has_the_timer_hangs() {
        let machine = ModelMachine::new(2);
        let bus = ModelPort::new(&machine, Profile::PC_16550A);
        let settings = ConsoleSettings {
            model: Some(Model::Uart16550A),
            ..ConsoleSettings::from(LineSettings::baud(115_200))
        };
        let console = Console::open(&bus, &machine, settings).unwrap();
        let mut memory = Vec::new();
        let ring = ring_in(&mut memory);
        machine.wait_until(START);
        let path = Bounded::new(ring, UartSink::new(console));
        let program = Hung {
            path: &path,
            is_over: Cell::new(false),
        };
        machine.run(&program, None).unwrap();
        assert!(path.is_idle());
        let wire = bus.into_wire();
        let text = String::from_utf8(wire.bytes).unwrap();
        let end = text.find("urgent\r\n").expect(&text);
        // The FIFO before, CPU 0's time to come back, and two FIFOs.
        let bound = LOGGED + Nanos::from_millis(10) + Nanos(86_806) * (3 * 17);
        assert!(wire.times[end] <= bound, "{}", wire.times[end]);
    }

    #[test]
    fn looks_that_are_taken_together_change_nothing() {
        let lines = (0..60).map(|n| format!("[0.{:03}] {n} {}\n", n * 3, "x".repeat(n)));
        let log = lines.collect::<String>().into_bytes();
        // Behind a full buffer a byte takes so long that each wait reaches its bound.
        let stuck = Profile {
            line: Line::Controller(Controller {
                latency: Nanos::ZERO,
                per_byte: Nanos::ZERO,
                buffer: 200,
                drain: Nanos::from_millis(1_123),
            }),
            ..Profile::HP_DL380_GEN9
        };
        for profile in [Profile::PC_16550A, Profile::HP_DL380_GEN9, stuck] {
            for strategy in [PrintStrategy::PrintInline, PrintStrategy::FifoInline] {
                for (cpus, panic_at) in [(1, None), (3, None), (3, Some(Nanos(123_456_789)))] {
                    let plan = FloodPlan {
                        log: &log,
                        profile,
                        rate: 115_200,
                        cpus,
                        panic_at,
                    };
                    let ran = |looks| run_with(&plan, strategy, looks).unwrap();
                    let (one, other) = (ran(Looks::OneByOne), ran(Looks::Together));
                    let name = profile.line;
                    assert_eq!(
                        format!("{one:?}"),
                        format!("{other:?}"),
                        "{name:?} {strategy}"
                    );
                }
            }
        }
    }
}
