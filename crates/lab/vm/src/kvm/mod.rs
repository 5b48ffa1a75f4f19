//! A PC with one CPU, using the host's KVM. Its serial port and its PCI bus cause as few exits as
//! [`Options`] selects.
//!
//! | address | device |
//! | --- | --- |
//! | 0x3f8, or 0xd0000000 one register a page | a 16550A of [`nostall_devices::uart`], whose line takes everything at once |
//! | ports 0xcf8 to 0xcff, and 0xe0000000 as ECAM, 16 buses | a PCI host bridge with the devices of [`Topology`], none of which does anything |
//! | port 0xe9 | the report channel, like QEMU's `isa-debugcon` |
//! | port 0xf4 | the end of the run, like QEMU's `isa-debug-exit` |
//! | 0xfee00000, 0xfec00000, 0x20, 0x40 | KVM's own interrupt controllers and timer, if it has them |
//!
//! All other ports and addresses read all ones and ignore writes. The kernel is entered with
//! PVH. The start info has a memory map, a command line, the input as a module, and ACPI
//! tables.
//!
//! # Example
//!
//! ```no_run
//! # fn example(kernel: &[u8], text: &[u8]) -> Result<(), nostall_vm::Error> {
//! use nostall_vm::kvm::{Kvm, Options, UartMode};
//! use nostall_vm::{Ending, Guest, Limits, Machine};
//! use nostall_work::uart::{Job, Sent};
//!
//! let kvm = Kvm::find(Options { uart: UartMode::MmioReadonly, ..Options::default() })?;
//! kvm.notes().iter().for_each(|note| eprintln!("{note}"));
//! let work: Vec<_> = Job::ours().map(Into::into).collect();
//! let guest = Guest { work: &work, input: text, ..Guest::new(kernel, 1) };
//! let limits = Limits::of(8, 16 * text.len() as u64);
//! let ran = kvm.run(&guest, &limits, Ending::Done, &mut |_| {})?;
//! for (item, _, exits) in ran.results_with_exits::<Sent>()? {
//!     let exits = exits.unwrap_or_default();
//!     println!("{}: {} exits, {} writes collected", work[item], exits.uart, exits.collected);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Topology`]: nostall_devices::pci::Topology
//!
//! # KVM without hardware virtualization
//!
//! `/dev/kvm` may exist without hardware virtualization. If the host's kernel interprets guest
//! code, an instruction takes about half a microsecond. Exit counts are as on any host, but
//! durations are those of the interpreter. [`Kvm::speed`] measures whether KVM interprets.
//!
//! # Draining collected writes
//!
//! Writes that KVM collects stay in a ring until it is drained. The CPU's thread drains the ring at
//! every exit, before it handles the exit. The watching thread drains it every 2 ms, independently
//! of the CPU. Both threads hold the lock on the ring and its devices, which preserves the order.
//!
//! The lock is fair. A watcher that cannot get it still ends the run in time. A timer that stops
//! the CPU would need no lock, but each tick would be one more exit.
//!
//! # Untaken output
//!
//! The guest's serial output stays in memory until the caller takes it. With
//! [`Machine::run`](crate::Machine::run), that is at the end of the run. Above
//! [`Limits::serial_bytes`](crate::Limits::serial_bytes) the CPU waits, and the run ends with
//! [`Error::Flood`]. Every exit ends with this check. One exit and one full ring of collected writes (4,266 bytes) can exceed the
//! limit; no byte is dropped.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod absent;
mod options;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod pc;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod run;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod speed;

use crate::Error;
use crate::machine;
use crate::need::{Device, Need};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use absent::Kvm;
pub use options::{Capabilities, Options, PciMode, Speed, UartMode};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use pc::Kvm;

/// Checks that KVM's machine has the required devices and CPUs.
///
/// # Errors
///
/// [`Error::Lacks`] or [`Error::Cpus`] for the first missing requirement.
pub fn offers(need: &Need<'_>) -> Result<(), Error> {
    machine::offers(
        "kvm",
        &[Device::Uart, Device::Uart16550, Device::Pci],
        1,
        need,
    )
}
