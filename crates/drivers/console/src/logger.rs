//! Front ends for `log`.

use nostall_io::{Clock, Processor};

use crate::{Level, Meta, Priority, Ring};

/// Front end that stores `log` records in a ring. For any context, as the ring. The target
/// [`EMERGENCY`](crate::EMERGENCY) marks an emergency.
///
/// It sends nothing: the kernel calls [`Drain::drain_bounded`](crate::Drain::drain_bounded).
#[derive(Debug)]
pub struct Logger<'r, C, P> {
    ring: &'r Ring,
    clock: C,
    processor: P,
}

impl<'r, C: Clock, P: Processor> Logger<'r, C, P> {
    /// Creates a logger for `log::set_logger`.
    pub const fn new(ring: &'r Ring, clock: C, processor: P) -> Self {
        Self {
            ring,
            clock,
            processor,
        }
    }
}

impl<C: Clock + Send + Sync, P: Processor + Send + Sync> log::Log for Logger<'_, C, P> {
    /// Returns true: `log::set_max_level` filters, and every sink has a level.
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let meta = Meta {
            time: self.clock.now(),
            cpu: self.processor.id() as u16,
            level: record.level().into(),
            priority: Priority::of_target(record.target()),
            target: record.target(),
        };
        self.ring.format(&meta, *record.args());
    }

    /// Does nothing: a logger does not wait for a line.
    fn flush(&self) {}
}

/// Logs in any context. The target [`EMERGENCY`](crate::EMERGENCY) marks an emergency.
///
/// ```
/// # use nostall_console::{Platform, SystemConsole};
/// # use nostall_io::Registers;
/// # fn start<R: Registers + Send, P: Platform + Send + Sync>(
/// #     console: &'static SystemConsole<R, P>,
/// # ) -> Result<(), log::SetLoggerError> {
/// log::set_logger(console)?;
/// log::set_max_level(log::LevelFilter::Info);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "uart")]
impl<R, P> log::Log for crate::SystemConsole<R, P>
where
    R: nostall_io::Registers + Send,
    P: crate::Platform + Send + Sync,
{
    /// Returns true: `log::set_max_level` filters, and every sink has a level.
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let (level, target) = (record.level().into(), record.target());
        self.record(level, Priority::of_target(target), target, *record.args());
    }

    /// Does nothing: a logger does not wait for a line.
    fn flush(&self) {}
}

impl From<log::Level> for Level {
    /// Maps both `Debug` and `Trace` to `Debug`.
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Error => Self::Error,
            log::Level::Warn => Self::Warning,
            log::Level::Info => Self::Info,
            log::Level::Debug | log::Level::Trace => Self::Debug,
        }
    }
}
