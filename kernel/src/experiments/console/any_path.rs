//! The paths of all strategies as one type, so that the image has one copy of the flood.

use nostall_console::{Meta, UartSink};
use nostall_io::Nanos;
use nostall_work::console::{
    Bounded, Context, Cpu, Inline, Path, PrintStrategy, PrinterThread, Role,
};

use super::state::Port;
use crate::arch::MachineClock;
use crate::log;

/// The path of any strategy.
#[expect(clippy::large_enum_variant, reason = "there is one, in a static")]
pub enum AnyPath {
    Inline(Inline<'static, &'static Port, MachineClock>),
    Printer(PrinterThread<'static, &'static Port, MachineClock>),
    Bounded(Bounded<'static, &'static Port, MachineClock>),
}

impl AnyPath {
    /// Creates the path of `strategy` from the kernel's log to `serial`.
    pub fn new(strategy: PrintStrategy, serial: UartSink<&'static Port, MachineClock>) -> Self {
        match strategy {
            PrintStrategy::PrintInline | PrintStrategy::FifoInline => {
                Self::Inline(Inline::new(&log::RING, serial))
            }
            PrintStrategy::PrinterThread => Self::Printer(PrinterThread::new(&log::RING, serial)),
            PrintStrategy::Bounded => Self::Bounded(Bounded::new(&log::RING, serial)),
        }
    }
}

impl Path for AnyPath {
    fn log(&self, cpu: &impl Cpu, context: Context, meta: &Meta<'_>, text: &[u8]) -> Role {
        match self {
            Self::Inline(path) => path.log(cpu, context, meta, text),
            Self::Printer(path) => path.log(cpu, context, meta, text),
            Self::Bounded(path) => path.log(cpu, context, meta, text),
        }
    }

    fn timer(&self, cpu: &impl Cpu) {
        match self {
            Self::Inline(path) => path.timer(cpu),
            Self::Printer(path) => path.timer(cpu),
            Self::Bounded(path) => path.timer(cpu),
        }
    }

    fn run_task(&self, cpu: &impl Cpu) -> Option<Nanos> {
        match self {
            Self::Inline(path) => path.run_task(cpu),
            Self::Printer(path) => path.run_task(cpu),
            Self::Bounded(path) => path.run_task(cpu),
        }
    }

    fn panic(&self, cpu: &impl Cpu, meta: &Meta<'_>, text: &[u8]) {
        match self {
            Self::Inline(path) => path.panic(cpu, meta, text),
            Self::Printer(path) => path.panic(cpu, meta, text),
            Self::Bounded(path) => path.panic(cpu, meta, text),
        }
    }

    fn is_idle(&self) -> bool {
        match self {
            Self::Inline(path) => path.is_idle(),
            Self::Printer(path) => path.is_idle(),
            Self::Bounded(path) => path.is_idle(),
        }
    }

    fn lost(&self) -> u64 {
        match self {
            Self::Inline(path) => path.lost(),
            Self::Printer(path) => path.lost(),
            Self::Bounded(path) => path.lost(),
        }
    }
}
