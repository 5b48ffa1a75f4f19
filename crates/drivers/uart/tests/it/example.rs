//! The console that kernels copy, in the cases in which a lock around `print` would deadlock.

#![allow(clippy::duplicate_mod)] // each case has a copy of its own

#[path = "../../examples/console/console.rs"]
mod broken;
#[allow(dead_code)]
#[path = "../../examples/console/console.rs"]
mod display;
#[allow(dead_code)]
#[path = "../../examples/console/console.rs"]
mod handler;
#[path = "../../examples/console/console.rs"]
mod panics;

use std::fmt;
use std::io::{self, Write};
use std::panic::catch_unwind;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nostall_devices::uart::{Line, Uart};
use nostall_io::{Clock as _, HostClock, Nanos, Registers};
use nostall_uart::OpenError;
use nostall_uart::registers::THR;

/// Ends a deadlock.
const HANG_LIMIT: Duration = Duration::from_secs(300);

type Clock = HostClock;

/// The bytes that have arrived at the other end of the line.
static ARRIVED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A function that runs in the middle of the next load to the transmitter, like an interrupt or a
/// fault.
static INTERRUPT: Mutex<Option<fn()>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Arrivals;

impl Write for Arrivals {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&ARRIVED).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Port(Mutex<Uart<HostClock, Arrivals>>);

impl Registers for Port {
    fn read8(&self, offset: usize) -> u8 {
        lock(&self.0).read(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        lock(&self.0).write(offset, value);
        // Runs it in the middle of a text: the set-up writes no letters.
        if offset == THR && value.is_ascii_lowercase() {
            let interrupt = lock(&INTERRUPT).take();
            interrupt.into_iter().for_each(|handler| handler());
        }
    }
}

/// Returns the bytes that arrive during `act`, and those that arrive later. The cases share the
/// other end of the port, so they run one after the other.
fn arrives(
    open: fn(Port, Clock) -> Result<(), OpenError>,
    poll: fn() -> Option<Nanos>,
    act: impl FnOnce() + Send + 'static,
) -> String {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = lock(&ONE);
    let (done, is_done) = channel();
    thread::spawn(move || {
        let clock = HostClock::new();
        let model = Uart::new(clock, Line::AtOnce, Arrivals);
        open(Port(Mutex::new(model)), clock).unwrap();
        lock(&ARRIVED).clear();
        act();
        while let Some(time) = poll() {
            clock.sleep_until(time);
        }
        let _ = done.send(());
    });
    let ended = is_done.recv_timeout(HANG_LIMIT);
    assert!(ended.is_ok(), "it deadlocks");
    String::from_utf8(lock(&ARRIVED).clone()).unwrap()
}

#[test]
fn a_display_that_prints_does_not_deadlock_the_example() {
    use display::print;
    struct Chatty;
    impl fmt::Display for Chatty {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            print(format_args!("the inner line"));
            f.write_str("the outer line")
        }
    }
    let arrived = arrives(display::open, display::poll, || {
        print(format_args!("{Chatty}"))
    });
    for line in ["] the inner line\r\n", "] the outer line\r\n"] {
        assert_eq!(arrived.matches(line).count(), 1, "{arrived}");
    }
}

#[test]
fn an_interrupt_handler_that_prints_does_not_deadlock_the_example() {
    use handler::print;
    let arrived = arrives(handler::open, handler::poll, || {
        *lock(&INTERRUPT) = Some(|| print(format_args!("of the handler")));
        print(format_args!("of the task"));
    });
    for line in ["] of the task\r\n", "] of the handler\r\n"] {
        assert_eq!(arrived.matches(line).count(), 1, "{arrived}");
    }
}

#[test]
fn a_panic_in_the_middle_of_a_print_does_not_deadlock_the_example() {
    use panics::{panic, print};
    static AT_ONCE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let arrived = arrives(panics::open, panics::poll, || {
        *lock(&INTERRUPT) = Some(|| {
            panic(format_args!("the last words"));
            lock(&AT_ONCE).clone_from(&lock(&ARRIVED));
        });
        print(format_args!("of the task"));
    });
    assert!(arrived.contains("] the last words\r\n"), "{arrived}");
    // A panic handler does not return.
    let at_once = String::from_utf8(lock(&AT_ONCE).clone()).unwrap();
    assert!(at_once.contains("] the last words\r\n"), "{at_once}");
}

#[test]
fn a_display_that_panics_does_not_deadlock_the_example() {
    use broken::{panic, print};
    struct Broken;
    impl fmt::Display for Broken {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("of a Display");
        }
    }
    let arrived = arrives(broken::open, broken::poll, || {
        assert!(catch_unwind(|| print(format_args!("{Broken}"))).is_err());
        panic(format_args!("the last words"));
    });
    assert!(arrived.contains("] the last words\r\n"), "{arrived}");
}
