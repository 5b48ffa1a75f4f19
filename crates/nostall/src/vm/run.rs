//! `nostall vm run`: boots a stock Linux kernel.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nostall_vm::kvm::linux::{self, Ended, Linux, LinuxConsole, Signals, Terminal};
use nostall_vm::kvm::{Kvm, Options, PciMode, UartMode};

use super::stats;
use crate::pstore::number;

/// Boot a stock Linux kernel, its serial port offered with as few exits as possible
///
/// One CPU, memory, a serial port, PCI devices that do nothing; no disk and no network:
/// what Linux runs is in its initrd. The serial port is this terminal (Ctrl-A and then x
/// leaves). It ends when Linux turns the machine off or resets it.
///
/// It has NOT been run on hardware virtualization by its authors, whose KVM interprets
/// guest code and gives up in the middle of a boot; what it gives to Linux has been
/// tested piece by piece. Please tell us how it went: docs/src/serial-console.md has a
/// recipe that prints what to report.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The kernel: a bzImage (such as /boot/vmlinuz-*), or a vmlinux with a PVH entry
    #[arg(value_name = "BZIMAGE")]
    kernel: PathBuf,

    /// The initial RAM disk
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,

    /// The kernel's command line
    ///
    /// If not given, `panic=-1` and the console as it is found: `console=ttyS0`, or with
    /// `mmio-readonly` `console=ttyS4 8250.nr_uarts=5`. There ttyS0 to ttyS3 are the
    /// ports of PCs, of which this machine then has none; and there is no earlycon,
    /// which knows no such distance between registers.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append: Option<String>,

    /// The machine's RAM
    #[arg(long, value_name = "SIZE", value_parser = number::parse, default_value = "256M")]
    memory: u64,

    /// How the serial port is offered: ports, ports-coalesced, mmio-readonly
    ///
    /// `ports`: every access is an exit, as in other machines. `ports-coalesced`:
    /// transmit writes are collected by the host's kernel while no interrupt is
    /// expected. `mmio-readonly`: in memory, one register a page, the line status on a
    /// page that the guest can read without an exit, transmit writes likewise; it needs
    /// a kernel with CONFIG_SERIAL_8250_DW=y (Debian's have it).
    #[arg(long, value_name = "MODE", value_parser = uart, default_value = "ports-coalesced")]
    uart_mode: UartMode,

    /// How PCI configuration space is offered: ports, ports-coalesced, ecam, ecam-shadow
    ///
    /// `ports`: two exits a read. `ports-coalesced`: one, as in QEMU. `ecam`: in memory
    /// alone, one exit a read. `ecam-shadow`: the same, in memory that the guest can read
    /// without an exit.
    #[arg(long, value_name = "WAY", value_parser = Configuration::parse,
          default_value = "ecam-shadow")]
    pci: Configuration,

    /// End it after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Print at its end how long it took and what it cost, to stderr
    #[arg(long)]
    stats: bool,

    /// Run even if KVM interprets guest code; booting may fail
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  nostall vm run /boot/vmlinuz-6.1.0-44-amd64 --initrd initrd.img --stats
  nostall vm run bzImage --initrd init.cpio --uart-mode mmio-readonly --stats --timeout 60
  nostall vm run bzImage --initrd init.cpio --append 'console=ttyS0 quiet panic=-1'";

/// How PCI configuration space is offered, in this command's words.
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

    /// What is really offered, where KVM could not do it.
    fn settled(self, offered: PciMode) -> Self {
        let mut all = CONFIGURATIONS.into_iter();
        all.find(|way| way.found == self.found && way.offered == offered)
            .unwrap_or(self)
    }
}

fn uart(name: &str) -> Result<UartMode, String> {
    name.parse().map_err(|()| {
        format!(
            "the modes are {}",
            UartMode::ALL.map(UartMode::name).join(", ")
        )
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| !span.is_zero())
        .ok_or_else(|| format!("not a number of seconds: {text}"))
}

/// Does what the arguments say.
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
        "this KVM {speed}: Linux would take hours to boot, or stop at an instruction that it \
         does not know; --force runs it all the same"
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
        // After the signals: before they do as they did, the terminal is as it was.
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
        Ended::TooLong => bail!("the time of --timeout is over, and Linux still runs"),
    }
}

/// The command line that shows Linux on its serial port.
fn console(uart: UartMode) -> &'static str {
    match uart {
        UartMode::Ports | UartMode::PortsCoalesced => "console=ttyS0 panic=-1",
        // The first of Linux's ports that has no address of a PC's. It would make such
        // a one its console at once, without a look if it is there.
        UartMode::MmioReadonly => "console=ttyS4 8250.nr_uarts=5 panic=-1",
    }
}

/// All of a file that fits the machine's memory: it may be a device without an end.
fn read(path: &Path, memory: u64) -> Result<Vec<u8>> {
    let name = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(name)?;
    let mut content = Vec::new();
    file.take(memory.saturating_add(1))
        .read_to_end(&mut content)
        .with_context(name)?;
    ensure!(
        content.len() as u64 <= memory,
        "{}: larger than the machine's memory; see --memory",
        path.display()
    );
    Ok(content)
}

/// Says something, apart from what Linux says.
fn tell(text: &str) {
    // Nowhere to say it to is no reason to panic.
    let _ = writeln!(io::stderr(), "{text}");
}
