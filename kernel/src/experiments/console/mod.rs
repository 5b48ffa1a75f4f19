//! A flood of messages to the serial port, logged by all CPUs.

mod any_path;
mod cpu;
mod outcome;
mod state;

use core::sync::atomic::Ordering;

use nostall_console::UartSink;
use nostall_io::{Clock, Nanos, Processor};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model};
use nostall_work::console::{FIRST_WORDS, Flood, Job, Path, Throttle};
use nostall_work::{Event, text};
use spin::Once;

use crate::arch::{self, MachineClock};
use crate::cpu::{Due, Handlers, leave, set_handlers, take_part};
use crate::death::{die, leave_record};
use crate::other_cpus;
use any_path::AnyPath;
use cpu::{TICK, ThisCpu};
use state::{Port, STATE};

/// Time until the first line. By then, all CPUs run their errands.
const BEFORE: Nanos = Nanos::from_millis(100);

/// More than the time in which a CPU notices the end of the flood.
const BOUND: Nanos = Nanos::from_secs(10);

static PORT: Once<Port> = Once::new();
static PATH: Once<AnyPath> = Once::new();

/// The running flood. Interrupt handlers take part in it.
static RUNNING: Once<Experiment> = Once::new();

/// A flood and its setting.
struct Experiment {
    flood: Flood<'static, AnyPath>,
    path: &'static AnyPath,
    setting: Setting,
}

/// Settings that do not depend on the path.
#[derive(Clone, Copy)]
struct Setting {
    port: &'static Port,
    clock: MachineClock,
    item: u16,
    cpus: u16,
    start: Nanos,
    panic_at: Option<Nanos>,
}

/// Runs the job, number `item` of the list. Works once per boot, because the memory is static.
pub fn run(job: Job, item: u16, cpus: u16, log: &'static [u8], clock: &MachineClock) {
    assert!(RUNNING.get().is_none(), "console: once a boot");
    // Marks a line that is not logged. Set here, so that the array needs no room in the image.
    for delay in &STATE.delays {
        delay.store(u64::MAX, Ordering::Relaxed);
    }
    let clock = *clock;
    let line = LineSettings::baud(job.rate);
    let (port, frame) = (arch::serial_port(), line.frame_time());
    let port = PORT.call_once(|| Throttle::new(port, clock, job.profile, frame, &STATE.arrivals));
    let settings = ConsoleSettings {
        // Known, so nothing needs to be detected.
        model: Some(Model::Uart16550A),
        ..ConsoleSettings::from(line)
    };
    let mut console = match Console::open(port, clock, settings) {
        Ok(console) => console,
        Err(error) => panic!("serial port: {error}"),
    };
    console.set_strategy(job.strategy.uart());
    let serial = UartSink::new(console);
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
    let path = PATH.call_once(|| AnyPath::new(job.strategy, serial));
    let running = RUNNING.call_once(|| Experiment::new(path, log, job.speedup, setting));
    set_handlers(Handlers {
        timer: on_timer,
        call: on_call,
    });
    running.run();
}

impl Experiment {
    fn new(path: &'static AnyPath, log: &'static [u8], speedup: u32, setting: Setting) -> Self {
        let cpus = &STATE.cpus[..setting.cpus.into()];
        let flood = Flood::new(path, log, setting.start, cpus, &STATE.delays).with_speedup(speedup);
        Self {
            flood,
            path,
            setting,
        }
    }
}

/// Handles a timer interrupt of a CPU of the flood.
fn on_timer(due: &Due) {
    if let Some(running) = RUNNING.get() {
        running.on_timer(due);
    }
}

/// Handles an interrupt from another CPU. With an NMI it arrives even if interrupts are masked.
fn on_call() {
    if STATE.stopping.load(Ordering::Acquire) {
        STATE.stopped.fetch_add(1, Ordering::AcqRel);
        arch::hang();
    }
    if let Some(running) = RUNNING.get() {
        running.on_call();
    }
}

impl Experiment {
    fn run(&self) {
        let errand = |cpu: usize| {
            let this = ThisCpu::new(&self.setting.clock, self.setting.cpus);
            // Not all at once, as on Linux.
            let phase = TICK * (cpu as u64 + 1) / u64::from(self.setting.cpus);
            take_part(self.setting.start + phase, TICK);
            self.setting.clock.wait_until(self.setting.start);
            self.flood.run(&this);
            // A panic comes even if everything was sent before.
            while self.setting.panic_at.is_some() || !self.flood.is_over() {
                self.flood.sleep_until(&this, this.now() + TICK);
            }
            leave();
        };
        other_cpus::together(self.setting.cpus, &errand, &self.setting.clock, BOUND);
        self.tell(None);
    }

    fn on_timer(&self, due: &Due) {
        let this = ThisCpu::new(&self.setting.clock, self.setting.cpus);
        this.handle(|| {
            self.panic_if_due(&this);
            if let Some(missed) = due.tick {
                self.flood.tick(&this, missed, |fired| {
                    STATE.keep_fired(this.id(), fired);
                });
            }
            if due.alarm {
                self.flood.timer(&this);
            }
        });
    }

    fn on_call(&self) {
        let this = ThisCpu::new(&self.setting.clock, self.setting.cpus);
        if let Some(result) = STATE.told_to_panic()
            && this.id() + 1 == usize::from(self.setting.cpus)
        {
            self.panic(&this, result);
        }
    }

    /// Starts the panic of the last CPU if it is due. Another CPU interrupts it, so that it panics
    /// in any state.
    fn panic_if_due(&self, this: &ThisCpu<'_>) {
        let now = self.setting.clock.now();
        let is_due = self.setting.panic_at.is_some_and(|at| now >= at);
        let is_last = this.id() + 1 == usize::from(self.setting.cpus);
        if !is_due || (is_last && self.setting.cpus > 1) || !STATE.tell_to_panic(now) {
            return;
        }
        if is_last {
            self.panic(this, now);
        }
        arch::call_others();
    }

    /// Panics after the request at `at`, which may be long ago if interrupts were masked.
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
        // All bytes arrive first.
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
