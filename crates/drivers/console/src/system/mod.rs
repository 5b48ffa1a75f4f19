//! Log ring, drain, serial port, panic path and receive side in one `static`.

mod per_cpu;
mod print;

use core::fmt;

use nostall_io::{Clock, Nanos, Timeout};
use nostall_uart::{Console, ConsoleSettings, OpenError, UartHardware};

use crate::drain::LONGEST_STEP;
use crate::sequence::is_past;
use crate::sync::{AtomicUsize, Ordering, STILL, spin_loop};
use crate::{
    Caller, Drain, FlushLimits, FlushReport, Kernel, Level, Meta, Priority, Ring, Sink,
    SinkOptions, UartSink, flush,
};

use per_cpu::{Mark, Marked, PerCpu};
use print::Output;

/// Largest number of rounds of a slice. The second one sends a record that an NMI left to the
/// first.
const ROUNDS: usize = 2;

/// Byte budget of a printer task's step: it makes one offer.
const OF_PRINTER: usize = 1;

/// Interval between two checks whether the last bit is on the line.
const CHECK_INTERVAL: Nanos = Nanos::from_micros(10);

/// Time after the first use of the timer at which a debug build reports that no interrupt has come.
const NO_TIMER: Nanos = Nanos::from_secs(1);

/// State of a console whose timer has not interrupted in time.
const NEVER_CAME: usize = usize::MAX - 1;

/// Number of panics of a CPU, each inside of the one before, with formatted text and a clock. Later
/// ones log a fixed text and count polls, because formatting or the clock may panic each time.
const DEEPEST_PANIC: usize = 4;

/// Console of a kernel, in a `static`: log, standard output, receive, panic.
///
/// The kernel supplies a [`Kernel`]: at least a clock, the CPU's number and the interrupt mask. `U`
/// is the port's hardware: a 16550's register window, or a
/// [`Pl011`](crate::Pl011). A kernel without a timer:
///
/// ```
/// use nostall_console::{Clock, Kernel, Level, LineSettings, Nanos, OpenError};
/// use nostall_console::{Ring, Slot, SystemConsole};
///
/// #[derive(Clone)]
/// struct Services;
///
/// impl Clock for Services {
///     fn now(&self) -> Nanos {
///         Nanos::UNKNOWN // or a counter's, once its rate is known
///     }
/// }
///
/// impl Kernel for Services {
///     fn cpu(&self) -> u16 {
///         cpu::number() // of the calling CPU: 0, 1, 2 and so on
///     }
///     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
///         cpu::masked(critical) // restores the mask that it found
///     }
/// }
/// # type Ports = nostall_console::Mmio;
/// # mod cpu {
/// #     pub fn number() -> u16 { 0 }
/// #     pub fn masked<T>(critical: impl FnOnce() -> T) -> T { critical() }
/// # }
///
/// static RING: Ring<[Slot; 2340]> = Ring::new(); // 256 KiB of zeros
/// static CONSOLE: SystemConsole<Ports, Services> = SystemConsole::new(&RING, Services);
///
/// fn start(port: Ports) -> Result<(), OpenError> {
///     CONSOLE.log(Level::Info, "boot", format_args!("waits in the ring"));
///     CONSOLE.open(port, LineSettings::baud(115_200))
/// }
///
/// fn main_loop() {
///     CONSOLE.poll(); // sends
///     CONSOLE.on_interrupt(); // receives; with interrupts, in the port's handler
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
/// With a timer, the services have [`Kernel::set_timer`], and its handler takes the mark
/// [`on_timer`](Self::on_timer). It may log.
///
/// # Contexts
///
/// | context | calls |
/// | --- | --- |
/// | any task or interrupt handler | [`log`](Self::log), [`emergency`](Self::emergency), [`write`](Self::write), [`print`](Self::print), [`receive`](Self::receive) |
/// | main loop, or the end of a tick's handler | [`poll`](Self::poll), without [`Kernel::set_timer`] |
/// | handler of the timer that [`Kernel::set_timer`] sets | [`on_timer`](Self::on_timer) at its top |
/// | the port's handler | [`on_interrupt`](Self::on_interrupt) |
/// | NMI handler | [`on_nmi`](Self::on_nmi) at its top, then the first row |
/// | a program's system call | [`write_all`](Self::write_all) |
/// | boot and shutdown | [`settle`](Self::settle), [`write_sync`](Self::write_sync) |
/// | panic handler | [`panic`](Self::panic) |
///
/// No method waits for the line, another CPU or a lock, except [`panic`](Self::panic),
/// [`settle`](Self::settle), [`write_all`](Self::write_all) and [`write_sync`](Self::write_sync).
/// These are bounded. The others send the bytes that the port takes now, with interrupts masked.
/// They begin no offer after [`SinkOptions::hold`]. If another CPU's handler finds the port in use
/// meanwhile, a call also receives up to 32 bytes. Each takes two accesses to the port.
///
/// **Without timers.** A kernel without one calls [`poll`](Self::poll) in its main loop. A debug
/// build reports once that it does not, and that no timer interrupt comes: with the first record a
/// second after [`Kernel::set_timer`].
///
/// **Early boot.** Before [`open`](Self::open), records wait in the ring. Before there are timers,
/// [`Kernel::set_timer`] does nothing: each call sends the bytes that the port takes now, and
/// `settle` sends the rest. Call [`poll`](Self::poll) once when timers exist. Before it has
/// a rate, the clock returns [`Nanos::UNKNOWN`]: records have blanks instead of a time, and each
/// call polls the port. A call then ends when the port is busy, or after [`SinkOptions::slice`]
/// bytes. A virtual port without a rate is never busy.
///
/// **Tasks.** A task may be preempted, migrate or end in any call. If two tasks of a CPU stop
/// inside the console's path, the next four lines of that CPU stay in the ring, without a time.
/// Later lines of that CPU, and calls on other CPUs, send them.
///
/// **NMIs.** An NMI may interrupt `Kernel::set_timer` or a slice. So between [`on_nmi`](Self::on_nmi)
/// and its drop, log calls on this CPU only store records. The interrupted slice sends them, or the
/// next call on any CPU. Without atomic exchange (thumbv6m, riscv32imc) NMI handlers must not log.
///
/// # Feedback
///
/// A timer handler that logs would cause its own next interrupt. The console limits such records, so
/// any handler may log:
///
/// - A log call inside the console's own path only stores a record: in `set_timer`, in `now`, in
///   `without_interrupts`. There is no recursion, and no second slice on this CPU.
/// - Records of `set_timer`, and of interrupts that the console may have caused, never outnumber the
///   others: `n` become at most `2n`. At most 16 of an old backlog's are kept for a later one.
///   Emergencies have 64 more, so a watchdog's report on a silent machine is stored.
/// - A further one is left out and counted ([`left_out`](Self::left_out)). The next stored record of
///   this kind ends with the count.
///
/// From `set_timer` on, until an interrupt at its time or later, the console may have caused each
/// interrupt whose handler holds [`on_timer`](Self::on_timer). So a tick from another source may use
/// up to half of the port's rate without loss, with lines of equal length. A tick that calls
/// [`poll`](Self::poll) at its end loses none.
///
/// A record that `now` or `without_interrupts` logs before interrupts are masked counts as one of
/// the others, at most two for each log call. Then `n` log calls cause at most `6n` records.
/// `without_interrupts` may not log after it has restored them. [`write`](Self::write) is not
/// limited: a timer handler must not write at each interrupt.
///
/// CPUs with numbers from 256 (16 on 32-bit machines) share one state. There is no recursion and no
/// record is left out. But records of their timer handlers and of `set_timer` are not limited, so
/// these must not log. A record logged during an NMI of another of these CPUs waits for the next
/// call on any CPU. If more than four of these CPUs panic at once, the texts of the others are left
/// out.
///
/// # A printer task
///
/// A kernel with threads, but without a one-shot timer, can print in a preemptible task:
/// [`with_printer`](Self::with_printer).
pub struct SystemConsole<U: 'static, K: 'static> {
    kernel: K,
    drain: Drain<'static, UartSink<U, K>>,
    limits: FlushLimits,
    has_printer: bool,
    per_cpu: PerCpu,
    /// Number plus 1 of the CPU of the newest panic; 0 for none.
    panics: AtomicUsize,
    /// Nonzero once a panic has stopped the other CPUs.
    stops: AtomicUsize,
    /// Time for which the timer was first set, in microseconds. [`NEVER_CAME`] if no interrupt came
    /// for [`NO_TIMER`]. The largest word after an interrupt, or after a report.
    awaits_timer: AtomicUsize,
}

impl<U: UartHardware, K: Kernel> SystemConsole<U, K> {
    /// Creates a console on `ring`, without a port. Records wait in the ring.
    pub const fn new(ring: &'static Ring, kernel: K) -> Self {
        let options = SinkOptions::DEFAULT.progress_slot(0);
        Self {
            kernel,
            drain: Drain::new(ring, UartSink::closed(), options),
            limits: FlushLimits::DEFAULT,
            has_printer: false,
            per_cpu: PerCpu::new(),
            panics: AtomicUsize::new(0),
            stops: AtomicUsize::new(0),
            awaits_timer: AtomicUsize::new(0),
        }
    }

    /// Sets the options of the port's drain: level, prefix, budgets of a slice. Without a progress
    /// slot, they get slot 0.
    #[must_use]
    pub const fn with_options(mut self, mut options: SinkOptions) -> Self {
        if options.progress_slot.is_none() {
            options = options.progress_slot(0);
        }
        if self.has_printer {
            options = options.slice(OF_PRINTER);
        }
        self.drain.feed.level = AtomicUsize::new(options.level as usize);
        self.drain.options = options;
        self
    }

    /// Sets the limits of a panic's flush, 10 s in total by default. Unsent records stay in the ring.
    /// With [`PanicOrder`](crate::PanicOrder) a kernel chooses which records come first.
    #[must_use]
    pub const fn with_flush_limits(mut self, limits: FlushLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Leaves sending to a task. The task takes the port for one offer at a time and may be
    /// preempted in between.
    ///
    /// Log calls then send nothing, and call [`Kernel::set_timer`] with a time in the past to wake
    /// the task. A kernel with a printer task has that method. Only emergencies send the bytes that
    /// the port takes now. The task:
    ///
    /// ```
    /// # use nostall_console::{Kernel, Nanos, SystemConsole, UartHardware};
    /// fn printer(console: &SystemConsole<impl UartHardware, impl Kernel>) -> ! {
    ///     loop {
    ///         sleep(console.poll()); // `None`: until it is woken
    ///     }
    /// }
    /// # fn sleep(_: Option<Nanos>) {}
    /// ```
    ///
    /// [`Clock::now`] must not log on such a kernel.
    #[must_use]
    pub const fn with_printer(mut self) -> Self {
        self.has_printer = true;
        self.drain.options.slice = OF_PRINTER;
        self
    }
}

impl<U: UartHardware + Clone, K: Kernel + Clone> SystemConsole<U, K> {
    /// Opens the port, enables its receive interrupt, and starts to send the records in the ring.
    /// Takes as long as [`Console::open`]: at 115,200 baud at most 20 ms, and 60 ms if the port ignores
    /// its settings. A second call replaces the port. Input that came before is discarded.
    ///
    /// A panic that finds the port in use works on a clone of `uart`, and a panic inside of it on
    /// another one. So a clone must access the same port.
    ///
    /// Most machines other than PCs have no OUT2 gate between the port and a level-triggered
    /// controller. There, call this before the controller enables the port's interrupt, because
    /// probing raises it.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] if no port answers or the settings are not possible. Also if the port to
    /// replace is in use, or another CPU has panicked. The console then keeps its old port, if any. If
    /// that is the same hardware, its line may already have the new settings: open it again.
    ///
    /// Without a port, all calls go on, and records stay in the ring for a later `open` or a debugger.
    /// So a kernel logs the error, and tries another port or none.
    pub fn open(&self, uart: U, settings: impl Into<ConsoleSettings>) -> Result<(), OpenError> {
        let sink = self.drain.sink();
        let (settings, clock) = (settings.into(), self.kernel.clone());
        // A level-triggered interrupt of a port in use would never end.
        let taken = match self.is_for_panic() {
            true => None,
            false => self.kernel.without_interrupts(|| {
                let mut port = sink.take(Caller::Normal)?;
                port.as_mut().map(Console::disable_receive);
                Some(port)
            }),
        };
        let mut port = taken.ok_or(OpenError::Busy)?;
        if let Ok(spare) = Console::unopened(uart.clone(), clock.clone(), settings) {
            sink.prepare(&spare);
        }
        let opened = Console::open(uart, clock, settings);
        let result = self.kernel.without_interrupts(|| {
            let replaced = opened.and_then(|mut console| {
                console.enable_receive();
                let is_replaced = sink.replace(&mut port, console);
                is_replaced.then_some(()).ok_or(OpenError::Busy)
            });
            if replaced.is_err() {
                port.as_mut().map(Console::enable_receive);
            }
            drop(port);
            // Bytes received earlier have already caused their edge: no interrupt follows.
            sink.on_interrupt();
            replaced
        });
        self.send(Priority::Normal);
        result
    }
}

impl<U: UartHardware, K: Kernel> SystemConsole<U, K> {
    /// Logs `text`, and sends the bytes that the port takes now.
    ///
    /// For any context: nested in another call, in an interrupt handler, in a `Display` that is
    /// being logged, and in an NMI handler after [`on_nmi`](Self::on_nmi).
    pub fn log(&self, level: Level, target: &str, text: fmt::Arguments<'_>) {
        self.record(level, Priority::Normal, target, text);
    }

    /// Logs a text that goes before the backlog at every level, for example an oops or a lockup
    /// report. If the port is ready, the text's first bytes are sent in the call, behind any backlog.
    pub fn emergency(&self, target: &str, text: fmt::Arguments<'_>) {
        self.record(Level::Emergency, Priority::Emergency, target, text);
    }

    /// Writes a program's output, in order with the log, without time, target and escapes. Returns
    /// the number of bytes taken; the caller writes the rest later.
    ///
    /// Never waits. A quarter of the ring is reserved for the log, so that no program's output
    /// overwrites it. Taken bytes are in the ring, and not yet on the line. A log that outruns the
    /// line overwrites them, and counts them as lost records.
    pub fn write(&self, text: &[u8]) -> usize {
        let taken = self.put_output(text);
        self.send(Priority::Normal);
        taken
    }

    /// [Writes](Self::write) formatted text, for a kernel's `print!`. Returns whether the ring took
    /// all of it. Otherwise the rest is dropped, without a count. If formatting an argument aborts
    /// by a panic, the last bytes before it may be missing.
    pub fn print(&self, text: fmt::Arguments<'_>) -> bool {
        let mut output = Output::new(|text: &[u8]| self.put_output(text));
        let is_formatted = fmt::write(&mut output, text).is_ok();
        let is_whole = output.flush();
        self.send(Priority::Normal);
        is_formatted && is_whole
    }

    /// Stores a program's output.
    fn put_output(&self, text: &[u8]) -> usize {
        let meta = self.meta(Level::Info, Priority::Normal, "");
        let ring = self.ring();
        let room = self.drain.room();
        let mut taken = 0;
        while taken < text.len() {
            let oldest = (self.drain.position() as usize).max(1);
            match ring.log_raw(&meta, &text[taken..], oldest.wrapping_add(room) as u64) {
                0 => break,
                more => taken += more,
            }
        }
        taken
    }

    /// [Writes](Self::write) all of a program's output, and waits while the ring is full, up to
    /// `bound`. Returns whether all bytes were taken; otherwise the rest is dropped, without a count.
    /// In a timer handler, or without a port, it does not wait.
    pub fn write_all(&self, text: &[u8], bound: Nanos) -> bool {
        self.write_until(text, &mut self.timeout(bound))
    }

    /// Writes a program's output, and waits until its last bit is on the line, up to `bound`.
    /// Returns whether that is so.
    pub fn write_sync(&self, text: &[u8], bound: Nanos) -> bool {
        let mut timeout = self.timeout(bound);
        self.write_until(text, &mut timeout) && self.settle_until(&mut timeout)
    }

    /// Waits until all records logged before the call are sent and their last bit is on the line,
    /// up to `bound`. Returns whether that is so. Does not wait for records added meanwhile. For
    /// early boot and for an orderly shutdown. After a panic of this CPU, sends the text that was
    /// written since. While the clock stands still, `bound` limits the number of polls.
    pub fn settle(&self, bound: Nanos) -> bool {
        let cpu = self.cpu();
        if self.per_cpu.has(cpu, Mark::Panicked) {
            // Inside of a panic that has not returned, the clock itself may panic.
            let has_clock = self.per_cpu.panics(cpu) == 0;
            let _inside = self.per_cpu.mark(cpu, Mark::Inside);
            let flushed = self.flush(cpu, has_clock, self.limits.total(bound));
            return flushed.complete == 1;
        }
        self.settle_until(&mut self.timeout(bound))
    }

    /// Does the work that is due: sends the bytes that the port takes now. Returns the time of the
    /// next call; `None` means after the next record, or [`Kernel::set_timer`]. If the clock has no
    /// rate, the time [is unknown](Nanos::is_known), and means soon. For the main loop, the idle loop,
    /// the end of a periodic tick's handler, a [printer task](Self::with_printer), and once when timers
    /// exist.
    ///
    /// A call sends about one FIFO, which for 16 bytes at 115,200 baud lasts 1.4 ms. With rarer calls
    /// the log comes later. If more is logged meanwhile than the ring holds, the oldest records are
    /// lost.
    ///
    /// Also calls [`Kernel::set_timer`] for the rest, except in a printer task, which makes one
    /// offer. Call it with preemption off, except there.
    pub fn poll(&self) -> Option<Nanos> {
        let next = if self.has_printer {
            // Interrupts are masked during the offer: a level-triggered interrupt of a port in use
            // would never end.
            let offer = || self.drain_once(self.cpu(), Priority::Normal);
            self.kernel.without_interrupts(offer)
        } else {
            let cpu = self.cpu();
            self.has_ticked(cpu);
            if self.per_cpu.is_awaited(cpu) {
                // The clock may log.
                let _own = self.per_cpu.mark(cpu, Mark::Caused);
                self.per_cpu.disarm(cpu, self.now());
            }
            self.per_cpu.forget_timer(cpu);
            self.slice(Priority::Normal, false)
        };
        self.tell_received();
        next
    }

    /// Marks the handler of the timer that [`Kernel::set_timer`] sets, at its start. Dropping the
    /// mark sends the bytes that the port takes, and sets the timer for the rest. Until then, log
    /// calls in the handler only store records, except emergencies. A handler that switches tasks
    /// drops the mark before it switches, and with preemption off.
    ///
    /// ```
    /// # use nostall_console::{Kernel, SystemConsole, UartHardware};
    /// fn timer_handler(console: &SystemConsole<impl UartHardware, impl Kernel>) {
    ///     let _in_timer = console.on_timer();
    ///     // The handler's own work, which may log.
    /// }
    /// ```
    #[must_use = "the console sends when this is dropped"]
    pub fn on_timer(&self) -> TimerInterrupt<'_, U, K> {
        let cpu = self.cpu();
        let own = self.per_cpu.is_awaited(cpu).then(|| {
            // The mark comes first, because the clock may log.
            let caused = self.per_cpu.mark(cpu, Mark::Caused);
            match self.per_cpu.disarm(cpu, self.now()) {
                true => caused,
                false => self.per_cpu.mark(cpu, Mark::Early),
            }
        });
        let has_own = self.per_cpu.has_own(cpu);
        let timer = has_own.then(|| self.per_cpu.mark(cpu, Mark::Timer));
        self.has_ticked(cpu);
        TimerInterrupt {
            console: self,
            timer: timer.flatten(),
            _own: own.flatten(),
        }
    }

    /// Marks an NMI handler, at its start. Until the mark is dropped, log calls on this CPU only
    /// store records.
    #[must_use = "the mark ends when this is dropped"]
    pub fn on_nmi(&self) -> Nmi<'_> {
        let cpu = self.cpu();
        Nmi {
            _mark: self.per_cpu.mark(cpu, Mark::Nmi),
        }
    }

    /// Handles the port's interrupt: receives, and returns the number of bytes. Never waits. A kernel
    /// without interrupts calls it in its main loop, beside [`poll`](Self::poll).
    ///
    /// If the port is in use, its user receives when it releases it. [`Kernel::input_ready`] is
    /// called in both cases.
    pub fn on_interrupt(&self) -> usize {
        let received = self.drain.sink().on_interrupt();
        self.leave_port();
        received
    }

    /// Returns the oldest received byte, if any. Up to 256 bytes are kept.
    pub fn receive(&self) -> Option<u8> {
        self.drain.sink().input.take()
    }

    /// Takes received bytes, and returns their number.
    pub fn read(&self, buf: &mut [u8]) -> usize {
        let take = |to: &mut u8| self.receive().map(|byte| *to = byte);
        buf.iter_mut().map_while(take).count()
    }

    /// Returns whether [`receive`](Self::receive) has a byte, for example for `poll`.
    pub fn has_input(&self) -> bool {
        self.drain.sink().input.has_bytes()
    }

    /// Handles a panic: logs its text, stops the other CPUs, sends the text and then the backlog,
    /// and waits for the line. Takes at most 10 s, or the [chosen time](Self::with_flush_limits), plus
    /// one offer and the [end](Sink::finish) of each sink. It needs no interrupt, timer or lock.
    ///
    /// From the call on, other records are stored only while a quarter of the ring is free, and
    /// otherwise counted as lost. CPUs that were not stopped thus do not overwrite the text.
    ///
    /// It may be called again, by a panic inside of it or on another CPU.
    pub fn panic(&self, text: fmt::Arguments<'_>) -> FlushReport {
        let cpu = self.cpu();
        self.panics.store(cpu + 1, Ordering::Relaxed);
        self.per_cpu.note(cpu, Mark::Panicked);
        let has_clock = self.per_cpu.begin_panic(cpu) < DEEPEST_PANIC;
        let text = match has_clock {
            true => text,
            false => format_args!("more than four panics at once: a text is left out"),
        };
        self.put(Level::Emergency, Priority::Panic, "", text);
        // The first panic may not get here: its text or the clock may panic.
        if self.stops.swap(1, Ordering::AcqRel) == 0 {
            self.kernel.stop_other_cpus();
        }
        // A clock that logs at each read must not prolong the flush.
        let _inside = self.per_cpu.mark(cpu, Mark::Inside);
        self.drain.sink().with(Caller::Panic, Console::take_over);
        let flushed = self.flush(cpu, has_clock, self.limits);
        self.per_cpu.end_panic(cpu);
        flushed
    }

    /// Sends everything, as a CPU that has panicked.
    fn flush(&self, cpu: usize, has_clock: bool, limits: FlushLimits) -> FlushReport {
        let drains = &[&self.drain as &Drain<'_, _>];
        match has_clock {
            true => flush(drains, cpu as u16, &self.kernel, limits),
            // The clock itself may panic.
            false => flush(drains, cpu as u16, &Stopped, limits),
        }
    }
}

impl<U: UartHardware, K: Kernel> SystemConsole<U, K> {
    /// Sets the least important level of normal records that are sent to the port. For any context.
    /// A panic sends all levels, and [written](Self::write) output has none.
    pub fn set_level(&self, level: Level) {
        self.drain.set_level(level);
    }

    /// Returns the ring.
    pub const fn ring(&self) -> &'static Ring {
        self.drain.feed.ring
    }

    /// Returns the drain to the port, for example for its numbers of lost and unsent records.
    pub const fn drain(&self) -> &Drain<'static, UartSink<U, K>> {
        &self.drain
    }

    /// Returns the number of records of the console's own path that were [left out](Self#feedback).
    pub fn left_out(&self) -> usize {
        self.per_cpu.left_out()
    }

    /// Calls `act` with the port, for direct writers that wait for the line. Returns `None` if the
    /// port is in use or not open, or if another CPU has panicked.
    ///
    /// The port's own interrupt is masked meanwhile, at the port: its handler cannot receive, so a
    /// level-triggered one would never end. Bytes received meanwhile wait in the port's FIFO.
    ///
    /// A logged line may be partly sent. So begin and end the text with a line feed. The line's rest
    /// follows on a line of its own, which `nostall console join` does not join.
    pub fn with_port<T>(&self, act: impl FnOnce(&mut Console<U, K>) -> T) -> Option<T> {
        let sink = self.drain.sink();
        if self.is_for_panic() {
            return None;
        }
        let mut port = self.kernel.without_interrupts(|| {
            let mut port = sink.take(Caller::Normal)?;
            port.as_mut()?.pause_receive();
            Some(port)
        })?;
        let done = port.as_mut().map(act);
        self.kernel.without_interrupts(|| {
            port.as_mut().map(Console::resume_receive);
            drop(port);
        });
        self.leave_port();
        done
    }
}

impl<U: UartHardware, K: Kernel> SystemConsole<U, K> {
    /// Stores a record, and sends the bytes that the port takes now.
    pub(crate) fn record(
        &self,
        level: Level,
        priority: Priority,
        target: &str,
        text: fmt::Arguments<'_>,
    ) {
        self.put(level, priority, target, text);
        self.send(priority);
        if cfg!(debug_assertions) && priority == Priority::Normal {
            self.tell_timer();
        }
    }

    /// Remembers the first time for which the timer is set, and whether a second has passed since
    /// then. A printer task needs no timer.
    fn await_timer(&self, at: Nanos) {
        if !cfg!(debug_assertions) || self.has_printer || !at.is_known() || at == Nanos::ZERO {
            return;
        }
        let (awaited, order) = (&self.awaits_timer, Ordering::Relaxed);
        let since = awaited
            .compare_exchange(0, per_cpu::micros(at), order, order)
            .unwrap_or_else(|since| since);
        if since != 0 && since < NEVER_CAME && per_cpu::has_passed(at, since, NO_TIMER) {
            let _ = awaited.compare_exchange(since, NEVER_CAME, order, order);
        }
    }

    /// Reports once if the kernel has no timer: without one, records stay in the ring.
    fn tell_timer(&self) {
        let (awaited, order) = (&self.awaits_timer, Ordering::Relaxed);
        let told = awaited.compare_exchange(NEVER_CAME, usize::MAX, order, order);
        if told.is_ok() {
            self.emergency(
                "nostall",
                format_args!("no timer interrupt after set_timer: call poll in the kernel's loop"),
            );
        }
    }

    /// Stores a record, unless it belongs to the console's own path and there is no credit.
    fn put(&self, level: Level, priority: Priority, target: &str, text: fmt::Arguments<'_>) {
        if priority != Priority::Panic && !self.has_room() {
            self.drain.feed.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let cpu = self.cpu();
        let is_limited = priority != Priority::Panic;
        // The console's own path does not migrate. A task that migrated has read another CPU's
        // marks.
        let is_own = || self.per_cpu.is_own(cpu) && self.cpu() == cpu;
        if is_limited && is_own() {
            let Some(left_out) = self.per_cpu.spend_credit(cpu, priority) else {
                return;
            };
            if left_out > 0 {
                let text = format_args!("{text} [{left_out} more left out]");
                self.ring()
                    .format(&self.meta(level, priority, target), text);
                return self.per_cpu.note(cpu, Mark::Left);
            }
        } else if is_limited {
            self.per_cpu.give_credit();
        }
        self.ring()
            .format(&self.meta(level, priority, target), text);
        self.per_cpu.note(cpu, Mark::Left);
    }

    /// Returns whether a record overwrites no panic's text: other CPUs may run on after a panic.
    /// While records of several CPUs pass this check, the last quarter of the ring has room for them.
    fn has_room(&self) -> bool {
        self.panics.load(Ordering::Relaxed) == 0 || !self.drain.is_crowded()
    }

    /// Notes that the kernel has a timer, or a loop.
    fn has_ticked(&self, cpu: usize) {
        self.awaits_timer.store(usize::MAX, Ordering::Relaxed);
        self.per_cpu.note(cpu, Mark::Ticked);
    }

    fn cpu(&self) -> usize {
        usize::from(self.kernel.cpu())
    }

    /// Returns whether the port is reserved for a panic of another CPU.
    fn is_for_panic(&self) -> bool {
        let newest = self.panics.load(Ordering::Relaxed);
        newest != 0 && newest != self.cpu() + 1
    }

    fn meta<'a>(&self, level: Level, priority: Priority, target: &'a str) -> Meta<'a> {
        Meta {
            time: self.now(),
            cpu: self.kernel.cpu(),
            level,
            priority,
            target,
        }
    }

    /// Reads the clock, unless the clock itself logs.
    fn now(&self) -> Nanos {
        match self.per_cpu.enter(self.cpu()) {
            Some(_entered) => self.kernel.now(),
            None => Nanos::UNKNOWN,
        }
    }

    fn timeout(&self, bound: Nanos) -> Timeout {
        Timeout::new(self.kernel.now(), bound).largest_step(LONGEST_STEP)
    }

    fn send(&self, priority: Priority) {
        let is_printers = self.has_printer && priority == Priority::Normal;
        self.slice(priority, is_printers);
        self.tell_received();
    }

    /// Ends a use of the port outside of a slice. If interrupts were left to a later use, a slice
    /// serves them.
    fn leave_port(&self) {
        match self.drain.sink().port.is_late() {
            true => self.send(Priority::Normal),
            false => self.tell_received(),
        }
    }

    fn tell_received(&self) {
        if self.drain.sink().input.take_news() {
            self.kernel.input_ready();
        }
    }

    /// Sends the bytes that the sinks take now, and arms the timer for the rest. Returns the time
    /// of the next slice, if records are left.
    fn slice(&self, priority: Priority, is_printers: bool) -> Option<Nanos> {
        // The end of a timer handler sends, because the handler may cancel a timer that is set
        // inside of it.
        if priority == Priority::Normal && self.per_cpu.has(self.cpu(), Mark::Timer) {
            return None;
        }
        // If the kernel logs in here, or in an NMI, the record is left to this slice or the next
        // one.
        let entered = self.per_cpu.enter(self.cpu())?;
        self.kernel.without_interrupts(|| {
            // Held until interrupts are restored: after that, another task may run before this one
            // continues.
            let _entered = entered;
            let cpu = self.cpu();
            let mut next = None;
            for _ in 0..ROUNDS {
                if self.per_cpu.has(cpu, Mark::Nmi) {
                    return None;
                }
                let inside = self.per_cpu.mark(cpu, Mark::Inside)?;
                self.per_cpu.clear(cpu, Mark::Left);
                next = if is_printers {
                    Some(Nanos::ZERO)
                } else {
                    self.drain_once(cpu, priority)
                };
                if let Some(at) = next
                    && (self.per_cpu.arm(cpu, at) || self.has_printer)
                {
                    self.await_timer(at);
                    self.kernel.set_timer(at);
                }
                drop(inside);
                if next.is_none() {
                    self.per_cpu.trim_credits();
                }
                // Another round sends a record that an NMI or the kernel logged after the sinks
                // were served.
                if next.is_some() || !self.per_cpu.has(cpu, Mark::Left) {
                    break;
                }
            }
            next
        })
    }

    fn drain_once(&self, cpu: usize, priority: Priority) -> Option<Nanos> {
        let (cpu, clock) = (cpu as u16, &self.kernel);
        let sink = self.drain.sink();
        if !sink.is_open() {
            return None;
        }
        let next = self.drain.drain_bounded(cpu, priority, clock).time();
        let late = sink.serve_late().then_some(Nanos::ZERO);
        next.into_iter().chain(late).min()
    }

    /// Runs a slice, and waits for the time of the next one. Returns `false` if there is none, or
    /// no time is left.
    fn wait_for_slice(&self, timeout: &mut Timeout) -> bool {
        let Some(at) = self.slice(Priority::Normal, false) else {
            return false;
        };
        let clock = &self.kernel;
        let nap = (at - clock.now()).max(CHECK_INTERVAL).min(timeout.left());
        timeout.poll(clock, nap, STILL, spin_loop);
        !timeout.is_over()
    }

    fn write_until(&self, text: &[u8], timeout: &mut Timeout) -> bool {
        let mut rest = &text[self.write(text)..];
        while !rest.is_empty() {
            if !self.wait_for_slice(timeout) {
                return false;
            }
            rest = &rest[self.write(rest)..];
        }
        true
    }

    fn settle_until(&self, timeout: &mut Timeout) -> bool {
        let newest = self.ring().newest();
        let is_sent = || newest == 0 || is_past(self.drain.position() as usize, newest as usize);
        while !is_sent() && self.wait_for_slice(timeout) {}
        if !is_sent() {
            return false;
        }
        let bytes = || self.drain.bytes() as usize;
        let (start, load) = (bytes(), self.drain.sink().load());
        loop {
            // Later bytes may keep the port busy. Once it has taken more of them than its FIFO
            // holds, the earlier ones are out.
            if bytes().wrapping_sub(start) > load {
                return true;
            }
            let is_idle =
                |console: &mut Console<U, K>| console.looks_idle() && console.flush().is_ok();
            // Interrupts are masked: a level-triggered interrupt of a port in use would never end.
            let sink = self.drain.sink();
            let check = || sink.with(Caller::Normal, is_idle);
            let is_idle = self.kernel.without_interrupts(check);
            self.leave_port();
            if is_idle == Some(true) {
                return true;
            }
            if timeout.is_over() || !self.drain.sink().is_open() {
                return false;
            }
            timeout.poll(
                &self.kernel,
                CHECK_INTERVAL.min(timeout.left()),
                STILL,
                spin_loop,
            );
        }
    }
}

/// A clock that stands still.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Mark of a timer interrupt. The console sends when it is dropped.
#[must_use = "the console sends when this is dropped"]
pub struct TimerInterrupt<'c, U: UartHardware + 'static, K: Kernel + 'static> {
    console: &'c SystemConsole<U, K>,
    timer: Option<Marked<'c>>,
    /// Set if the console has caused the interrupt, or may have.
    _own: Option<Marked<'c>>,
}

impl<U: UartHardware, K: Kernel> Drop for TimerInterrupt<'_, U, K> {
    fn drop(&mut self) {
        if self.timer.take().is_some() {
            let console = self.console;
            console.per_cpu.forget_timer(console.cpu());
        }
        self.console.send(Priority::Normal);
    }
}

/// Mark of an NMI, in which log calls only store records.
#[derive(Debug)]
#[must_use = "the mark ends when this is dropped"]
pub struct Nmi<'c> {
    _mark: Option<Marked<'c>>,
}

impl<U, K> fmt::Debug for SystemConsole<U, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemConsole")
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
