//! A console that several CPUs use, one of which may die holding it.

use nostall_io::{Clock, Nanos, Processor, Registers};
use spin::Mutex;

use crate::{Console, Strategy, WriteReport};

/// How long a crash waits for whoever has the console: long enough for a line to
/// be finished at 9,600 baud.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// A console behind a lock, with a way past it for a crash.
///
/// Only on targets with an atomic exchange.
///
/// ```
/// # use nostall_devices::uart::{Profile, Uart};
/// # use nostall_io::Processor;
/// use nostall_uart::{Console, LineSettings, Shared};
/// # struct Cpu;
/// # impl Processor for Cpu {
/// #     fn id(&self) -> usize { 0 }
/// #     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T { critical() }
/// # }
/// # let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
/// let console = Console::open(&port, &clock, LineSettings::baud(115_200))?;
/// let shared = Shared::new(console, Cpu);
/// assert!(shared.write(b"as ever\n").is_complete());
/// assert!(shared.write_in_crash(b"last words\n").is_complete());
/// # Ok::<(), nostall_uart::OpenError>(())
/// ```
#[derive(Debug)]
pub struct Shared<R, C, P> {
    console: Mutex<Console<R, C>>,
    /// The same port once more, for when the other is never given back.
    spare: Mutex<Console<R, C>>,
    processor: P,
}

impl<R: Registers + Clone, C: Clock + Clone, P: Processor> Shared<R, C, P> {
    /// Shares `console`.
    pub fn new(console: Console<R, C>, processor: P) -> Self {
        Self {
            spare: Mutex::new(console.clone()),
            console: Mutex::new(console),
            processor,
        }
    }

    /// Writes when the console is free; interrupts on this CPU are masked
    /// meanwhile. Never to be called from an NMI or a crash.
    pub fn write(&self, text: &[u8]) -> WriteReport {
        self.processor
            .without_interrupts(|| self.console.lock().write(text))
    }

    /// Writes for a crash: waits a tenth of a second at most for the console, and
    /// then writes all the same. A line that another CPU was writing may be cut by
    /// it. Of two crashes at once, one may lose its words; the report says so.
    pub fn write_in_crash(&self, text: &[u8]) -> WriteReport {
        self.processor.without_interrupts(|| {
            let mut spare = match self.spare.try_lock() {
                Some(spare) => spare,
                None => {
                    return WriteReport {
                        dropped: text.len(),
                        ..WriteReport::default()
                    };
                }
            };
            let deadline = spare.clock().now() + PATIENCE;
            loop {
                if let Some(mut console) = self.console.try_lock() {
                    // Nobody may be there to give the CPU to.
                    console.set_strategy(Strategy::FifoBurst);
                    return console.write(text);
                }
                let now = spare.clock().now();
                if now >= deadline {
                    spare.set_strategy(Strategy::FifoBurst);
                    return spare.write(text);
                }
                spare.clock().wait_until(now + Nanos::from_micros(10));
            }
        })
    }

    /// Changes the console's settings of use, such as its strategy.
    pub fn with<T>(&self, change: impl FnOnce(&mut Console<R, C>) -> T) -> T {
        self.processor
            .without_interrupts(|| change(&mut self.console.lock()))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::LineSettings;
    use nostall_devices::uart::{Profile, Uart};
    use std::vec::Vec;

    struct Cpu;

    impl Processor for Cpu {
        fn id(&self) -> usize {
            0
        }
        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            critical()
        }
    }

    #[test]
    fn a_crash_gets_through_although_the_console_is_never_given_back() {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
        let shared = Shared::new(console, Cpu);
        let held = shared.console.lock();
        let start = clock.now();
        assert!(shared.write_in_crash(b"last words\n").is_complete());
        let took = clock.now() - start;
        assert!(
            took >= PATIENCE && took < PATIENCE + Nanos::from_millis(5),
            "{took}"
        );
        drop(held);
        assert!(shared.write_in_crash(b"and more\n").is_complete());
        assert_eq!(port.into_sink(), b"last words\r\nand more\r\n");
    }

    #[test]
    fn of_two_crashes_at_once_the_second_is_told_that_it_was_lost() {
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
        let shared = Shared::new(console, Cpu);
        let _first = shared.spare.lock();
        assert_eq!(shared.write_in_crash(b"last words").dropped, 10);
    }
}
