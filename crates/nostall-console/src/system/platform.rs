//! The services that a kernel supplies.

use nostall_io::{Clock, Nanos, Processor};

/// A kernel's services for a [`SystemConsole`](crate::SystemConsole): a clock, CPU numbers, a
/// timer, and a way to stop the other CPUs.
///
/// The console calls these methods in the context of its caller: in tasks, in interrupt
/// handlers, in panics. No method may wait for a lock that a log call may interrupt. A method
/// may log; [the console](crate::SystemConsole#feedback) then only stores the record.
///
/// [`without_interrupts`](Processor::without_interrupts) must mask them: a record of a handler
/// that interrupts it counts as the console's own, and may be left out. `id` must not log.
pub trait Platform: Clock + Processor {
    /// Arms this CPU's timer, in place of the time that the console has set before. The
    /// timer's interrupt takes [`timer_interrupt`](crate::SystemConsole::timer_interrupt), or
    /// calls [`on_timer`](crate::SystemConsole::on_timer).
    ///
    /// Does nothing before there are timers. A kernel with a printer task wakes it here, at
    /// this time at the latest. An interrupt before that time does no harm.
    ///
    /// A slot may be shared, for example with the scheduler, if each user keeps the earlier one of
    /// two times. The console sets a time once, and again after each interrupt, at the mark's
    /// drop. So a handler that clears the slot does so before, and no other code takes the time
    /// back.
    fn set_timer(&self, at: Nanos);

    /// Stops the other CPUs for a panic, in bounded time. Called once, with the panic's text
    /// already in the ring.
    fn stop_other_cpus(&self);

    /// Wakes the task that reads the console. Called when bytes came in, in any context of the
    /// console, with interrupts masked or not.
    ///
    /// A slice receives for an interrupt handler that found the port in use, so the return
    /// value of [`on_interrupt`](crate::SystemConsole::on_interrupt) alone wakes too seldom.
    /// Does nothing by default, which suits a reader that polls.
    fn received(&self) {}
}
