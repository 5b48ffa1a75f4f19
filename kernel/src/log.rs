//! The kernel's log and its console.
//!
//! Records wait in the ring until a job opens the console on the port under test. A crashed
//! kernel leaves the ring in its RAM.

use core::fmt;

use nostall_console::{Kernel, Level, Ring, Slot, SystemConsole};
use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::SLOTS;
use spin::Mutex;

use crate::arch::{Cpu, SerialPort};
use crate::cpu;

/// Maximum number of log bytes to show, the newest ones: as many as fit into a zone of 64 KiB with
/// its headers.
const SHOWN: usize = 63 << 10;

/// Buffer for the shown log. It is too large for a stack.
static SHOWN_HERE: Mutex<[u8; SHOWN]> = Mutex::new([0; SHOWN]);

/// All logged lines. The ring's signature identifies it in the RAM of a crashed machine.
pub static RING: Ring<[Slot; SLOTS]> = Ring::new();

/// The log, standard output and panic path of this kernel.
pub static CONSOLE: SystemConsole<&SerialPort, Services> = SystemConsole::new(&RING, Services);

/// The kernel's services for its console.
#[derive(Clone, Copy)]
pub struct Services;

impl Clock for Services {
    /// Returns an unknown time until the kernel has calibrated its clock.
    fn now(&self) -> Nanos {
        cpu::clock().map_or(Nanos::UNKNOWN, Clock::now)
    }
}

/// Other CPUs run on in a crash: it ends the machine, and several may crash at once.
impl Kernel for Services {
    fn cpu(&self) -> u16 {
        Cpu.id() as u16
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        Cpu.without_interrupts(critical)
    }

    fn set_timer(&self, at: Nanos) {
        cpu::set_alarm(at);
    }
}

/// Logs a line.
pub fn line(text: fmt::Arguments<'_>) {
    CONSOLE.log(Level::Info, "", text);
}

/// Logs the reason of a crash, and prints it if the console is open.
pub fn last_line(text: fmt::Arguments<'_>) {
    CONSOLE.panic(text);
}

/// Passes the time and the newest lines to `look`. Lines are in Linux's form:
/// `[    1.234567] text`.
///
/// Does nothing while another caller uses the buffer.
pub fn with(look: impl FnOnce(Nanos, &[u8])) {
    if let Some(mut room) = SHOWN_HERE.try_lock() {
        let now = cpu::clock().map_or(Nanos::ZERO, Clock::now);
        look(now, RING.tail(&mut *room));
    }
}
