//! Reads the memory of a crashed machine: finds and decodes Linux's persistent records
//! (pstore/ramoops) and ring buffers of traces, and nostall's log rings and traces.
//!
//! - [`memory`]: memory from dumps: raw dumps, ELF cores, kdump files, LiME dumps and AVML's
//!   compressed dumps. Holes of sparse files are never read.
//! - [`discovery`]: all kinds of records in a memory, found in one pass.
//! - [`detect`]: regions whose place and parameters are unknown, each with a grade, its reasons
//!   and its doubts.
//! - [`Decoded`]: the records of a region, with a trust level for each and the exact ranges of
//!   unverified bytes. [`Decoded::linux_files`] rebuilds the files of Linux's `/sys/fs/pstore`.
//! - [`kernel`]: the kernel that crashed: release, build, load offset and the causes of the crash,
//!   each with the place where it was found.
//! - [`kernel_log`]: the log of any Linux from 5.10 on: the ring of its printk.
//! - [`banner`]: the banners of Linux kernels in their memory.
//! - [`log_ring`]: the log rings of nostall-console, of a machine of any word size and byte order.
//! - [`join`]: the output of nostall-console, with the lines whole that were cut.
//! - [`ftrace_ring`]: Linux's persistent ring buffer: function graphs and events before a crash.
//! - [`trace_region`]: the traces of nostall-trace, whole or with a destroyed header, as a source
//!   of events for reports and exports.
//! - [`decompress`] and [`symbols`]: the compressions of Linux's pstore, and names for addresses.
//! - Feature `cli` (default): the command, as the binary `nostall-postmortem` and as
//!   `nostall postmortem`.
//!
//! Bytes that the crashed kernel may not have written are always marked. Text decompressed from
//! a block that failed error correction is unverified from that block on.
//!
//! When not to use it: the running kernel recovers its own region with `nostall_pstore::recover`,
//! which needs neither std nor an allocator.
//!
//! # Example
//!
//! ```
//! use nostall_postmortem::discovery::Discovery;
//! use nostall_postmortem::memory::Memory;
//! use nostall_postmortem::{Content, Decoded, Unpack};
//! use nostall_pstore::Writer;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drivers/pstore/tests/fixtures/plain/image.bin");
//! let memory = Memory::open(path)?;
//! let discovery = Discovery::new(&memory);
//! let found = &discovery.detection.convincing()[0];
//! let region = memory.region(found).ok_or("more than 256 MiB, in several parts of the file")?;
//! let decoded = Decoded::partly(&region, &found.geometry, Writer::HeaderFirst, Unpack::ByTrying);
//! for record in decoded.records() {
//!     if let Content::Dmesg(dmesg) = &record.content {
//!         println!("{:?}, {} bytes", record.trust, dmesg.text.bytes.len());
//!     }
//! }
//! # assert_eq!(decoded.records().count(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod banner;
#[cfg(feature = "cli")]
pub mod cli;
pub mod decompress;
pub mod detect;
pub mod discovery;
pub mod ftrace_ring;
pub mod join;
pub mod kernel;
pub mod kernel_log;
pub mod log_ring;
pub mod memory;
pub mod symbols;
pub mod trace_region;
pub mod vmcoreinfo;

mod address_space;
mod btf;
mod count;
mod decode;
mod geometry;
mod kallsyms;
mod kinds;
mod linux;
mod scan;

pub use decode::{Calls, Content, Decoded, Dmesg, Packing, Record, Text, Unpack, ZoneReport};
pub use geometry::Geometry;
pub use linux::{FileTrust, LinuxFile};
