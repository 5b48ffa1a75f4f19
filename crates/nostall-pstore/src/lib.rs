//! Records that survive a crash, in the memory format of Linux's ramoops.

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod compress;
#[cfg(feature = "std")]
pub mod decompress;
#[cfg(feature = "std")]
pub mod detect;
#[cfg(feature = "std")]
pub mod image;
#[cfg(feature = "std")]
pub mod symbols;

mod code;
#[cfg(feature = "std")]
mod decode;
mod deflate;
mod dmesg;
mod dmesg_header;
mod format;
#[cfg(feature = "std")]
mod geometry;
mod layout;
#[cfg(feature = "std")]
mod linux;
mod locked;
mod memory;
mod nesting;
mod read;
mod recorder;
mod recover;
mod stamp;
mod trace;
mod zone;

pub use code::{Code, Uncorrectable};
#[cfg(feature = "std")]
pub use decode::{Content, Decoded, Dmesg, Packing, Record, Text, Unpack, ZoneReport};
pub use deflate::Matches;
pub use dmesg::{LastWords, LeadingSpace, longest_deflated};
pub use dmesg_header::{DMESG_HEADER, DmesgHeader};
pub use format::{
    BLOCK, ByteOrder, Division, HEADER, Header, Kind, LinuxVersion, MAX_PARITY, SIGNATURE,
};
#[cfg(feature = "std")]
pub use geometry::Geometry;
pub use layout::{FTRACE_PER_CPU, Layout, LayoutError, Note, Params, Place};
#[cfg(feature = "std")]
pub use linux::{LinuxFile, line as linux_line, linux_files};
pub use locked::LockedRecorder;
pub use memory::{Flushed, Load, Memory, Ram, Uncached};
pub use nesting::{HasParity, Nesting};
pub use read::{
    Damage, Ecc, Merge, OldZone, Policy, Reader, Trace, Traces, Trust, Writer, ZoneState,
};
pub use recorder::{Dropping, Masking, Recorder};
pub use recover::{AllTraces, Recovered, recover};
pub use stamp::{ByClock, OwnCounter, SharedCounter, Stamp};
pub use trace::{LONGEST_TRACE, NoSuchShape, Shape, TraceRecord};
pub use zone::{Found, NoRoom, Zone};
