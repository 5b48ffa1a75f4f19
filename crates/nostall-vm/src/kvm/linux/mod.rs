//! A stock Linux kernel in the KVM machine.
//!
//! **It has not been run on hardware virtualization**: the KVM of its authors interprets guest
//! code. There, Debian's kernel (6.1) starts, unpacks itself, and prints its command line, memory
//! map and ACPI tables over the serial port. After 4 minutes it stops at `cmpxchg16b`, which the
//! interpreter does not support. With `clearcpuid=141` it avoids that instruction, sets up memory
//! and interrupt controllers, and stops at the floating point unit.
//!
//! Every table is tested with Linux in QEMU, which boots with them. The start and each device are
//! tested with small kernels on KVM. Interrupts are not tested.
//!
//! | at | device | Linux's driver |
//! | --- | --- | --- |
//! | 0x3f8, interrupt 4 | the 16550A, by ports | 8250_pnp |
//! | 0xd0000000, one register a page, interrupt 4 | the same in memory | 8250_dw (ACPI HISI0031) |
//! | 0xcf8, or 0xe0000000 | a PCI host bridge with devices that do nothing | |
//! | 0x600 | ACPI power management: it turns the machine off | |
//! | 0xcf9, 0x64 | reset | |
//! | port 0xf4 | the end, with a status, as QEMU's `isa-debug-exit` | |
//! | 0xfee00000, 0xfec00000, 0x20, 0x40 | KVM's own interrupt controllers and timer | |
//!
//! ACPI tables describe all devices. There is one CPU, no disk and no network: the kernel's root is
//! its initrd.
//!
//! # Example
//!
//! ```no_run
//! # fn example(kernel: &[u8], initrd: &[u8]) -> Result<(), nostall_vm::Error> {
//! use nostall_vm::kvm::linux::{LinuxConsole, Linux, PciAccess};
//! use nostall_vm::kvm::{Kvm, Options, UartMode};
//!
//! let kvm = Kvm::find(Options { uart: UartMode::PortsCoalesced, ..Options::default() })?;
//! let command_line = "console=ttyS0 panic=-1";
//! let linux = Linux { kernel, initrd, command_line, memory: 256 << 20, pci: PciAccess::Ports };
//! let console = LinuxConsole {
//!     output: &mut std::io::stdout(),
//!     input: None,
//!     escape: false,
//!     limit: None,
//!     signals: None,
//! };
//! let finished = kvm.linux(&linux, console)?;
//! println!("{:?} after {:?}, {} bytes", finished.ended, finished.took, finished.bytes);
//! # Ok(())
//! # }
//! ```

mod acpi;
mod board;
mod boot;
mod cpu;
mod escape;
mod run;
mod signals;
mod terminal;

pub use acpi::{Configuration, Description, SerialLocation, TimerPin, tables};
pub use run::{Ended, Finished, Linux, LinuxConsole, PciAccess};
pub use signals::Signals;
pub use terminal::Terminal;
