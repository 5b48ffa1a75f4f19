//! The code of the book's chapter on existing kernels, for a PC. The functions of module `kernel`
//! stand for the kernel's own.
//!
//!     cargo run -p nostall-console --features log --example adopt

#[cfg(target_arch = "x86_64")]
mod kernel {
    pub fn cpu_number() -> u16 {
        0
    }
    pub fn without_interrupts<T>(critical: impl FnOnce() -> T) -> T {
        critical()
    }
    pub fn timers_exist() -> bool {
        false
    }
    pub fn arm_timer_of_this_cpu(_at: nostall_console::Nanos) {}
    pub fn next_timer() {}
    pub fn reschedule() {}
    pub fn wake_reader() {}
    pub fn power_off() -> ! {
        std::process::exit(0)
    }
}

#[cfg(target_arch = "x86_64")]
mod adopted {
    use core::panic::PanicInfo;

    use nostall_console::{
        Clock, Kernel, LineSettings, Nanos, OpenError, Ports, Ring, SinkOptions,
    };
    use nostall_console::{Slot, SystemConsole, Tsc, write_time_cpu_level};

    use crate::kernel::{
        arm_timer_of_this_cpu, cpu_number, next_timer, power_off, reschedule, timers_exist,
        wake_reader, without_interrupts,
    };

    // ANCHOR: statics
    static RING: Ring<[Slot; 2340]> = Ring::new();
    static SERIAL: SystemConsole<Ports, Cpu> = SystemConsole::new(&RING, Cpu).with_options(OPTIONS);
    const OPTIONS: SinkOptions = SinkOptions::DEFAULT.prefix(write_time_cpu_level);
    static TSC: Tsc = Tsc::new();

    #[derive(Clone)]
    struct Cpu;

    impl Clock for Cpu {
        fn now(&self) -> Nanos {
            TSC.now()
        }
    }

    impl Kernel for Cpu {
        fn cpu(&self) -> u16 {
            cpu_number()
        }

        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            without_interrupts(critical) // the kernel's own
        }
        fn set_timer(&self, at: Nanos) {
            if timers_exist() {
                arm_timer_of_this_cpu(at);
            }
        }
        fn input_ready(&self) {
            wake_reader();
        }
    }
    // ANCHOR_END: statics

    // ANCHOR: open
    /// Replaces the call that set up the old driver.
    pub fn open() -> Result<(), OpenError> {
        // SAFETY: a PC's first serial port, which no other code uses.
        let port = unsafe { Ports::new(0x3f8, 8) };
        SERIAL.open(port, LineSettings::baud(115_200))
    }

    /// Called when the kernel has measured the counter.
    pub fn clock_is_measured(hertz: u64) {
        TSC.set_rate(hertz);
    }
    // ANCHOR_END: open

    // ANCHOR: timer
    pub fn timer_handler() {
        let in_timer = SERIAL.on_timer();
        next_timer(); // the handler's own work, which may log
        drop(in_timer); // sends
        reschedule();
    }
    // ANCHOR_END: timer

    // ANCHOR: port
    pub fn serial_handler() {
        SERIAL.on_interrupt();
    }

    pub fn read(buf: &mut [u8]) -> usize {
        SERIAL.read(buf)
    }
    // ANCHOR_END: port

    // ANCHOR: output
    pub fn write(text: &[u8]) -> usize {
        SERIAL.write_all(text, Nanos::from_secs(1));
        text.len()
    }
    // ANCHOR_END: output

    // ANCHOR: log
    /// The last step of the kernel's own logger.
    pub fn forward(record: &log::Record<'_>) {
        SERIAL.log(record.level().into(), record.target(), *record.args());
    }
    // ANCHOR_END: log

    // ANCHOR: panic
    /// The kernel's panic handler calls this.
    pub fn panicked(info: &PanicInfo<'_>) -> ! {
        SERIAL.panic(format_args!("{info}"));
        shutdown()
    }

    pub fn shutdown() -> ! {
        SERIAL.settle(Nanos::from_secs(60)); // 256 KiB take 23 s at 115,200 baud
        power_off()
    }
    // ANCHOR_END: panic

    pub fn records() -> u64 {
        RING.newest()
    }
}

/// A process may not use the port, so it stays closed: records wait in the ring.
#[cfg(target_arch = "x86_64")]
fn main() {
    use adopted::*;

    let _ = (open, panicked); // for kernels only
    clock_is_measured(3_000_000_000);
    let record = |text| log::Record::builder().args(text).build();
    forward(&record(format_args!("a record")));
    timer_handler();
    serial_handler();
    assert_eq!(read(&mut [0; 4]), 0);
    assert_eq!(write(b"output\n"), 7);
    assert_eq!(records(), 2);
    shutdown();
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {}
