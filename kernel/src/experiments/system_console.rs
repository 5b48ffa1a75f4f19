//! The kernel's own console, on the port under test.

use nostall_io::Clock;

use spin::Once;

use crate::arch::{self, SerialPort};
use crate::cpu::{self, Due, Handlers, TICK};
use crate::log::{self, CONSOLE};

static PORT: Once<SerialPort> = Once::new();

/// Opens the console, logs a line, and sleeps until this CPU's timer has sent the whole log.
/// The console stays open.
#[inline(never)] // Its locals are not to be on the stack of other work.
pub fn run(clock: &impl Clock) {
    cpu::set_handlers(Handlers {
        timer: on_timer,
        call: || {},
    });
    cpu::take_part(clock.now() + TICK, TICK);
    let port = PORT.call_once(arch::serial_port);
    if let Err(error) = CONSOLE.open(port, arch::line_settings()) {
        panic!("serial port: {error}");
    }
    log::line(format_args!("nothing stalls, {} times", 2 + 2));
    while CONSOLE.drain().unread() > 0 {
        cpu::park(clock.now() + TICK, || None::<()>);
    }
    cpu::leave();
}

/// Handles a timer interrupt.
fn on_timer(due: &Due) {
    if due.alarm {
        drop(CONSOLE.on_timer());
    }
}
