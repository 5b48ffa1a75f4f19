//! Function graphs that survive a crash: a recorder for kernels and Linux programs, and reports
//! on its traces and on Linux's.

#![cfg_attr(not(feature = "std"), no_std)]

mod cells;
#[cfg(feature = "report")]
pub mod export;
mod filter;
mod global;
#[cfg(feature = "report")]
pub mod graph;
mod image;
#[cfg(feature = "tracing")]
mod layer;
pub mod layout;
#[cfg(feature = "report")]
pub mod linux;
mod macros;
#[cfg(feature = "report")]
pub mod model;
mod names;
#[cfg(all(feature = "program", target_os = "linux"))]
mod program;
#[cfg(feature = "report")]
pub mod read;
mod recorder;
mod records;
mod recover;
mod region;
#[cfg(feature = "report")]
pub mod report;
mod site;
#[cfg(feature = "stall-hook")]
mod stalls;
mod ticks;
mod wide;
mod writer;
#[cfg(feature = "report")]
mod zones;

pub use filter::{Action, Filter, Function, Trigger};
pub use global::{Scope, clear_recorder, counter, is_on, mark, set_recorder, stall};
pub use image::{Image, Live};
#[cfg(feature = "tracing")]
pub use layer::TraceLayer;
pub use layout::HeaderFault;
#[cfg(all(feature = "program", target_os = "linux"))]
pub use program::{ProgramOptions, ProgramTrace, VARIABLE};
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
pub use zones::{Symbols, ZoneEvents};
