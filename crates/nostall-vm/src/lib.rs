//! Machines to run things on.
//!
//! - [`qemu`]: a child process that boots a kernel on an emulated PC or RISC-V machine. Even if the
//!   guest never starts, crashes, hangs or floods its serial line, a run ends in bounded time. Its
//!   error describes the failure, and no process and no file is left behind.
//! - [`kvm`] (x86-64 Linux): a machine of our own in this process, by the host's
//!   KVM, with the device models of [`nostall_devices`]. Exits are counted, and the
//!   serial port can be offered without most of them. It boots stock Linux kernels too
//!   (`kvm::linux`), as far as could be tested.
//! - [`model`]: no guest; several CPUs in virtual time, that share a serial port.
//! - [`process`]: a child process that cannot outlive this one, and files that leave no trace.
//!
//! QEMU and KVM are behind one trait, [`Machine`]. The crate has no experiment: those are in the
//! command, `nostall`.
//!
//! When not to use it: but for `kvm::linux` it boots kernels that speak nostall's
//! [reports](nostall_work::Report), not operating systems in general. Linux only.
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
//! for (item, told) in ran.told::<Sent>()? {
//!     println!("{}: {} bus accesses", work[item], told.bus_accesses);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Looking inside
//!
//! [`Ran`] keeps every report and every byte of the serial line. The errors carry the last output
//! of QEMU or the guest.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod exits;
mod guest;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod kvm;
mod machine;
pub mod model;
mod need;
pub mod process;
pub mod qemu;
mod ram;

pub use error::Error;
pub use exits::{ExitLog, Exits, MapChanges};
pub use guest::{Ending, Guest, Limits, Ran, Report, Work};
pub use machine::Machine;
pub use need::{Device, Need};
pub use ram::GuestRam;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
