//! The jobs that nostall measures, and the host-guest protocol.
//!
//! A job is the same code everywhere: in the reference kernel on real registers, and on the host on
//! a model in virtual time. The machine passes a [`WorkList`] to the guest as its command line. The
//! guest answers with JSON lines, one [`Report`] each.
//!
//! Each experiment is a module with a [`Job`], parsed from and printed as a word of the list, and
//! the result type of its reports. A new experiment needs its module, and one line in the table of
//! kinds below, in `lib.rs`.
//!
//! When not to use it: it only serves nostall's own machines and kernels.
//!
//! # Example
//!
//! ```
//! use nostall_devices::uart::{Profile, Uart};
//! use nostall_io::Counting;
//! use nostall_uart::{Console, LineSettings};
//! use nostall_work::{LONGEST_REPORT, Report, WorkList, uart};
//!
//! let list = WorkList::parse("cpus=1 repeat=1 uart:fifo-burst:lines").unwrap();
//! let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
//! let mut console =
//!     Console::open(Counting::new(port), &clock, LineSettings::baud(115_200)).unwrap();
//!
//! for (item, work) in list.iter().enumerate() {
//!     let Some(job) = work.job::<uart::Job>() else { continue };
//!     let result = uart::send(&mut console, job, b"two\nlines\n", || clock.slept());
//!     assert_eq!((result.written, result.dropped), (12, 0));
//!
//!     let mut line = [0; LONGEST_REPORT];
//!     let line = Report::Result { item: item as u16, result }.encode(&mut line);
//!     assert!(line.starts_with(br#"{"result":{"item":0,"#));
//! }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod checksum;
#[cfg(target_has_atomic = "64")]
pub mod console;
mod job;
mod list;
pub mod pci;
mod peer;
pub mod pstore;
mod report;
pub mod script;
pub mod spi;
#[cfg(target_has_atomic = "64")]
pub mod trace;
pub mod uart;

pub use job::{BadJob, BusCheck, CallTimes, ConsoleCost, Example, Failure, Job, LogCost};
pub use list::{BadWord, Item, Timer, UartWindow, WorkList};
pub use report::{Event, FIRMWARE_DONE, LONGEST_REPORT, Report, ReportText, text};

use job::Kind;

/// Every kind of work that a list may contain.
const KINDS: &[Kind] = &[
    Kind::of::<uart::Job>(),
    Kind::of::<script::Job>(),
    Kind::of::<pstore::Job>(),
    Kind::of::<pci::Job>(),
    Kind::of::<spi::Job>(),
    #[cfg(target_has_atomic = "64")]
    Kind::of::<console::Job>(),
    #[cfg(target_has_atomic = "64")]
    Kind::of::<trace::Job>(),
    Kind::of::<Example>(),
    Kind::of::<BusCheck>(),
    Kind::of::<Failure>(),
];
