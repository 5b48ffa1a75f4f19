//! The path of a message.

use nostall_console::Meta;
use nostall_io::Nanos;
use strum::{Display, EnumString, IntoStaticStr};

use super::{Context, Cpu};

/// How messages get from the logging task to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case", parse_err_ty = crate::BadJob, parse_err_fn = drop)]
pub enum Strategy {
    /// The logging task prints all tasks' messages, byte by byte; see
    /// [`Inline`](super::Inline).
    PrintInline,
    /// The same by the FIFO: a wait for each FIFO-full in place of one for each byte.
    FifoInline,
    /// A task of the console's own prints; see [`PrinterThread`](super::PrinterThread).
    PrinterThread,
    /// In slices that wait for nothing; see [`Bounded`](super::Bounded).
    Bounded,
}

impl Strategy {
    /// All, in the order in which they were found.
    pub const ALL: [Self; 4] = [
        Self::PrintInline,
        Self::FifoInline,
        Self::PrinterThread,
        Self::Bounded,
    ];

    /// The stable word for it in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// How the bytes are brought to the transmitter.
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
    /// Logs a message, pre-emption off, and does the work for the line that is due now.
    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role;

    /// The timer that was set by [`Cpu::call_at`] has come, as an interrupt.
    fn timer(&self, cpu: &impl Cpu);

    /// Runs the path's own task, if it is on this CPU, until it sleeps. Called in task context,
    /// when this CPU schedules. Returns the time at which the task runs again.
    fn run_task(&self, _: &impl Cpu) -> Option<Nanos> {
        None
    }

    /// The end: logs `text`, stops the others and brings all to the line.
    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]);

    /// Everything is with the port.
    fn is_idle(&self) -> bool;

    /// Records that were overwritten before they were sent.
    fn lost(&self) -> u64;
}

/// Role of a logging task for the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Left the message there, for others to send.
    Left,
    /// Sent it, or the messages before it.
    Owner,
}
