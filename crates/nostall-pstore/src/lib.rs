//! Records that survive a crash, in the memory format of Linux's ramoops.

#![cfg_attr(not(feature = "std"), no_std)]

mod code;
#[cfg(feature = "std")]
mod detect;
mod format;
#[cfg(feature = "std")]
mod geometry;
mod layout;
mod memory;
mod trace;

pub use code::{Code, Uncorrectable};
#[cfg(feature = "std")]
pub use detect::{Found, detect, detect_runs};
pub use format::{
    BLOCK, ByteOrder, Division, HEADER, Header, Kind, LinuxVersion, MAX_PARITY, SIGNATURE,
};
#[cfg(feature = "std")]
pub use geometry::Geometry;
pub use layout::{FTRACE_PER_CPU, Layout, LayoutError, Note, Params, Place};
pub use memory::{Flushed, Load, Memory, Ram, Uncached};
pub use trace::{LONGEST_TRACE, NoSuchShape, Shape, TraceRecord};
