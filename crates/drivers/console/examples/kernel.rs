//! The console of a kernel, from the ring to the panic. The machine is a model in virtual time with
//! one CPU and a serial port.
//!
//!     cargo run -p nostall-console --example kernel

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use nostall_console::Watchdog;
use nostall_console::{
    Clock, Kernel, Level, LineSettings, Lockup, Nanos, Ring, Slot, SystemConsole,
};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};

// ANCHOR: platform
/// The kernel's services.
#[derive(Clone)]
struct Services(VirtualClock);

impl Clock for Services {
    fn now(&self) -> Nanos {
        self.0.advance(Nanos(100)); // the duration of a clock read
        self.0.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }
}

/// This CPU's one-shot timer.
static TIMER: AtomicU64 = AtomicU64::new(u64::MAX);

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        0 // the only CPU
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical() // the model calls its handlers itself
    }
    fn set_timer(&self, at: Nanos) {
        TIMER.store(at.0, Ordering::Relaxed);
    }
}
// ANCHOR_END: platform

type Console = SystemConsole<&'static VirtualPort<Vec<u8>>, Services>;

// ANCHOR: handlers
/// Handles the timer's interrupt.
fn on_timer(console: &Console) {
    let _in_timer = console.on_timer();
    // The handler's own work. It may log.
}

/// Handles the port's interrupt.
fn on_serial(console: &Console) {
    console.on_interrupt();
    while let Some(byte) = console.receive() {
        console.write(&[byte]); // an echo
    }
}
// ANCHOR_END: handlers

// ANCHOR: watchdog
static WATCHDOG: Watchdog = Watchdog::new();

/// Called by the scheduler after each task switch.
fn scheduled(clock: &impl Clock) {
    WATCHDOG.touch(clock.now());
}

/// Handles the tick interrupt. Its report is sent before the backlog.
fn on_tick(console: &Console, clock: &impl Clock) {
    if let Some(Lockup { stuck }) = WATCHDOG.check(clock.now(), Watchdog::THRESHOLD) {
        let text = format_args!("BUG: soft lockup - CPU#0 stuck for {stuck}!");
        console.emergency("", text);
    }
}
// ANCHOR_END: watchdog

// ANCHOR: ring
/// 1 MiB of zeros, so it adds nothing to the size of the kernel's file.
static RING: Ring<[Slot; (1 << 20) / size_of::<Slot>()]> = Ring::new();
// ANCHOR_END: ring

fn main() -> Result<(), Box<dyn Error>> {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (port, kernel) = (&*Box::leak(Box::new(port)), Services(clock));
    let clock = kernel.clone();
    // ANCHOR: console
    // In a kernel, the ring and the console are each in a `static`.
    let console: &Console = Box::leak(Box::new(SystemConsole::new(&RING, kernel)));
    console.log(Level::Info, "boot", format_args!("the ring has it"));
    console.open(port, LineSettings::baud(115_200))?;
    // ANCHOR_END: console

    let mut longest = Nanos::ZERO;
    let mut held = |act: &dyn Fn()| {
        let start = clock.now();
        act();
        longest = longest.max(clock.now() - start);
    };
    scheduled(&clock);
    for disk in 0..200 {
        let text = format_args!("sd {disk}:0:0:0: Attached SCSI disk");
        held(&|| console.log(Level::Info, "", text));
    }
    // A user types, and the CPU idles for a second between its interrupts.
    port.with(|uart| b"ls\n".iter().for_each(|&byte| uart.receive(byte)));
    held(&|| on_serial(console));
    let end = clock.now() + Nanos::from_secs(1);
    while clock.now() < end {
        let alarm = Nanos(TIMER.swap(u64::MAX, Ordering::Relaxed));
        clock.sleep_until(alarm.min(end));
        held(&|| on_timer(console));
    }
    // Then a task hangs.
    let text = format_args!("sd 200:0:0:0: Attached SCSI disk");
    held(&|| console.log(Level::Info, "", text));
    clock.wait_until(clock.now() + Nanos::from_secs(21));
    held(&|| on_tick(console, &clock));
    assert!(longest < Nanos::from_micros(100), "held for {longest}");
    // ANCHOR: panic
    // In the panic handler.
    console.panic(format_args!("Kernel panic: soft lockup"));
    // The record in persistent memory is written here.
    // ANCHOR_END: panic

    let sent = port.with(|uart| String::from_utf8(uart.sink_mut().clone()))?;
    assert_eq!(sent.matches("Attached SCSI disk\r\n").count(), 201);
    assert!(sent.contains("] Kernel panic: soft lockup\r\n") && sent.contains("\r\nls\r\n"));
    print!("{sent}");
    println!("No call occupied the CPU for longer than {longest}.");
    Ok(())
}
