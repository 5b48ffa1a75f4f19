//! `nostall vm run`: boots a stock Linux kernel.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nostall_postmortem::cli::read_or;
use nostall_vm::kvm::linux::{self, Ended, Linux, LinuxConsole, Signals, Terminal};
use nostall_vm::kvm::{Kvm, Options, PciMode, UartMode};

use super::stats;
use crate::experiments::uart_mode;
use crate::pstore::number;

/// Boot a stock Linux kernel with few VM exits for its serial port and PCI
///
/// The machine has one CPU, memory, a serial port and PCI devices without a function. It has no
/// disk and no network, so Linux's programs are in its initrd. The serial port is this terminal
/// (Ctrl-A and then x leaves). The command ends when Linux turns the machine off or resets it.
///
/// It has NOT been run on hardware virtualization: the KVM of its authors interprets guest code and
/// stops in the middle of a boot. Each part of the machine has been tested alone. Please report
/// your result: docs/src/serial-console.md has a recipe that prints the figures.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Kernel to boot: a bzImage (such as /boot/vmlinuz-*), or a vmlinux with a PVH entry
    #[arg(value_name = "BZIMAGE")]
    kernel: PathBuf,

    /// Initial RAM disk
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,

    /// Command line of the kernel
    ///
    /// The default is `panic=-1` and the console: `console=ttyS0`, or with `mmio-readonly`
    /// `console=ttyS4 8250.nr_uarts=5`. In Linux, ttyS0 to ttyS3 are a PC's ports, which this
    /// machine does not have in that mode. It has no earlycon either, because earlycon does not
    /// support such a distance between registers.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append: Option<String>,

    /// RAM of the machine
    #[arg(long, value_name = "SIZE", value_parser = number::parse, default_value = "256M")]
    memory: u64,

    /// Access to the serial port: ports, ports-coalesced, mmio-readonly
    ///
    /// `ports`: every access is an exit, as on other machines. `ports-coalesced`: the host's kernel
    /// collects transmit writes while no interrupt is expected. `mmio-readonly`: the port is in
    /// memory, one register a page. The guest reads the line status without an exit, and transmit
    /// writes are collected. It needs a kernel with CONFIG_SERIAL_8250_DW=y, which Debian's kernels
    /// have.
    #[arg(long, value_name = "MODE", value_parser = uart_mode, default_value = "ports-coalesced")]
    uart_mode: UartMode,

    /// Access to PCI configuration space: ports, ports-coalesced, ecam, ecam-shadow
    ///
    /// `ports`: two exits a read. `ports-coalesced`: one exit a read, as in QEMU. `ecam`: in memory
    /// only, one exit a read. `ecam-shadow`: in memory that the guest reads without an exit.
    #[arg(long, value_name = "WAY", value_parser = Configuration::parse,
          default_value = "ecam-shadow")]
    pci: Configuration,

    /// End the machine after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Print the duration and the exits to stderr at the end
    #[arg(long)]
    stats: bool,

    /// Run even if KVM interprets guest code; booting may fail
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  nostall vm run /boot/vmlinuz-6.1.0-44-amd64 --initrd initrd.img --stats
  nostall vm run bzImage --initrd init.cpio --uart-mode mmio-readonly \\
      --stats --timeout 60
  nostall vm run bzImage --initrd init.cpio \\
      --append 'console=ttyS0 quiet panic=-1'";

/// A mode of PCI configuration space, with its name on the command line.
#[derive(Clone, Copy)]
struct Configuration {
    name: &'static str,
    found: linux::PciAccess,
    offered: PciMode,
}

const CONFIGURATIONS: [Configuration; 4] = [
    Configuration::new("ports", linux::PciAccess::Ports, PciMode::Trap),
    Configuration::new(
        "ports-coalesced",
        linux::PciAccess::Ports,
        PciMode::PortsCoalesced,
    ),
    Configuration::new("ecam", linux::PciAccess::Ecam, PciMode::Trap),
    Configuration::new("ecam-shadow", linux::PciAccess::Ecam, PciMode::EcamShadow),
];

impl Configuration {
    const fn new(name: &'static str, found: linux::PciAccess, offered: PciMode) -> Self {
        Self {
            name,
            found,
            offered,
        }
    }

    fn parse(name: &str) -> Result<Self, String> {
        let mut all = CONFIGURATIONS.into_iter();
        all.find(|way| way.name == name).ok_or_else(|| {
            let names = CONFIGURATIONS.map(|way| way.name);
            format!("the modes are {}", names.join(", "))
        })
    }

    /// Returns the mode that is in use, if KVM does not support this one.
    fn settled(self, offered: PciMode) -> Self {
        let mut all = CONFIGURATIONS.into_iter();
        all.find(|way| way.found == self.found && way.offered == offered)
            .unwrap_or(self)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| !span.is_zero())
        .ok_or_else(|| format!("not a number of seconds: {text}"))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let kernel = read(&args.kernel, args.memory)?;
    let initrd = args.initrd.as_deref();
    let initrd = initrd.map_or(Ok(vec![]), |path| read(path, args.memory))?;
    let kvm = Kvm::find(Options {
        uart: args.uart_mode,
        pci: args.pci.offered,
    })?;
    let speed = kvm.speed()?;
    ensure!(
        args.force || !speed.is_interpreted(),
        "this KVM {speed}: Linux would take hours to boot, or stop at an \
         unsupported instruction; --force runs it all the same"
    );
    for note in kvm.notes() {
        tell(note);
    }
    let command_line = match &args.append {
        Some(text) => text,
        None => console(kvm.options().uart),
    };
    let linux = Linux {
        kernel: &kernel,
        initrd: &initrd,
        command_line,
        memory: args.memory,
        pci: args.pci.found,
    };
    let finished = {
        let signals = Signals::note()?;
        // After the signals, so that the terminal is restored before they are.
        let terminal = Terminal::raw()?;
        let stdin = io::stdin();
        let console = LinuxConsole {
            output: &mut io::stdout(),
            input: Some(stdin.as_fd()),
            escape: terminal.is_some(),
            limit: args.timeout,
            signals: Some(&signals),
        };
        kvm.linux(&linux, console)?
    };
    if args.stats {
        let pci = args.pci.settled(kvm.options().pci).name;
        let uart = kvm.options().uart;
        tell(&stats::of(&finished, uart.name(), pci, speed));
    }
    match finished.ended {
        Ended::Off | Ended::Reset | Ended::Left | Ended::Status(_) => Ok(()),
        Ended::Signal => bail!("ended by a signal"),
        Ended::TooLong => bail!("Linux still runs at the end of --timeout"),
    }
}

/// Returns the command line that directs Linux's console to its serial port.
fn console(uart: UartMode) -> &'static str {
    match uart {
        UartMode::Ports | UartMode::PortsCoalesced => "console=ttyS0 panic=-1",
        // The first of Linux's ports without the address of a PC's port. Linux would use an
        // earlier one as its console at once, even if it does not exist.
        UartMode::MmioReadonly => "console=ttyS4 8250.nr_uarts=5 panic=-1",
    }
}

/// Reads a file, up to the size of the machine's memory, because a device may have no end.
fn read(path: &Path, memory: u64) -> Result<Vec<u8>> {
    let most = usize::try_from(memory)?;
    let too_large = || anyhow!("larger than the machine's memory; see --memory");
    read_or(path, most, too_large).with_context(|| format!("cannot read {}", path.display()))
}

/// Prints a message on stderr, apart from Linux's output.
fn tell(text: &str) {
    // A closed stderr is no reason to panic.
    let _ = writeln!(io::stderr(), "{text}");
}
