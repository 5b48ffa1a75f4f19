//! Records that survive a crash, in the memory format of Linux's ramoops.

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod compress;
#[cfg(feature = "std")]
pub mod decompress;
#[cfg(feature = "std")]
pub mod image;
#[cfg(feature = "std")]
pub mod symbols;

mod code;
mod format;
#[cfg(feature = "std")]
mod geometry;
mod layout;
mod locked;
mod memory;
mod nesting;
mod recorder;
mod stamp;
mod trace;
mod zone;

pub use code::{Code, Uncorrectable};
pub use format::{
    BLOCK, ByteOrder, Division, HEADER, Header, Kind, LinuxVersion, MAX_PARITY, SIGNATURE,
};
#[cfg(feature = "std")]
pub use geometry::Geometry;
pub use layout::{FTRACE_PER_CPU, Layout, LayoutError, Note, Params, Place};
pub use locked::LockedRecorder;
pub use memory::{Flushed, Load, Memory, Ram, Uncached};
pub use nesting::{HasParity, Nesting};
pub use recorder::{Dropping, Masking, Recorder};
pub use stamp::{ByClock, OwnCounter, SharedCounter, Stamp};
pub use trace::{LONGEST_TRACE, NoSuchShape, Shape, TraceRecord};
pub use zone::{Found, NoRoom, Zone};
