//! The jobs that nostall measures, and the words in which a machine and its
//! guest speak of them.
//!
//! A job is the same code wherever it runs: in the reference kernel, on real
//! registers, or on the host, on a model in virtual time. The machine gives the
//! guest a [`WorkList`] as its command line; the guest answers with one
//! [`Report`] a line, as JSON.
//!
//! When not to use it: it is of use to nostall's own machines and kernels only.
//!
//! # Example
//!
//! ```
//! use nostall_devices::uart::{Profile, Uart};
//! use nostall_io::Counting;
//! use nostall_uart::{Console, LineSettings};
//! use nostall_work::{Report, Work, WorkList, uart};
//!
//! let list = WorkList::parse("cpus=1 repeat=1 uart:fifo-burst:lines").unwrap();
//! let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
//! let mut console =
//!     Console::open(Counting::new(port), &clock, LineSettings::baud(115_200)).unwrap();
//!
//! for (item, work) in list.iter().enumerate() {
//!     let Work::Uart(job) = work else { continue };
//!     let sent = uart::send(&mut console, job, b"two\nlines\n", || clock.slept());
//!     assert_eq!((sent.written, sent.dropped), (12, 0));
//!
//!     let mut line = [0; Report::LONGEST];
//!     let line = Report::Sent { item: item as u16, sent }.encode(&mut line);
//!     assert!(line.starts_with(br#"{"sent":{"item":0,"#));
//! }
//! ```

#![no_std]
#![deny(unsafe_code)]

#[cfg(target_has_atomic = "64")]
pub mod console;
mod list;
pub mod pci;
mod peer;
pub mod pstore;
mod report;
pub mod script;
pub mod spi;
pub mod uart;

pub use list::{BadWord, Failure, Timer, Window, Work, WorkList};
pub use report::{FIRMWARE_DONE, Report, Text, Values};
