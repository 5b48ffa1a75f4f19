//! The kernel's load offset, with the way it was found.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::symbols::{Solved, kernel_offset};

/// Distance of the kernel above its linked address (KASLR), with the way it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelOffset {
    /// Given by the caller.
    Given(u64),
    /// In a line of the kernel's log.
    InLog(u64),
    /// In the header of a trace of nostall-trace.
    InTrace(u64),
    /// In Linux's persistent ring buffer.
    InRing(u64),
    /// In Linux's VMCOREINFO.
    InVmcoreinfo(u64),
    /// Derived from traced addresses.
    Solved(Solved),
}

impl KernelOffset {
    /// Returns the distance in bytes.
    pub const fn value(self) -> u64 {
        match self {
            Self::Given(value)
            | Self::InLog(value)
            | Self::InTrace(value)
            | Self::InRing(value)
            | Self::InVmcoreinfo(value) => value,
            Self::Solved(solved) => solved.offset,
        }
    }

    /// Reads the offset from the last line of a log that has it.
    pub fn of_log(log: &[u8]) -> Option<Self> {
        kernel_offset(log).map(Self::InLog)
    }

    /// Reads the offset from a log without its unverified bytes.
    pub fn of_verified(log: &[u8], unverified: &[Range<usize>]) -> Option<Self> {
        let mut log = Cow::from(log);
        for range in unverified {
            log.to_mut()[range.clone()].fill(0);
        }
        Self::of_log(&log)
    }
}

impl fmt::Display for KernelOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel offset {:#x}", self.value())?;
        match self {
            Self::Given(_) => f.write_str(", as given"),
            Self::InLog(_) => f.write_str(", from the log"),
            Self::InTrace(_) => f.write_str(", from the trace"),
            Self::InRing(_) => f.write_str(", from the ring buffer"),
            Self::InVmcoreinfo(_) => f.write_str(", from VMCOREINFO"),
            Self::Solved(solved) => write!(
                f,
                ": puts {} of {} traced addresses on functions, the next best {}",
                solved.score, solved.addresses, solved.runner_up
            ),
        }
    }
}
