//! Services that a kernel supplies.

use nostall_io::{Clock, Nanos, Processor};

/// Kernel's services for its console: a clock, CPU numbers and the interrupt mask. All else has a
/// default, for one CPU without a timer.
///
/// The console calls these methods in the context of its caller: tasks, interrupt handlers, panics.
/// No method may wait for a lock that the context of a log call may hold. A method other than
/// [`cpu`](Self::cpu) and [`input_ready`](Self::input_ready) may log. The console then only stores
/// the record.
///
/// [`open`](crate::SystemConsole::open) needs `Clone`: the port's driver and its two spares for a
/// panic each have a clone as their clock. So all clones show the same time.
pub trait Kernel: Clock {
    /// Returns the calling CPU's number, counted from 0 without gaps. Must not log.
    fn cpu(&self) -> u16;

    /// Runs `critical` with interrupts masked on this CPU, and restores the previous mask. Calls
    /// may be nested.
    ///
    /// Must mask interrupts. Otherwise a record of an interrupting handler counts as the console's
    /// own, and may be left out. A kernel that never enables interrupts only calls `critical`.
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T;

    /// Arms this CPU's timer, replacing the time that the console has set before. An earlier
    /// interrupt does no harm. The timer's handler calls
    /// [`on_timer`](crate::SystemConsole::on_timer). A kernel with a printer task wakes it here, at
    /// this time at the latest.
    ///
    /// Does nothing by default, and before there are timers. A kernel without a timer calls
    /// [`poll`](crate::SystemConsole::poll) in its main loop, or at the end of its tick's handler.
    ///
    /// The timer may be shared, for example with the scheduler, if each user keeps the earlier of
    /// two times. The console sets a time once, and again after each interrupt, when the mark is
    /// dropped, if there is more to send. So a handler that clears the timer must do so before that, and
    /// no other code may cancel the time. On Arm and RISC-V a handler has to clear or set it: the
    /// interrupt lasts until then.
    ///
    /// The time is one of this [`Clock`]. A timer with finer steps than the clock's interrupts too
    /// early, and again after each mark, until the clock's next step.
    ///
    /// A virtual port without a rate is ready again at once. During a backlog `at` is then about now,
    /// and slices follow each other back to back: this CPU does little else. A later time does no harm.
    /// So `at.max(now + gap)` leaves the time `gap` to other work after each slice.
    fn set_timer(&self, at: Nanos) {
        let _ = at;
    }

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
    fn input_ready(&self) {}

    /// Stops the other CPUs for a panic, in bounded time. Called once, by the first panic whose text
    /// is in the ring. Does nothing by default.
    ///
    /// CPUs that run on do not overwrite the panic's text, and send no records. A CPU that is inside
    /// of [`open`](crate::SystemConsole::open) or [`with_port`](crate::SystemConsole::with_port)
    /// just then mixes its bytes with the text.
    fn stop_other_cpus(&self) {}
}

/// A [`Kernel`] as a [`Processor`], for example for `nostall_trace::Recorder`.
#[derive(Clone, Copy, Debug)]
pub struct AsProcessor<K>(pub K);

impl<K: Kernel> Processor for AsProcessor<K> {
    fn id(&self) -> usize {
        self.0.cpu().into()
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        self.0.without_interrupts(critical)
    }
}
