//! A machine of our own, by the host's KVM: a PC with one CPU, whose serial port is
//! offered as DESIGN's "The other end of the wire" has it.
//!
//! | at | what |
//! | --- | --- |
//! | 0x3f8, or 0xd0000000 one register a page | a 16550A of [`nostall_devices::uart`], its line taking everything at once |
//! | ports 0xcf8 to 0xcff, and 0xe0000000 by ECAM, 16 buses | a PCI host bridge with the devices of [`Topology`], none of which does anything |
//! | port 0xe9 | the report channel, as QEMU's `isa-debugcon` |
//! | port 0xf4 | the end, as QEMU's `isa-debug-exit` |
//! | 0xfee00000, 0xfec00000, 0x20, 0x40 | KVM's own interrupt controllers and timer, where it has them |
//!
//! Every other port and address reads all ones and ignores what is written. The
//! kernel is entered by PVH; the start info has a memory map, a command line, the
//! input as a module, and ACPI tables.
//!
//! # Example
//!
//! ```no_run
//! # fn example(kernel: &[u8], text: &[u8]) -> Result<(), nostall_vm::Error> {
//! use nostall_vm::kvm::{Kvm, Options, Uart};
//! use nostall_vm::{Ending, Guest, Limits, Machine};
//! use nostall_work::uart::{Job, Sent};
//!
//! let kvm = Kvm::find(Options { uart: Uart::MmioReadonly, ..Options::default() })?;
//! kvm.notes().iter().for_each(|note| eprintln!("{note}"));
//! let work: Vec<_> = Job::ours().map(Into::into).collect();
//! let guest = Guest { work: &work, input: text, ..Guest::new(kernel, 1) };
//! let limits = Limits::of(8, 16 * text.len() as u64);
//! let ran = kvm.run(&guest, &limits, Ending::Done, &mut |_| {})?;
//! for (item, _, exits) in ran.told_with_exits::<Sent>()? {
//!     let exits = exits.unwrap_or_default();
//!     println!("{}: {} exits, {} writes collected", work[item], exits.uart, exits.collected);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Topology`]: nostall_devices::pci::Topology
//!
//! # Some KVMs interpret
//!
//! `/dev/kvm` may be there and be no hardware virtualization: where a host's kernel
//! has to interpret guest code, an instruction takes about half a microsecond. Exits
//! are counted there as anywhere, but a time tells only of the interpreter.
//! [`Kvm::speed`] measures which it is.
//!
//! # Who drains what was collected
//!
//! Writes that KVM collects lie in a ring until somebody looks. The CPU's thread
//! looks at every exit, before the exit is handled; and the thread that watches the
//! run looks every 2 ms, whatever the CPU does. Both hold the lock on the ring and
//! the devices behind it, so that order is kept. The lock is fair, and a watcher that does
//! not get it still ends the run in time. A timer that stops the CPU would need no lock,
//! but each tick would be one more exit.
//!
//! # Output that is not taken
//!
//! The guest's serial output waits in memory until the caller takes it. With
//! [`Machine::run`], that is at the end of the run: above [`Limits::serial_bytes`] the CPU
//! waits, and the run ends with [`Error::Flood`]. With [`Kvm::linux`] the CPU waits
//! above 1 MiB until `Console::output` has taken the bytes. Every exit ends with this check.
//! One exit and one full ring of collected writes (4,266 bytes) can come on top; nothing is
//! dropped.

mod acpi;
mod boot;
mod bus;
mod capabilities;
mod cpu;
mod exit;
pub mod linux;
mod mapping;
mod pci;
mod ring;
mod run;
mod serial;
mod speed;
mod statistics;
mod thread;

use std::io;

pub use capabilities::Capabilities;
use kvm_ioctls::{Cap, VmFd};
pub use pci::Pci;
pub use serial::Uart;
pub use speed::Speed;

use crate::Error;
use crate::guest::{Ending, Guest, Limits, Ran};
use crate::machine::{self, Device, Machine, Need};

/// Where it is.
const PATH: &str = "/dev/kvm";

/// What the machine is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How the serial port is offered.
    pub uart: Uart,
    /// How PCI configuration space is offered.
    pub pci: Pci,
}

/// The host's KVM.
#[derive(Debug)]
pub struct Kvm {
    system: kvm_ioctls::Kvm,
    capabilities: Capabilities,
    options: Options,
    notes: Vec<String>,
}

impl Kvm {
    /// The host's KVM, to run machines with `options`, or what comes closest to
    /// them: [`notes`](Self::notes) says what is missing.
    ///
    /// # Errors
    ///
    /// [`Error::NoKvm`] if it is not there or may not be used; [`Error::Kvm`] if it
    /// is not as it should be.
    pub fn find(options: Options) -> Result<Self, Error> {
        let no_kvm = |errno: kvm_ioctls::Error| Error::NoKvm {
            path: PATH,
            source: errno.into(),
        };
        let system = kvm_ioctls::Kvm::new().map_err(no_kvm)?;
        if system.get_api_version() != kvm_bindings::KVM_API_VERSION as i32 {
            let source = io::Error::other("another version of its interface");
            return Err(Error::NoKvm { path: PATH, source });
        }
        let capabilities = Capabilities::of(&system);
        let (options, notes) = capabilities.settle(options);
        Ok(Self {
            system,
            capabilities,
            options,
            notes,
        })
    }

    /// What it can do.
    pub const fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// What its machines have.
    pub const fn options(&self) -> Options {
        self.options
    }

    /// A line for each thing that was asked for and that this KVM cannot do, with
    /// what is done instead.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How fast it runs guest code: measured, in some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::Kvm`], or [`Error::Cpu`] if it does not even run a loop.
    pub fn speed(&self) -> Result<Speed, Error> {
        Speed::measure(&self.system)
    }
}

/// Checks that a guest on KVM's machine can have all that is needed.
///
/// # Errors
///
/// [`Error::Lacks`] or [`Error::Cpus`].
pub fn offers(need: &Need<'_>) -> Result<(), Error> {
    machine::offers("kvm", &[Device::Uart16550, Device::Pci], 1, need)
}

/// While `progress` runs, collected writes are not taken.
///
/// The signal SIGRTMIN is taken for stopping the CPU, in the whole process, and for good: its
/// handler does nothing.
impl Machine for Kvm {
    fn describe(&self) -> String {
        format!("kvm, {}", self.options.uart)
    }

    fn offers(&self, need: &Need<'_>) -> Result<(), Error> {
        offers(need)
    }

    fn run(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        ending: Ending,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran, Error> {
        self.offers(&Need {
            devices: &[],
            cpus: guest.cpus,
        })?;
        run::run(self, guest, limits, ending, progress)
    }
}

/// Where Intel's KVM keeps three pages of its own: below the firmware's end. It needs
/// them where the hardware cannot run a guest whose paging is off.
const TASK_STATE: usize = 0xfffb_d000;

/// A machine with nothing in it.
fn create_vm(system: &kvm_ioctls::Kvm) -> Result<VmFd, Error> {
    let vm = system.create_vm().map_err(failed("create a machine"))?;
    if system.check_extension(Cap::SetTssAddr) {
        vm.set_tss_address(TASK_STATE)
            .map_err(failed("place its own pages"))?;
    }
    Ok(vm)
}

/// KVM failed at something.
fn failed(doing: &'static str) -> impl Fn(kvm_ioctls::Error) -> Error {
    move |errno| Error::Kvm {
        doing,
        source: errno.into(),
    }
}
