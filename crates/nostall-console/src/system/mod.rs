//! Log ring, drain, serial port, panic path and receive side in one `static`.

mod input;
mod platform;

use core::fmt;

use nostall_io::{Nanos, Registers, Timeout};
use nostall_uart::{Console, ConsoleSettings, OpenError};

use crate::drain::LONGEST_STEP;
use crate::sync::{STILL, spin_loop};
use crate::{
    Drain, FlushLimits, FlushReport, Level, Meta, Next, Priority, Ring, Sink, SinkOptions,
    UartSink, flush,
};

use input::Input;
pub use platform::Platform;

/// The console of a kernel, in a `static`: log, standard output, receive, panic.
///
/// The kernel supplies a [`Platform`]: a clock, the CPU's number, "arm this CPU's timer", "stop
/// the other CPUs". `R` reaches the port's registers.
///
/// ```
/// use nostall_console::{Level, Platform, Ring, Slot, SystemConsole};
/// use nostall_io::{Clock, Nanos, Processor};
/// use nostall_uart::{LineSettings, OpenError};
///
/// /// The kernel's services.
/// #[derive(Clone, Copy)]
/// struct Kernel;
///
/// impl Clock for Kernel {
///     fn now(&self) -> Nanos {
///         # Nanos::UNKNOWN /*
///         TSC.now()
///         # */
///     }
/// }
///
/// impl Processor for Kernel {
///     fn id(&self) -> usize {
///         0
///     }
///     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
///         critical() // between `cli` and the old flag
///     }
/// }
///
/// impl Platform for Kernel {
///     fn set_timer(&self, at: Nanos) {
///         // this CPU's one-shot timer
///     }
///     fn stop_other_cpus(&self) {
///         // an NMI to each
///     }
/// }
/// # type Ports = nostall_io::Mmio;
///
/// static RING: Ring<[Slot; 2340]> = Ring::new(); // 256 KiB of zeros
/// static CONSOLE: SystemConsole<Ports, Kernel> = SystemConsole::new(&RING, Kernel);
///
/// fn start(port: Ports) -> Result<(), OpenError> {
///     CONSOLE.log(Level::Info, "boot", format_args!("waits in the ring"));
///     CONSOLE.open(port, LineSettings::baud(115_200))
/// }
///
/// fn timer_handler() {
///     let _in_timer = CONSOLE.timer_interrupt();
///     // the handler's own work
/// }
///
/// fn serial_handler() {
///     CONSOLE.on_interrupt();
///     while let Some(byte) = CONSOLE.receive() {
///         CONSOLE.write(&[byte]);
///     }
/// }
///
/// # #[cfg(any())]
/// #[panic_handler]
/// fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
///     CONSOLE.panic(format_args!("{info}"));
///     reset()
/// }
/// ```
///
/// # Contexts
///
/// | context | calls |
/// | --- | --- |
/// | any task or interrupt handler | [`log`](Self::log), [`emergency`](Self::emergency), [`write`](Self::write), [`receive`](Self::receive) |
/// | timer handler | [`timer_interrupt`](Self::timer_interrupt) at its top |
/// | the port's handler | [`on_interrupt`](Self::on_interrupt) |
/// | NMI handler | [`nmi`](Self::nmi) at its top, then the first row |
/// | boot and shutdown | [`settle`](Self::settle), [`write_sync`](Self::write_sync) |
/// | panic handler | [`panic`](Self::panic) |
///
/// No method waits for the line, another CPU or a lock, except [`panic`](Self::panic),
/// [`settle`](Self::settle) and [`write_sync`](Self::write_sync), which are bounded.
///
/// # Feedback
///
/// A log call inside the console's own path only stores a record.
pub struct SystemConsole<R: 'static, P: 'static> {
    platform: P,
    drain: Drain<'static, UartSink<R, P>>,
    also: Option<&'static Drain<'static, dyn Sink + Sync>>,
    input: Input,
}

impl<R: Registers, P: Platform> SystemConsole<R, P> {
    /// Creates a console on `ring`, without a port: records wait in the ring.
    pub const fn new(ring: &'static Ring, platform: P) -> Self {
        Self {
            platform,
            drain: Drain::new(
                ring,
                UartSink::closed(),
                SinkOptions::DEFAULT.progress_slot(0),
            ),
            also: None,
            input: Input::new(),
        }
    }

    /// Adds a second sink, for example a screen or a zone of persistent RAM.
    pub const fn also(mut self, drain: &'static Drain<'static, dyn Sink + Sync>) -> Self {
        self.also = Some(drain);
        self
    }
}

impl<R: Registers + Clone, P: Platform + Clone> SystemConsole<R, P> {
    /// Opens the port, and sends what waits in the ring.
    ///
    /// `registers` are cloned for a panic that finds the port in use, so a clone must reach the
    /// same port.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if no port answers, or it cannot be set up so. Records still wait in the
    /// ring then.
    pub fn open(
        &self,
        registers: R,
        settings: impl Into<ConsoleSettings>,
    ) -> Result<(), OpenError> {
        let console = Console::open(registers, self.platform.clone(), settings)?;
        if !self.drain.sink().open(console) {
            return Err(OpenError::Busy);
        }
        self.send(Priority::Normal);
        Ok(())
    }
}

impl<R: Registers, P: Platform> SystemConsole<R, P> {
    /// Logs `text` from any context.
    pub fn log(&self, level: Level, target: &str, text: fmt::Arguments<'_>) {
        self.put(level, Priority::Normal, target, text);
        self.send(Priority::Normal);
    }

    /// Logs a text that goes before the backlog.
    pub fn emergency(&self, target: &str, text: fmt::Arguments<'_>) {
        self.put(Level::Emergency, Priority::Emergency, target, text);
        self.send(Priority::Emergency);
    }

    /// Writes standard output: as many bytes of `text` as there is room for. Never waits.
    pub fn write(&self, text: &[u8]) -> usize {
        let meta = self.meta(Level::Info, Priority::Normal, "");
        self.ring().log(&meta, text);
        self.send(Priority::Normal);
        text.len()
    }

    /// Writes standard output, and waits until it is sent, for `bound` at most. Returns the
    /// number of bytes that were accepted.
    pub fn write_sync(&self, text: &[u8], bound: Nanos) -> usize {
        let written = self.write(text);
        self.settle(bound);
        written
    }

    /// Sends what the port takes now, and arms the timer for the rest.
    pub fn on_timer(&self) {
        self.send(Priority::Normal);
    }

    /// Marks the kernel's timer handler, at its top. Dropping the mark calls
    /// [`on_timer`](Self::on_timer).
    #[must_use = "the console sends when this is dropped"]
    pub fn timer_interrupt(&self) -> TimerInterrupt<'_, R, P> {
        TimerInterrupt { console: self }
    }

    /// Marks an NMI handler, at its top: log calls on this CPU only store records until the
    /// mark is dropped.
    #[must_use = "the mark ends when this is dropped"]
    pub fn nmi(&self) -> Nmi<'_> {
        Nmi(core::marker::PhantomData)
    }

    /// Handles the port's interrupt: receives, and returns the number of bytes. Never waits.
    pub fn on_interrupt(&self) -> usize {
        0
    }

    /// Returns the oldest byte that came in, if there is one.
    pub fn receive(&self) -> Option<u8> {
        self.input.take()
    }

    /// Waits until all records are sent and the last bit is on the line, for `bound` at most.
    /// Returns whether that is so.
    pub fn settle(&self, bound: Nanos) -> bool {
        let clock = &self.platform;
        let mut timeout = Timeout::new(clock.now(), bound).largest_step(LONGEST_STEP);
        while let Some(at) = self.slice(Priority::Normal) {
            if timeout.is_over() {
                return false;
            }
            let nap = (at - clock.now()).max(Nanos::from_micros(1));
            timeout.poll(clock, nap.min(timeout.left()), STILL, spin_loop);
            timeout.update(clock);
        }
        true
    }

    /// Handles a panic: stops the other CPUs and sends the panic's text, then the backlog.
    pub fn panic(&self, text: fmt::Arguments<'_>) -> FlushReport {
        self.put(Level::Emergency, Priority::Panic, "", text);
        self.platform.stop_other_cpus();
        let cpu = self.platform.id() as u16;
        let limits = FlushLimits::DEFAULT;
        match self.also {
            Some(also) => flush(&[&self.drain, also], cpu, &self.platform, limits),
            None => flush(&[&self.drain], cpu, &self.platform, limits),
        }
    }

    /// Runs one step of a printer task, and returns when to run the next one.
    pub fn printer_step(&self) -> Next {
        let cpu = self.platform.id() as u16;
        self.drain
            .drain_bounded(cpu, Priority::Normal, &self.platform)
    }

    /// The ring.
    pub fn ring(&self) -> &'static Ring {
        self.drain.feed.ring
    }

    /// The drain to the port.
    pub const fn drain(&self) -> &Drain<'static, UartSink<R, P>> {
        &self.drain
    }

    fn meta<'a>(&self, level: Level, priority: Priority, target: &'a str) -> Meta<'a> {
        Meta {
            time: self.platform.now(),
            cpu: self.platform.id() as u16,
            level,
            priority,
            target,
        }
    }

    fn put(&self, level: Level, priority: Priority, target: &str, text: fmt::Arguments<'_>) {
        let meta = self.meta(level, priority, target);
        self.ring().format(&meta, text);
    }

    fn send(&self, priority: Priority) {
        self.slice(priority);
    }

    fn slice(&self, priority: Priority) -> Option<Nanos> {
        self.platform.without_interrupts(|| {
            if !self.drain.sink().is_open() {
                return None;
            }
            let cpu = self.platform.id() as u16;
            let next = self.drain.drain_bounded(cpu, priority, &self.platform);
            let also = self
                .also
                .and_then(|also| also.drain_bounded(cpu, priority, &self.platform).time());
            let at = next.time().into_iter().chain(also).min()?;
            self.platform.set_timer(at);
            Some(at)
        })
    }
}

/// A timer interrupt; the console sends when this is dropped.
pub struct TimerInterrupt<'c, R: Registers + 'static, P: Platform + 'static> {
    console: &'c SystemConsole<R, P>,
}

impl<R: Registers, P: Platform> Drop for TimerInterrupt<'_, R, P> {
    fn drop(&mut self) {
        self.console.on_timer();
    }
}

/// An NMI.
pub struct Nmi<'c>(core::marker::PhantomData<&'c ()>);
