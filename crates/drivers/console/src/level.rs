//! Importance and urgency of a record.

/// Severity as in syslog (RFC 5424, section 6.2.1). The most severe level compares lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// The system is unusable.
    Emergency = 0,
    /// Action must be taken at once.
    Alert = 1,
    /// Critical conditions.
    Critical = 2,
    /// Error conditions.
    Error = 3,
    /// Warning conditions.
    Warning = 4,
    /// Normal but significant condition.
    Notice = 5,
    /// Informational message.
    Info = 6,
    /// Debugging message.
    Debug = 7,
}

impl Level {
    /// Decodes the low three bits of a number.
    pub const fn from_number(number: u8) -> Self {
        match number & 7 {
            0 => Self::Emergency,
            1 => Self::Alert,
            2 => Self::Critical,
            3 => Self::Error,
            4 => Self::Warning,
            5 => Self::Notice,
            6 => Self::Info,
            _ => Self::Debug,
        }
    }
}

/// Priority of a record, and of a context that requests a sink. The higher priority goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Records that can wait.
    #[default]
    Normal = 0,
    /// An oops or a lockup report: sent before the backlog, without waiting.
    Emergency = 1,
    /// A panic: sent before everything else; its flush may wait for the line.
    Panic = 2,
}

/// Target that marks a `log` or `tracing` record as an emergency. Paths below it do so too:
/// `emergency::watchdog`.
///
/// ```
/// # #[cfg(feature = "log")]
/// log::error!(target: nostall_console::EMERGENCY, "CPU {} is stuck", 1);
/// ```
#[cfg(any(feature = "log", feature = "tracing"))]
pub const EMERGENCY: &str = "emergency";

#[cfg(any(feature = "log", feature = "tracing"))]
impl Priority {
    /// Returns the priority of a record with this target.
    pub(crate) fn of_target(target: &str) -> Self {
        match target.strip_prefix(EMERGENCY) {
            Some(rest) if rest.is_empty() || rest.starts_with("::") => Self::Emergency,
            _ => Self::Normal,
        }
    }
}

impl Priority {
    /// All priorities, lowest first.
    pub(crate) const ALL: [Self; 3] = [Self::Normal, Self::Emergency, Self::Panic];

    /// Decodes the low two bits of a number. 3 counts as [`Panic`](Self::Panic).
    pub(crate) const fn from_number(number: u8) -> Self {
        match number & 3 {
            0 => Self::Normal,
            1 => Self::Emergency,
            _ => Self::Panic,
        }
    }
}
