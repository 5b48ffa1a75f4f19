//! Front ends for `log`.

use crate::{Kernel, Level, Meta, Priority, Ring};

/// Front end that stores `log` records in a ring. For any context, as the ring. The target
/// [`EMERGENCY`](crate::EMERGENCY) marks an emergency.
///
/// It sends nothing: the kernel calls [`Drain::drain_bounded`](crate::Drain::drain_bounded).
#[derive(Debug)]
pub struct Logger<'r, K> {
    ring: &'r Ring,
    kernel: K,
}

impl<'r, K: Kernel> Logger<'r, K> {
    /// Creates a logger for `log::set_logger`.
    pub const fn new(ring: &'r Ring, kernel: K) -> Self {
        Self { ring, kernel }
    }
}

impl<K: Kernel + Send + Sync> log::Log for Logger<'_, K> {
    /// Returns true: `log::set_max_level` filters, and every sink has a level.
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let meta = Meta {
            time: self.kernel.now(),
            cpu: self.kernel.cpu(),
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
/// # use nostall_console::{Kernel, SystemConsole, UartHardware};
/// # fn start<U: UartHardware + Send, K: Kernel + Send + Sync>(
/// #     console: &'static SystemConsole<U, K>,
/// # ) -> Result<(), log::SetLoggerError> {
/// log::set_logger(console)?;
/// log::set_max_level(log::LevelFilter::Info);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "uart")]
impl<U, K> log::Log for crate::SystemConsole<U, K>
where
    U: nostall_uart::UartHardware + Send,
    K: Kernel + Send + Sync,
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
