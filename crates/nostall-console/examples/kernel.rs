//! The console of a kernel, from the ring to the panic. The machine is a model: one CPU and
//! a serial port, in virtual time.
//!
//!     cargo run -p nostall-console --example kernel

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use nostall_console::{
    Drain, FlushLimits, Level, Lockup, Meta, Priority, Ring, SinkOptions, Slot, UartSink, Watchdog,
    flush,
};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, LineSettings};

// ANCHOR: ring
/// 1 MiB of zeros, so it adds nothing to the size of the kernel's file.
static RING: Ring<[Slot; (1 << 20) / size_of::<Slot>()]> = Ring::new();

fn log(clock: &impl Clock, priority: Priority, level: Level, text: fmt::Arguments<'_>) {
    let meta = Meta {
        time: clock.now(),
        cpu: 0, // the current CPU
        level,
        priority,
        target: "",
    };
    RING.format(&meta, text);
}
// ANCHOR_END: ring

// ANCHOR: drain
struct SystemConsole<R, C> {
    serial: Drain<'static, UartSink<R, C>>,
    clock: C,
}

impl<R: Registers, C: Clock> SystemConsole<R, C> {
    /// Sends as much as the port takes now, and sets this CPU's timer for the rest. Pre-emption
    /// is off, so no CPU has the port for longer than a slice.
    fn send(&self, priority: Priority) {
        if let Some(time) = self.serial.drain_bounded(0, priority, &self.clock).time() {
            set_timer(time);
        }
    }

    /// Logs from any task.
    fn log(&self, text: fmt::Arguments<'_>) {
        log(&self.clock, Priority::Normal, Level::Info, text);
        self.send(Priority::Normal);
    }

    /// Handles the timer interrupt. Nothing waits in it.
    fn on_timer(&self) {
        self.send(Priority::Normal);
    }
}
// ANCHOR_END: drain

// ANCHOR: watchdog
static WATCHDOG: Watchdog = Watchdog::new();

impl<R: Registers, C: Clock> SystemConsole<R, C> {
    /// Called by the scheduler after each run.
    fn scheduled(&self) {
        WATCHDOG.touch(self.clock.now());
    }

    /// Handles the tick interrupt. Its report overtakes the backlog, which it leaves to other
    /// callers.
    fn on_tick(&self) {
        let lockup = WATCHDOG.check(self.clock.now(), Watchdog::THRESHOLD);
        if let Some(Lockup { stuck }) = lockup {
            let text = format_args!("BUG: soft lockup - CPU#0 stuck for {stuck}!");
            log(&self.clock, Priority::Emergency, Level::Emergency, text);
            self.send(Priority::Emergency);
        }
    }
}
// ANCHOR_END: watchdog

// ANCHOR: panic
impl<R: Registers, C: Clock> SystemConsole<R, C> {
    /// Handles a panic: the only place that waits for the line.
    fn panic(&self, text: fmt::Arguments<'_>) {
        log(&self.clock, Priority::Panic, Level::Emergency, text);
        // By now the other CPUs are stopped, by an NMI if they mask interrupts.
        let limits = FlushLimits::DEFAULT.total(Nanos::from_secs(5));
        flush(&[&self.serial], 0, &self.clock, limits);
        // The record in persistent memory is written here.
    }
}
// ANCHOR_END: panic

/// The machine's clock: virtual time, with 100 ns for each read.
#[derive(Clone)]
struct MachineClock(VirtualClock);

impl Clock for MachineClock {
    fn now(&self) -> Nanos {
        self.0.advance(Nanos(100));
        self.0.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }
}

static TIMER: AtomicU64 = AtomicU64::new(u64::MAX);

/// Sets this CPU's one-shot timer. An earlier time that is already set stays.
fn set_timer(time: Nanos) {
    TIMER.fetch_min(time.0, Ordering::Relaxed);
}

fn main() -> Result<(), Box<dyn Error>> {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let clock = MachineClock(clock);
    // ANCHOR: sink
    let uart = Console::open(&port, clock.clone(), LineSettings::baud(115_200))?;
    let serial = Drain::new(
        &RING,
        UartSink::new(uart),
        SinkOptions::DEFAULT.progress_slot(0),
    );
    // ANCHOR_END: sink
    let console = SystemConsole {
        serial,
        clock: clock.clone(),
    };

    let mut longest = Nanos::ZERO;
    let mut held = |act: &dyn Fn()| {
        let start = clock.now();
        act();
        longest = longest.max(clock.now() - start);
    };
    console.scheduled();
    for disk in 0..200 {
        held(&|| console.log(format_args!("sd {disk}:0:0:0: Attached SCSI disk")));
    }
    // The CPU idles for a second between its timer's interrupts.
    let end = clock.now() + Nanos::from_secs(1);
    while clock.now() < end {
        let alarm = Nanos(TIMER.swap(u64::MAX, Ordering::Relaxed));
        clock.sleep_until(alarm.min(end));
        held(&|| console.on_timer());
    }
    // Then a task hangs.
    held(&|| console.log(format_args!("sd 200:0:0:0: Attached SCSI disk")));
    clock.wait_until(clock.now() + Nanos::from_secs(21));
    held(&|| console.on_tick());
    assert!(longest < Nanos::from_micros(100), "held for {longest}");
    console.panic(format_args!("Kernel panic: soft lockup"));

    drop(console);
    let sent = String::from_utf8(port.into_sink())?;
    assert_eq!(sent.matches("Attached SCSI disk\r\n").count(), 201);
    assert!(sent.contains("] Kernel panic: soft lockup\r\n"));
    print!("{sent}");
    println!("The CPU was held for {longest} at most.");
    Ok(())
}
