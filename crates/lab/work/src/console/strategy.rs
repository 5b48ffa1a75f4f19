//! Console strategies and the trait of their paths.

use nostall_console::Meta;
use nostall_io::Nanos;
use strum::{Display, EnumString, IntoStaticStr};

use super::{Context, Cpu};

/// Path of messages from the logging task to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case", parse_err_ty = crate::BadJob, parse_err_fn = drop)]
pub enum PrintStrategy {
    /// The logging task prints all tasks' messages, byte by byte; see [`Inline`](super::Inline).
    PrintInline,
    /// The logging task prints as above, but waits once for each full FIFO.
    FifoInline,
    /// The console's own task prints; see [`PrinterThread`](super::PrinterThread).
    PrinterThread,
    /// The ring is drained in slices that never wait; see [`Bounded`](super::Bounded).
    Bounded,
}

impl PrintStrategy {
    /// All strategies, in historical order.
    pub const ALL: [Self; 4] = [
        Self::PrintInline,
        Self::FifoInline,
        Self::PrinterThread,
        Self::Bounded,
    ];

    /// Returns the stable name for reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the strategy for sending bytes to the port.
    pub const fn uart(self) -> nostall_uart::Strategy {
        match self {
            Self::PrintInline => nostall_uart::Strategy::BytePolled,
            Self::FifoInline => nostall_uart::Strategy::FifoPolled,
            Self::PrinterThread => nostall_uart::Strategy::FifoPaced,
            Self::Bounded => nostall_uart::Strategy::FifoBurst,
        }
    }
}

/// The path of a message, from the logging task to the line.
pub trait Path {
    /// Logs a message with pre-emption off, and does the sending that is due now.
    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role;

    /// Handles the timer interrupt that [`Cpu::call_at`] requested.
    fn timer(&self, cpu: &impl Cpu);

    /// Runs the path's own task until it sleeps, if it is on this CPU. Called in task context when
    /// this CPU schedules. Returns the time at which the task runs again.
    fn run_task(&self, _: &impl Cpu) -> Option<Nanos> {
        None
    }

    /// Logs `text` in a panic, stops the other CPUs, and sends everything to the line.
    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]);

    /// Returns whether everything was passed to the port.
    fn is_idle(&self) -> bool;

    /// Returns the number of records that were overwritten before they were sent.
    fn lost(&self) -> u64;
}

/// Role of a logging task for the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It left the message in the ring for another CPU or task to send.
    Left,
    /// It sent the message, or earlier messages.
    Owner,
}
