//! Function graphs that survive a crash: a recorder for kernels and Linux programs.
//!
//! A [`Recorder`] in a `static` writes entries, exits and samples into a [`Region`]: memory that
//! outlives the kernel, or that a debugger reads. [`recover`] reads the region of the previous
//! boot. `#[traced]` and [`trace_scope!`] use the recorder that was set with [`set_recorder`].
//! Call graphs, reports and exports of the records are in the crate `nostall-tracefile`.
//!
//! When not to use it: for logs, and for events with many fields. A record has an address or a
//! name, a time, and at most one argument.
//!
//! # Example
//!
//! ```
//! use nostall_io::{HostClock, Processor};
//! use nostall_trace::{Nanoseconds, Options, Recorder, Region, recover};
//!
//! struct Cpu; // in a kernel: its own CPU number and interrupt mask
//! impl Processor for Cpu {
//!     fn id(&self) -> usize { 0 }
//!     fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T { critical() }
//! }
//!
//! #[repr(align(64))]
//! struct Memory([u8; 8192]); // in a kernel: reserved memory that outlives it
//!
//! let mut memory = Memory([0; 8192]);
//! let options = Options { zones: 1, names: 1024, ..Options::default() };
//! // In a kernel: a `static`, with the clock `Tsc`.
//! let recorder = Recorder::new(Nanoseconds(HostClock::new()), Cpu);
//! recorder.start(Region::format(&mut memory.0, &options)?);
//! let entered = recorder.enter(0x1234); // the function's address
//! recorder.exit(entered);
//!
//! // The next boot does this first, with the memory itself.
//! recorder.freeze();
//! let trace = recover(recorder.dump().ok_or("no region")?)?;
//! for record in trace.merged::<1>().ok_or("more CPUs")? {
//!     println!("{} {:?}", record.time, record.event);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Protocol
//!
//! - Each CPU or thread has its own zone. Only this owner writes to it, without a lock.
//! - A record reserves its slots and takes its time in one step, which is repeated after an
//!   interrupt. The order of slots is thus the order of times.
//! - The first slot of a record is written last, with the number of its lap. A slot with another
//!   lap was never written; a reader skips and counts it.
//! - A handler never overwrites the record that it interrupted. It loses its own record instead;
//!   the loss is counted and shown after the interrupted record.
//! - A reader of a live zone reads the head after the slots, and omits those that may have been
//!   overwritten meanwhile.
//!
//! The tests interrupt a record at every step, with an NMI at every step of the interrupt, and read
//! the zone after every store. A model checker (loom) lets another CPU read concurrently.
//!
//! # Looking inside
//!
//! A region is self-contained: [`layout`] describes every byte, and the region stores the names.
//! [`Recorder::dump`] reads it while CPUs record; [`Recorder::lost`] counts lost records.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "std"), no_std)]

mod cells;
mod filter;
// The stubs of x86-64 pass arguments as all systems except these two do.
#[cfg(any(
    all(target_arch = "x86_64", not(windows), not(target_os = "uefi")),
    target_arch = "riscv64",
    target_arch = "aarch64"
))]
pub mod functions;
mod global;
mod hooks;
mod image;
#[cfg(feature = "tracing")]
mod layer;
pub mod layout;
mod macros;
mod names;
#[cfg(all(feature = "program", target_os = "linux"))]
mod program;
mod recorder;
mod records;
mod recover;
mod region;
mod site;
#[cfg(feature = "stall-hook")]
mod stalls;
mod ticks;
mod wide;
mod writer;

#[cfg(feature = "macros")]
pub use nostall_trace_macros::traced;

pub use filter::{Action, Filter, Function, Trigger};
pub use global::{Scope, clear_recorder, counter, is_on, mark, set_recorder, stall};
pub use hooks::Entered;
pub use image::{Image, Live};
#[cfg(feature = "tracing")]
pub use layer::TraceLayer;
pub use layout::HeaderFault;
#[cfg(all(feature = "program", target_os = "linux"))]
pub use program::{ProgramOptions, ProgramTrace, VARIABLE};
pub use recorder::Recorder;
pub use records::{Event, FunctionId, Incomplete, Missing, Record, ZoneInfo, ZoneReader};
pub use recover::{Merged, Records, Recovered, recover};
pub use region::{FormatError, Options, Region};
pub use site::Site;
#[cfg(target_arch = "aarch64")]
pub use ticks::Cntvct;
#[cfg(target_arch = "riscv64")]
pub use ticks::RdTime;
#[cfg(target_arch = "x86_64")]
pub use ticks::Tsc;
pub use ticks::{Nanoseconds, Ticks};

/// The README's example.
#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
