//! Records that survive a crash, in the memory format of Linux's ramoops: traces, console output
//! and kernel logs. They are written without a lock. Readers are the next kernel, Linux, or
//! nostall-postmortem with a dump of the machine's memory.
//!
//! - **Writing**: no_std, no allocation, no panic. A [`Layout`] divides a region as Linux does. A
//!   [`Zone`] is appended to: data first, then the header, each with its parity. One [`Recorder`]
//!   for each CPU stores function entries: no lock, no atomic read-modify-write, no shared counter.
//!   Handlers that record while they interrupt a record are [dropped](Dropping), [masked](Masking)
//!   or [nested](Nesting).
//! - **Reading**, also no_std: [`recover`] returns the remaining records, merged over all CPUs,
//!   each with a trust level.
//!
//! The crate nostall-postmortem reads whole dumps. It finds regions at unknown addresses,
//! decompresses records, adds symbols, and rebuilds the files of Linux's `/sys/fs/pstore`.
//!
//! When not to use it: for records of *planned* restarts a file is simpler. If records need not
//! have Linux's format, a tracer with its own events (LTTng) records more details.
//!
//! # Example
//!
//! Two CPUs record in a region of memory. The machine crashes, and the next kernel reads the
//! records.
//!
//! ```
//! use nostall_pstore::{
//!     ByClock, ZoneKind, DumpHeader, Layout, LinuxVersion, Params, Ram, Recorder, RecordFormat, Zone, recover,
//! };
//! use nostall_io::HostClock;
//!
//! // ramoops.mem_size=0x40000, and 4096 bytes for each kind of zone.
//! let layout = Layout::new(&Params::command_line(0x4_0000, 2))?;
//! let linux = LinuxVersion::new(6, 1, 0); // reads the traces
//! let clock = HostClock::default(); // one for all CPUs: records are merged by time
//! # let mut region = vec![0; 0x4_0000];
//!
//! // The kernel that will crash: each zone has its own owner.
//! {
//!     let region = Ram::of(&mut region); // or Ram::new, over reserved physical memory
//!     let mut traces = Vec::new();
//!     let mut last_words = None;
//!     for (place, memory) in layout.split(region) {
//!         let (zone, _) = Zone::attach(memory, place.kind, linux, None)?;
//!         match place.kind {
//!             ZoneKind::Ftrace => {
//!                 let cpu = place.index as u8;
//!                 traces.push(Recorder::with_record_format(zone, cpu, ByClock(clock), RecordFormat::Bits64));
//!             }
//!             ZoneKind::Dmesg if place.index == 0 => last_words = Some(zone),
//!             _ => {}
//!         }
//!     }
//!     traces[0].record(0xffff_ffff_8100_1000, 0xffff_ffff_8100_2000);
//!     traces[1].record(0xffff_ffff_8100_3000, 0xffff_ffff_8100_4000);
//!     traces[0].record(0xffff_ffff_8100_5000, 0xffff_ffff_8100_6000);
//!     last_words.unwrap().write_dmesg(&DumpHeader::PANIC, b"[    1.000000] out of coffee\n");
//! }
//!
//! // The next kernel, on the same memory.
//! let left = recover(&region[..], &layout, None);
//! let calls: Vec<_> = left.traces::<2>(RecordFormat::Bits64).unwrap().map(|trace| trace.record).collect();
//! assert_eq!(calls.iter().map(|call| call.cpu).collect::<Vec<_>>(), [0, 1, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents after a cut
//!
//! A *cut* is a crash or a loss of power. Data is stored before the header that makes it visible,
//! so a cut loses only the record that was being written. ([`Nesting`] can lose more at one
//! moment.) Two marks describe the rest:
//!
//! - *suspect* is the oldest record of a full ring, which the next record overwrites;
//! - *unverified* is a block that does not agree with its parity, which may happen to the block
//!   under the write position. It is not "repaired" to contents that were never written. Later
//!   kernels that append to it leave its parity wrong, until all its bytes are new.
//!
//! A text has no records to mark. In a full ring of text, the oldest bytes, as many as were being
//! written, may belong to the newest line.
//!
//! This holds for coherent memory. Examples are guest RAM that survives the guest and a mapped
//! file. RAM over a reset is another, if the reset keeps its contents and flushes the caches. If a
//! power cut empties the CPU's cache, the memory needs a [`Flushed`] that really flushes. Each
//! flush takes time. After a power cut, write-combining memory has the stores that left the CPU's
//! buffers, in any order: then only error correction detects losses.
//!
//! Each of the header's two words is stored at once, if memory takes 32-bit stores. If memory tears
//! such a store, only 16 or more parity bytes detect it.
//!
//! # Looking inside
//!
//! Dump the region and run `nostall postmortem FILE`. It reports the zones and their contents.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "alloc")]
pub mod compress;

mod code;
mod deflate;
mod dmesg;
mod dmesg_header;
mod format;
mod layout;
mod locked;
mod memory;
#[cfg(target_pointer_width = "64")]
mod nesting;
mod read;
mod recorder;
mod recover;
mod stamp;
mod trace;
mod zone;

pub use code::{Code, Uncorrectable};
pub use deflate::Matches;
pub use dmesg::{DumpHeader, PackedError, longest_deflated};
pub use dmesg_header::{DMESG_HEADER, DmesgHeader};
pub use format::{
    BLOCK, ByteOrder, Division, HEADER, LinuxVersion, MAX_PARITY, NoVersion, SIGNATURE, ZoneHeader,
    ZoneKind,
};
pub use layout::{FTRACE_PER_CPU, Layout, LayoutError, Note, Params, Place, ZoneOrder};
pub use locked::LockedRecorder;
pub use memory::{Flushed, Load, Memory, Ram, Uncached};
#[cfg(target_pointer_width = "64")]
pub use nesting::{HasParity, Nesting};
pub use read::{
    CorrectionPolicy, Damage, Ecc, Merge, Misaligned, PreviousBootZone, Reader, Trace, Traces,
    Trust, Writer, ZoneState,
};
pub use recorder::{Dropping, Masking, Recorder};
pub use recover::{AllTraces, Recovered, recover};
pub use stamp::{ByClock, OwnCounter, SharedCounter, Stamp};
pub use trace::{LONGEST_TRACE, RecordFormat, TraceRecord, UnknownRecordFormat};
pub use zone::{NoRoom, PreviousContents, Zone};
