//! Services that a kernel supplies.

use nostall_io::{Clock, Nanos, Processor};

/// Kernel's services for a [`SystemConsole`](crate::SystemConsole): a clock, CPU numbers, a timer,
/// and a way to stop the other CPUs.
///
/// The console calls these methods in the context of its caller: tasks, interrupt handlers, panics.
/// No method may wait for a lock that the context of a log call may hold. A method other than
/// [`received`](Self::received) may log; [the console](crate::SystemConsole#feedback) then only stores
/// the record.
///
/// [`without_interrupts`](Processor::without_interrupts) must mask interrupts. Otherwise a record
/// of an interrupting handler counts as the console's own, and may be left out. `id` must not log.
pub trait Platform: Clock + Processor {
    /// Arms this CPU's timer, replacing the time that the console has set before. The timer's
    /// handler calls [`timer_interrupt`](crate::SystemConsole::timer_interrupt) or
    /// [`on_timer`](crate::SystemConsole::on_timer).
    ///
    /// Does nothing before there are timers. A kernel without timers calls
    /// [`on_timer`](crate::SystemConsole::on_timer) in its main loop instead. A kernel with a
    /// printer task wakes it here, at this time at the latest. An earlier interrupt does no harm.
    ///
    /// The timer may be shared, for example with the scheduler, if each user keeps the earlier of
    /// two times. The console sets a time once, and again after each interrupt, when the mark is
    /// dropped. So a handler that clears the timer must do so before that, and no other code may
    /// cancel the time.
    ///
    /// The time is one of this [`Clock`]. A timer with finer steps than the clock's interrupts too
    /// early, and again after each mark, until the clock's next step.
    ///
    /// A virtual port without a rate is ready again at once. During a backlog `at` is then about now,
    /// and slices follow each other back to back: this CPU does little else. A later time does no harm.
    /// So `at.max(now + gap)` leaves the time `gap` to other work after each slice.
    fn set_timer(&self, at: Nanos);

    /// Stops the other CPUs for a panic, in bounded time. Called once, by the first panic whose text
    /// is in the ring. If it does not stop them, a CPU that is inside of
    /// [`open`](crate::SystemConsole::open) or [`with_port`](crate::SystemConsole::with_port) mixes
    /// its bytes with the panic's text.
    fn stop_other_cpus(&self);

    /// Wakes the task that reads the console. Called after bytes were received, in any context of
    /// the console, with interrupts masked or not.
    ///
    /// A slice may receive for an interrupt handler that found the port in use. So waking on the
    /// result of [`on_interrupt`](crate::SystemConsole::on_interrupt) alone misses bytes. Does
    /// nothing by default, for a reader that polls.
    ///
    /// Must not log, write or use the port. Such a call may itself receive bytes that another CPU's
    /// handler left to it, and calls this again, inside of this call. During a paste nothing but the
    /// input bounds that depth. [`receive`](crate::SystemConsole::receive) and
    /// [`has_input`](crate::SystemConsole::has_input) are permitted.
    fn received(&self) {}
}
