//! Machines that run kernels, and the processes around them.
//!
//! - [`qemu`]: a child process that boots a kernel on an emulated PC, RISC-V or Arm machine. A run
//!   ends in bounded time, even if the guest never starts, crashes, hangs or floods its serial line.
//!   Its error describes the failure. No process and no file remains.
//! - [`kvm`] (x86-64 Linux): a machine in this process, with the host's KVM and the device models
//!   of [`nostall_devices`]. It counts exits, and can offer a serial port that needs few of them.
//! - [`model`]: several CPUs in virtual time that share a serial port, without a guest.
//! - [`process`]: a child process that cannot outlive this one, and files in memory.
//!
//! QEMU and KVM implement one trait, [`Machine`]. Experiments are not part of this crate: they are
//! in the command, `nostall`.
//!
//! When not to use it: it only boots kernels that send nostall's [reports](nostall_work::Report),
//! not operating systems in general. Linux only.
//!
//! # Example
//!
//! ```no_run
//! # fn example(kernel: &[u8]) -> Result<(), nostall_vm::Error> {
//! use nostall_vm::qemu::{Qemu, QemuBoard};
//! use nostall_vm::{Ending, Guest, Limits, Machine};
//! use nostall_work::uart::{Job, Sent};
//!
//! let qemu = Qemu::find(QemuBoard::Q35)?;
//! let work: Vec<_> = Job::ours().map(Into::into).collect();
//! let guest = Guest { work: &work, input: b"[0.000000] Linux\n", ..Guest::new(kernel, 1) };
//! let limits = Limits::of(8, 8 * 18);
//! let ran = qemu.run(&guest, &limits, Ending::Done, &mut |_| {})?;
//! for (item, result) in ran.results::<Sent>()? {
//!     println!("{}: {} bus accesses", work[item], result.bus_accesses);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Looking inside
//!
//! [`GuestRun`] contains every report and every byte of the serial line. The errors contain the last
//! output of QEMU or the guest.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod exits;
mod guest;
pub mod kvm;
mod machine;
pub mod model;
mod need;
pub mod process;
pub mod qemu;
mod ram;

pub use error::Error;
pub use exits::{ExitLog, Exits, MapChanges};
pub use guest::{Ending, FLASH_BYTES, Guest, GuestRun, Limits, Report, Work};
pub use machine::Machine;
pub use need::{Device, Need};
pub use ram::GuestRam;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
