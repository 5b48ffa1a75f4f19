//! Machines to run things on.
//!
//! - [`qemu`]: a child process that boots a kernel on an emulated PC or RISC-V machine. Whatever
//!   the guest does (never starts, dies, hangs, floods its serial line), a run
//!   ends in bounded time, with an error that says what happened, and leaves no
//!   process and no file behind.
//! - [`kvm`] (x86-64 Linux): a machine of our own in this process, by the host's
//!   KVM, with the device models of [`nostall_devices`]. Exits are counted, and the
//!   serial port can be offered without most of them. It boots stock Linux kernels too
//!   (`kvm::linux`), as far as could be tested.
//! - [`model`]: no guest; nostall's drivers on the host, against device models
//!   in virtual time.
//! - [`console`]: the same with several CPUs, each with its own time, which log a flood
//!   of messages to one serial port.
//! - [`threads`]: no guest and no model; the recorders on threads of the host.
//! - [`process`]: for whoever else runs a child: one that cannot outlive us, and files
//!   that leave no trace.
//!
//! [`uart`], [`pci`], [`pstore`] and [`spi`] run one experiment each on QEMU; the first two
//! on KVM and on the model as well, the third on threads, the last on models and threads.
//!
//! When not to use it: but for `kvm::linux` it boots kernels that speak nostall's
//! [reports](nostall_work::Report), not operating systems in general. Linux only.
//!
//! # Example
//!
//! The boot messages of a kernel, sent by every strategy, on the model:
//!
//! ```
//! use nostall_devices::uart::Profile;
//! use nostall_vm::{model, uart::Experiment};
//! use nostall_work::uart::Job;
//!
//! let jobs: Vec<Job> = Job::ours().collect();
//! let experiment = Experiment { jobs: &jobs, repeat: 1, text: b"[0.000000] Linux\n" };
//! let outcome = model::uart(Profile::VM, None, &experiment, &mut |_| {})?;
//! assert_eq!(outcome.sent.len(), jobs.len());
//! assert!(outcome.arrived.iter().all(|arrived| arrived == b"[0.000000] Linux\r\n"));
//! # Ok::<(), nostall_uart::OpenError>(())
//! ```
//!
//! # Looking inside
//!
//! [`qemu::Ran`] keeps every report and every byte of the serial line, and the
//! errors carry what QEMU or the guest said last.

pub mod console;
mod error;
mod exits;
mod guest;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod kvm;
mod machine;
pub mod model;
pub mod pci;
pub mod process;
pub mod pstore;
pub mod qemu;
mod ram;
pub mod spi;
pub mod threads;
pub mod uart;

pub use error::Error;
pub use exits::{ExitLog, Exits, MapChanges};
pub use guest::{Ending, Guest, Limits, Ran, Report, Work};
pub use machine::{Device, Machine, Need};
pub use ram::GuestRam;
