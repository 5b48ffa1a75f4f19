//! Reads traces of nostall-trace and of Linux, pairs entries and exits to calls, and makes reports
//! and exports of them.
//!
//! - [`ZoneEvents`]: the records of a recorder of nostall-trace, from a file, a dump or live memory.
//! - [`read`]: Linux's traces, as text of ftrace and as trace.dat files of trace-cmd.
//! - [`model`]: events, their names, and the trait [`Source`](model::Source) of every reader.
//! - [`graph`]: calls. Missing entries and exits are never invented.
//! - [`report`]: the function graph, tables, histograms, rates, stalls and differences, as text and
//!   as JSON.
//! - [`export`]: files for uftrace, trace-cmd and flame graphs, and with the feature `perfetto` for
//!   Perfetto.
//! - [`linux`]: pages of Linux's ring buffer and formats of its events, without any kernel.
//!
//! Memory depends on the numbers of functions, tasks and open calls, not on that of events. No input
//! makes a reader panic.
//!
//! When not to use it: to record. A kernel or a program records with the crate `nostall-trace`,
//! which needs neither std nor an allocator.
//!
//! # Example
//!
//! ```
//! use nostall_io::{HostClock, Processor};
//! use nostall_trace::{Nanoseconds, Options, Recorder, Region, recover};
//! use nostall_tracefile::ZoneEvents;
//! use nostall_tracefile::graph::{Step, walk};
//! use nostall_tracefile::model::ReadError;
//!
//! # struct Cpu;
//! # impl Processor for Cpu {
//! #     fn id(&self) -> usize { 0 }
//! #     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T { critical() }
//! # }
//! # #[repr(align(64))]
//! # struct Memory([u8; 8192]);
//! # let mut memory = Memory([0; 8192]);
//! # let options = Options { zones: 1, names: 1024, ..Options::default() };
//! # let recorder = Recorder::new(Nanoseconds(HostClock::new()), Cpu);
//! # recorder.start(Region::format(&mut memory.0, &options)?);
//! let entered = recorder.enter(0x1234); // the function's address
//! recorder.exit(entered);
//! recorder.freeze();
//!
//! let region = recover(recorder.dump().ok_or("no region")?)?;
//! // Names of the functions, for example from the kernel's System.map.
//! let symbols = |address| (address == 0x1234).then(|| "console_write".to_owned());
//! let mut events = ZoneEvents::new(region, Box::new(symbols));
//! let mut calls = Vec::new();
//! walk(&mut events, |catalog, step| {
//!     if let Step::Leave(call) = step {
//!         calls.push(catalog.text(call.function.unwrap()).to_owned());
//!     }
//!     Ok::<_, ReadError>(())
//! })?;
//! assert_eq!(calls, ["console_write"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod export;
pub mod graph;
pub mod linux;
pub mod model;
pub mod read;
pub mod report;
mod zones;

pub use zones::{Symbols, ZoneEvents};

/// The README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
