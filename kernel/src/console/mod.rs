//! A flood of messages on the serial port, logged by all CPUs.

mod cpu;
mod outcome;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_uart::{Console, LineSettings, Model, Settings};
use nostall_work::console::{
    Bounded, FIRST_WORDS, Fired, Flood, Inline, Job, Path, PerCpu, Serial, Strategy, Throttle,
};
use nostall_work::{Event, text};
use spin::Once;

use crate::arch::{self, Cpu, MAX_CPUS, MachineClock, SerialPort};
use crate::{crew, die, leave_record, log};
use cpu::{TICK, TIMERS, ThisCpu};

/// Until the first line: all CPUs have found their errand by then.
const BEFORE: Nanos = Nanos::from_millis(100);

/// Longer than a CPU takes to see that all is over.
const BOUND: Nanos = Nanos::from_secs(10);

/// Longer than CPUs take to stop, if they are not stopped themselves. Without an NMI some
/// may take for ever: a panic goes on after this, as on Linux.
const STOP: Nanos = Nanos::from_secs(1);

/// Lines whose delay is kept, and bytes whose arrival is.
const LINES: usize = 16 << 10;
const BYTES: usize = 64 << 10;

static DELAYS: [AtomicU64; LINES] = [const { AtomicU64::new(0) }; LINES];
static ARRIVALS: [AtomicU32; BYTES] = [const { AtomicU32::new(0) }; BYTES];
static CPUS: [PerCpu; MAX_CPUS] = [const { PerCpu::new() }; MAX_CPUS];

type Port = Throttle<'static, SerialPort, MachineClock>;

static PORT: Once<Port> = Once::new();
static INLINE: Once<Inline<'static, &'static Port, MachineClock>> = Once::new();
static BOUNDED: Once<Bounded<'static, &'static Port, MachineClock>> = Once::new();
static INLINE_FLOOD: Once<Experiment<Inline<'static, &'static Port, MachineClock>>> = Once::new();
static BOUNDED_FLOOD: Once<Experiment<Bounded<'static, &'static Port, MachineClock>>> = Once::new();

/// What interrupts are about, while it goes on.
static RUNNING: Once<&'static (dyn Run + Sync)> = Once::new();

/// When the CPU that panics has been told to; [`NOT_YET`] before.
static TOLD: AtomicU64 = AtomicU64::new(NOT_YET);
const NOT_YET: u64 = u64::MAX;

/// A panic stops the others, and how many it has.
static STOPPING: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicUsize = AtomicUsize::new(0);

/// A flood, and all that is to be known of it.
struct Experiment<P: 'static> {
    flood: Flood<'static, P>,
    path: &'static P,
    setting: Setting,
}

/// What is the same whatever the path.
#[derive(Clone, Copy)]
struct Setting {
    port: &'static Port,
    clock: MachineClock,
    item: u16,
    cpus: u16,
    start: Nanos,
    panic_at: Option<Nanos>,
}

/// It, whatever the path.
trait Run {
    fn run(&self);
    fn on_timer(&self);
    fn on_call(&self);
}

/// Does the job, the `item`th of the list. Once: its memory is the kernel's.
pub fn run(job: Job, item: u16, cpus: u16, log: &'static [u8], clock: &MachineClock) {
    assert!(RUNNING.get().is_none(), "console: once a boot");
    // Not logged. Here, so that it takes no room in the image.
    for delay in &DELAYS {
        delay.store(u64::MAX, Ordering::Relaxed);
    }
    let clock = *clock;
    let line = LineSettings::baud(job.rate);
    let (port, frame) = (arch::serial_port(), line.frame_time());
    let port = PORT.call_once(|| Throttle::new(port, clock, job.pace, frame, &ARRIVALS));
    let settings = Settings {
        // Nothing to be found out.
        model: Some(Model::Uart16550A),
        ..Settings::from(line)
    };
    let mut console = match Console::open(port, clock, settings) {
        Ok(console) => console,
        Err(error) => panic!("serial port: {error}"),
    };
    console.set_strategy(job.strategy.uart());
    let serial = Serial::new(console);
    let start = clock.now() + BEFORE;
    let panic_at = job.panic_at.map(|ms| start + Nanos::from_millis(ms.into()));
    let setting = Setting {
        port,
        clock,
        item,
        cpus,
        start,
        panic_at,
    };
    let running: &'static (dyn Run + Sync) = match job.strategy {
        Strategy::Bounded => {
            let path = BOUNDED.call_once(|| Bounded::new(&log::RING, serial));
            BOUNDED_FLOOD.call_once(|| Experiment::new(path, log, job.haste, setting))
        }
        Strategy::PrintInline | Strategy::FifoInline => {
            let path = INLINE.call_once(|| Inline::new(&log::RING, serial));
            INLINE_FLOOD.call_once(|| Experiment::new(path, log, job.haste, setting))
        }
    };
    RUNNING.call_once(|| running);
    running.run();
}

impl<P: Path> Experiment<P> {
    fn new(path: &'static P, log: &'static [u8], haste: u32, setting: Setting) -> Self {
        let cpus = &CPUS[..setting.cpus.into()];
        let flood = Flood::new(path, log, setting.start, cpus, &DELAYS).hasten(haste);
        Self {
            flood,
            path,
            setting,
        }
    }
}

/// This CPU's timer has interrupted it.
pub fn on_timer() {
    if let Some(running) = RUNNING.get() {
        running.on_timer();
    }
}

/// Another CPU has interrupted this one, by what cannot be masked if there is such a thing
/// here. `false`: not because of a flood.
pub fn on_call() -> bool {
    if STOPPING.load(Ordering::Acquire) {
        STOPPED.fetch_add(1, Ordering::AcqRel);
        arch::hang();
    }
    let running = RUNNING.get();
    if let Some(running) = running {
        running.on_call();
    }
    running.is_some()
}

/// `false`: it has been told before.
fn tell_to_panic(now: Nanos) -> bool {
    let told = TOLD.compare_exchange(NOT_YET, now.0, Ordering::AcqRel, Ordering::Relaxed);
    told.is_ok()
}

/// Stops all other CPUs, wherever they are; or those of them that can be interrupted.
fn stop_others(clock: &MachineClock, cpus: u16) {
    STOPPING.store(true, Ordering::Release);
    arch::call_others();
    let deadline = clock.now() + STOP;
    while STOPPED.load(Ordering::Acquire) + 1 < cpus.into() && clock.now() < deadline {
        Cpu.relax();
    }
}

impl<P: Path + Sync> Run for Experiment<P> {
    fn run(&self) {
        let errand = |cpu: usize| {
            let this = ThisCpu::new(&self.setting.clock, self.setting.cpus);
            // Not all at once, as Linux's are not.
            let phase = TICK * (cpu as u64 + 1) / u64::from(self.setting.cpus);
            TIMERS[cpu].start(&self.setting.clock, self.setting.start + phase);
            self.setting.clock.wait_until(self.setting.start);
            self.flood.run(&this);
            // A panic comes even if all has been sent before.
            while self.setting.panic_at.is_some() || !self.flood.is_over() {
                this.sleep_until(this.now() + TICK);
            }
            TIMERS[cpu].stop();
        };
        crew::together(self.setting.cpus, &errand, &self.setting.clock, BOUND);
        self.tell(None);
    }

    fn on_timer(&self) {
        let this = ThisCpu::new(&self.setting.clock, self.setting.cpus);
        let timer = &TIMERS[this.id()];
        if !timer.is_on() {
            return;
        }
        timer.handle(&self.setting.clock, || {
            self.panic_if_due(&this);
            let due = timer.due(self.setting.clock.now());
            if let Some(missed) = due.tick {
                self.flood.tick(&this, missed, |fired: Fired| {
                    outcome::keep_fired(this.id(), fired);
                });
            }
            if due.alarm {
                self.flood.timer(&this);
            }
            timer.set(&self.setting.clock);
        });
    }

    fn on_call(&self) {
        let this = ThisCpu::new(&self.setting.clock, self.setting.cpus);
        let told = TOLD.load(Ordering::Acquire);
        if told != NOT_YET && this.id() + 1 == usize::from(self.setting.cpus) {
            self.panic(&this, Nanos(told));
        }
    }
}

impl<P: Path + Sync> Experiment<P> {
    /// The last CPU panics, in whatever it is doing: told by one of the others.
    fn panic_if_due(&self, this: &ThisCpu<'_>) {
        let now = self.setting.clock.now();
        let is_due = self.setting.panic_at.is_some_and(|at| now >= at);
        let is_last = this.id() + 1 == usize::from(self.setting.cpus);
        if !is_due || (is_last && self.setting.cpus > 1) || !tell_to_panic(now) {
            return;
        }
        if is_last {
            self.panic(this, now);
        }
        arch::call_others();
    }

    /// As it was told to at `at`: where interrupts can be masked that may have been long ago.
    fn panic(&self, this: &ThisCpu<'_>, at: Nanos) -> ! {
        self.flood.panic(this);
        leave_record();
        self.tell(Some(at));
        die(&Event::Panic {
            cpu: this.id() as u16,
            message: text(format_args!("{FIRST_WORDS}")),
        })
    }

    fn tell(&self, panic: Option<Nanos>) {
        // All of it arrives.
        let end = self.setting.clock.now().max(self.setting.port.free_at());
        self.setting.clock.wait_until(end);
        outcome::tell(&outcome::Flooded {
            item: self.setting.item,
            cpus: self.setting.cpus,
            start: self.setting.start,
            end,
            lost: self.path.lost(),
            port: self.setting.port,
            panic,
        });
    }
}
