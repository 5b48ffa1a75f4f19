//! Linux's persistent ring buffer (`reserve_mem` and `trace_instance`, Linux 6.12 and later): the
//! function graphs and events that were recorded before a crash.
//!
//! - [`Discovery::ring_buffers`](crate::discovery::Discovery::ring_buffers) finds the buffers of an
//!   image, each with its CPUs, and the state of
//!   each sub-buffer. Linux drops a CPU for one bad record. Here the rest is kept, and the
//!   reports name the unreadable parts.
//! - [`Merge`] reads the records of all CPUs in one order, with bounded memory.
//! - [`Kernel`] has the names: functions from a `System.map`, events from their format files.
//!   [`TraceText`] prints the body of the file `trace`, line for line as the next boot of Linux.
//! - [`RingSource`] gives the records to the reports of nostall-tracefile.
//!
//! The layout of 6.12 was compared with the kernel's own output. The word at offset 4 identifies
//! later layouts, which are reported by name.

mod buffer;
mod constants;
mod cpu;
mod entry;
mod graph;
mod kernel;
mod merge;
mod meta;
mod page;
mod source;
mod trace_text;
mod version;

pub(crate) use buffer::FINDER;
pub use buffer::{MOST, RingBuffer};
pub use cpu::Cpu;
pub use entry::{Common, Entry};
pub use kernel::{Kernel, OtherKernel};
pub use merge::{Merge, MergeBy, RingRecord};
pub use page::{PageReport, PageState};
pub use source::{RingSource, load_formats};
pub use trace_text::TraceText;
pub use version::Version;
