//! A minimal kernel with a console that never holds the CPU: the one to copy.
//!
//! It logs from tasks and from an interrupt handler, echoes input, and panics cleanly. The
//! README walks through the files.

#![no_std]
#![no_main]

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU64, Ordering};

use nostall_console::{Clock, Kernel, Level, LineSettings, Nanos, Ring, Slot, SystemConsole};

/// 256 KiB of zeros, which take no room in the kernel's file.
static RING: Ring<[Slot; 2340]> = Ring::new();
static CONSOLE: SystemConsole<arch::Port, Services> = SystemConsole::new(&RING, Services);

/// The kernel's services for the console.
#[derive(Clone, Copy)]
struct Services;

impl Clock for Services {
    fn now(&self) -> Nanos {
        arch::CLOCK.now()
    }
}

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        0 // this kernel starts no other CPU
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        arch::without_interrupts(critical)
    }

    fn set_timer(&self, at: Nanos) {
        CONSOLE_TIME.store(at.0, Ordering::Relaxed);
        arm_timer();
    }
}

macro_rules! log {
    ($level:ident, $($text:tt)*) => {
        CONSOLE.log(Level::$level, "kernel", format_args!($($text)*))
    };
}

/// Time at which the console needs the timer.
static CONSOLE_TIME: AtomicU64 = AtomicU64::new(u64::MAX);
/// Time of the kernel's next tick.
static TICK_TIME: AtomicU64 = AtomicU64::new(0);

/// Called by the boot code, once, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn kernel_main(_hart: usize, device_tree: usize) -> ! {
    log!(Info, "no port and no clock yet: this waits in the ring");
    arch::start_clock(device_tree);
    arch::start_interrupts();
    if let Err(error) = CONSOLE.open(arch::PORT, LineSettings::baud(115_200)) {
        log!(Error, "serial port: {error}"); // in the ring, for a debugger
    }
    log!(Info, "ready: type; ! panics, Ctrl-D ends");
    loop {
        match CONSOLE.receive() {
            Some(b'!') => panic!("as requested"),
            Some(b'\x04') => {
                log!(Info, "the end");
                CONSOLE.settle(Nanos::from_secs(1));
                arch::power_off(true);
            }
            Some(b'\r') => _ = CONSOLE.write(b"\n"),
            Some(byte) => _ = CONSOLE.write(&[byte]),
            None => arch::enable_and_hlt(), // until an interrupt
        }
        arch::disable(); // no input comes between the next look and the sleep
    }
}

/// Handles the timer's interrupt.
fn on_timer() {
    let _in_timer = CONSOLE.on_timer(); // when it is dropped, the console sends
    let now = arch::CLOCK.now();
    if now.0 >= CONSOLE_TIME.load(Ordering::Relaxed) {
        CONSOLE_TIME.store(u64::MAX, Ordering::Relaxed);
    }
    if now.0 >= TICK_TIME.load(Ordering::Relaxed) {
        TICK_TIME.store((now + Nanos::from_secs(10)).0, Ordering::Relaxed);
        log!(Info, "a tick, in an interrupt handler");
    }
    arm_timer();
}

/// Sets the one-shot timer for the console or the tick. With interrupts masked.
fn arm_timer() {
    let [console, tick] = [&CONSOLE_TIME, &TICK_TIME].map(|time| time.load(Ordering::Relaxed));
    arch::set_timer(Nanos(console.min(tick)));
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    arch::disable();
    CONSOLE.panic(format_args!("{info}"));
    loop {
        arch::power_off(false);
    }
}
