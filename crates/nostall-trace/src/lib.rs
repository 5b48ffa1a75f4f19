//! Function graphs that survive a crash: a recorder for kernels and Linux programs, and reports
//! on its traces and on Linux's.

#![cfg_attr(not(feature = "std"), no_std)]

mod cells;
mod filter;
// The stubs of x86-64 pass arguments as every system does but these two.
#[cfg(any(
    all(target_arch = "x86_64", not(windows), not(target_os = "uefi")),
    target_arch = "riscv64"
))]
pub mod functions;
mod global;
#[cfg(feature = "report")]
pub mod graph;
mod image;
pub mod layout;
#[cfg(feature = "report")]
pub mod linux;
mod macros;
#[cfg(feature = "report")]
pub mod model;
mod names;
mod recorder;
mod records;
mod recover;
mod region;
mod site;
mod ticks;
mod wide;
mod writer;
#[cfg(feature = "report")]
mod zones;

pub use filter::{Action, Filter, Function, Trigger};
pub use global::{Scope, clear_recorder, counter, is_on, mark, set_recorder, stall};
pub use image::{Image, Live};
pub use layout::HeaderFault;
pub use recorder::{Entered, Recorder};
pub use records::{Event, FunctionId, Missing, Record, ZoneInfo};
pub use recover::{Merged, Records, Recovered, recover};
pub use region::{FormatError, Options, Region};
pub use site::Site;
#[cfg(target_arch = "riscv64")]
pub use ticks::RdTime;
#[cfg(target_arch = "x86_64")]
pub use ticks::Tsc;
pub use ticks::{Nanoseconds, Ticks};
#[cfg(feature = "report")]
pub mod read;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "report")]
pub use zones::{Symbols, ZoneEvents};
