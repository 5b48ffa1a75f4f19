//! `nostall run`: measure a path on a machine.

mod beside;
mod console;
mod input;
mod json;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kvm;
mod on;
mod pci;
mod progress;
mod pstore;
mod spi;
pub mod table;
mod uart;
mod verdict;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nostall_devices::uart::Profile;
use nostall_vm::qemu::Machine;
use on::On;

use crate::pci::json::Device;

/// Measure how a path of I/O performs, each way of doing it beside the others
///
/// Boots a virtual PC with nostall's reference kernel, or a RISC-V machine.
///
/// For `uart` it sends a real Linux boot log over its serial port in each way there
/// is. Compares byte for byte what arrives at the other end, and prints what each
/// way cost. Succeeds only if every byte arrived.
///
/// For `pstore` it moves bytes through pipes while every function that is entered
/// is recorded in persistent RAM, in each way there is, and panics. The records are
/// then read from the dead machine's RAM, and again by a second boot on the same
/// RAM. Succeeds only if all find the same.
///
/// For `pci` it lists the PCI devices by each method there is (ports, ECAM, and what is
/// chosen of them), and measures reads, writes, a scan, and a scan that sizes BARs and
/// follows capabilities. Succeeds only if all methods show the same.
///
/// For `spi` it boots a RISC-V board: identifies its flash, erases, writes and reads back
/// a sector; reads every file in the root directory of an SD card; and receives CAN frames
/// over a bus that is driven in each way there is. Succeeds only if the sector and the
/// files are as the host finds them, every frame has arrived, and nobody was woken for
/// nothing.
///
/// For `console` several CPUs log a recorded flood of messages to a slow serial port, on
/// a model in virtual time: as it locks up CPUs, and without. Succeeds only if nothing is
/// lost in silence and no CPU is held. With --on qemu the reference kernel does it in real
/// time, with a part of the flood, and leaves a panic's text in persistent RAM.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to measure; uart, if not given
    #[arg(value_name = "PATH")]
    paths: Vec<IoPath>,

    /// The machine: an emulated PC, a machine of our own on the host's KVM, or a model
    /// of the device in virtual time
    ///
    /// For pstore, where there is no device, and for the busy bus of spi, `model` is threads
    /// of the host instead.
    /// `auto` takes KVM for the serial port and for PCI where the hardware runs the guest (some
    /// KVMs interpret it), else QEMU where it is installed, else the model, and says
    /// which. Should the machine on KVM fail, it says so and goes on with the next.
    #[arg(long, value_enum, default_value_t = OnArg::Auto)]
    on: OnArg,

    /// How KVM's guest is offered the serial port (with --on kvm)
    ///
    /// `ports`: every access is an exit, as in other machines. `ports-coalesced`:
    /// transmit writes are collected by the host's kernel, while nobody waits for an
    /// interrupt. `mmio-readonly`: in memory, the line status on a page that the guest
    /// can read without an exit, transmit writes likewise. `ports` if not given.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[arg(long, value_name = "WAY", value_parser = kvm::uart)]
    uart: Option<nostall_vm::kvm::Uart>,

    /// The machine that QEMU emulates; q35, or sifive_u for spi, if not given
    #[arg(long, value_enum)]
    machine: Option<MachineArg>,

    /// CPUs of the machine; 1 for uart and pci, 4 for pstore and console, and 3 for spi, if
    /// not given
    ///
    /// At most 64; 8 for pstore, and 4 on sifive_u. At least 3 for spi.
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    cpus: Option<u16>,

    /// The serial port (with --on model; for console with --on qemu, too)
    ///
    /// `vm` empties at once, as virtual ones do; `pc-16550a` at 115,200 baud, and
    /// `fast-16550a` is another one of that kind with a published figure;
    /// `hp-dl380-gen9` is the slow port of a management controller.
    /// If not given it is `vm`, and for console first `pc-16550a` and then `hp-dl380-gen9`
    /// (in QEMU the first alone).
    #[arg(long, value_name = "NAME", value_parser = on::profile)]
    profile: Option<Profile>,

    /// Have the model's port fail after N accesses (with --on model)
    ///
    /// Faults: stuck-lsr, all-ones, no-cts, short-fifo, power-loss, slow-reads. N is
    /// 1000 if not given.
    #[arg(long, value_name = "NAME[:N]", value_parser = on::fault)]
    fault: Option<nostall_vm::model::Planned>,

    /// Send this file (- for standard input) instead of the boot log, or for console log
    /// this one instead of the flood: as dmesg shows it, at the pace of its times
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    input: Option<PathBuf>,

    /// Send N bytes of a repeating alphabet instead of the boot log
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=input::LONGEST))]
    bytes: Option<u64>,

    /// The image of the SD card for spi: a FAT16 or FAT32 file system, with or without a
    /// table of partitions; made for the occasion if not given
    ///
    /// It is only read.
    #[arg(long, value_name = "IMAGE")]
    sd: Option<PathBuf>,

    /// CAN frames to receive for spi; 100000, if not given
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=spi::MOST_FRAMES))]
    frames: Option<u32>,

    /// The line's rate in baud (with console), 300 at least, in QEMU 9600; 115200 if not
    /// given
    #[arg(long, value_name = "BAUD")]
    rate: Option<u32>,

    /// When a CPU panics, in seconds from the first line on (with console); in the middle
    /// of the log if not given
    ///
    /// Each strategy is run twice, once without.
    #[arg(long, value_name = "SECONDS", value_parser = on::seconds)]
    panic_at: Option<nostall_io::Nanos>,

    /// Draw who held the console as a picture for a browser (with console)
    #[arg(long, value_name = "FILE.svg")]
    report: Option<PathBuf>,

    /// Write what arrived to `DIR/<strategy>.bin`, or what was left in persistent RAM
    /// to `DIR/pstore.bin`
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,

    /// Write the figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// The guest kernel to boot, instead of the one inside this command
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// One more argument for QEMU; may be given again
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    qemu_arg: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  nostall run                       the serial port, on the best machine
  nostall run uart --input dmesg.txt
                                    send your own log
  nostall run uart --bytes 2500     as the test program of the seed article does
  nostall run uart --on kvm --uart mmio-readonly
                                    with almost no exits
  nostall run uart --on model --profile pc-16550a
                                    a real line's 115,200 baud, in virtual time
  nostall run uart --qemu-arg=-accel --qemu-arg=kvm
                                    QEMU with hardware virtualization
  nostall run pstore                trace, crash, read the records, boot again
  nostall run pstore --on model     the same recorders on threads of the host
  nostall run pstore --capture DIR  and keep the region: nostall postmortem
                                    DIR/pstore.bin shows every record
  nostall run pci                   list PCI devices by ports and by ECAM
  nostall run pci --qemu-arg=-device --qemu-arg=virtio-rng-pci
                                    with one more device
  nostall run pci --qemu-arg=-cpu --qemu-arg=max,-hypervisor
                                    as if it were bare metal
  nostall run pci --on kvm          and from memory that the guest can read
  nostall run uart --machine virt   a RISC-V machine's serial port
  nostall run pci --machine virt    by ECAM alone, assigned by our kernel
  nostall run spi                   a flash, an SD card, and a busy bus
  nostall run spi --sd card.img     read your own card's image
  nostall run spi --on model --frames 1000
                                    on models and threads, and sooner through
  nostall run console               a flood of messages that locks up CPUs, and
                                    one that does not
  nostall run console --report flood.svg
                                    and a picture of it
  nostall run console --on qemu     a part of it by a kernel, in real time
  nostall run console --on qemu --qemu-arg=-icount --qemu-arg=shift=5,sleep=off
                                    the same each time: 32 ns an instruction
  nostall run uart pstore           both, one after the other";

/// A path of I/O.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IoPath {
    /// The serial console
    Uart,
    /// Records that survive a crash
    Pstore,
    /// PCI configuration space
    Pci,
    /// An SPI flash, an SD card, and a busy bus
    Spi,
    /// A flood of messages on a slow serial console
    Console,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnArg {
    /// The best that is there
    Auto,
    /// QEMU, in a process of its own
    Qemu,
    /// A small machine of our own, in this process, by the host's KVM
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Kvm,
    /// No guest: the drivers against device models in virtual time
    Model,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MachineArg {
    /// A PC with PCI Express
    Q35,
    /// A RISC-V machine with a 16550 and PCI Express (QEMU's own; for all paths but spi)
    Virt,
    /// SiFive's RISC-V board of 2018, with SPI and without those (for spi and pstore)
    #[value(name = "sifive_u")]
    SifiveU,
}

impl Args {
    fn machine(&self) -> Machine {
        match self.machine {
            Some(MachineArg::Q35) => Machine::Q35,
            Some(MachineArg::Virt) => Machine::Virt,
            Some(MachineArg::SifiveU) => Machine::SifiveU,
            None if self.fits_sifive_u() => Machine::SifiveU,
            None => Machine::default(),
        }
    }

    /// Whether spi is wanted, and nothing that its machine lacks.
    fn fits_sifive_u(&self) -> bool {
        let has = |path: &IoPath| matches!(path, IoPath::Spi | IoPath::Pstore);
        self.paths.contains(&IoPath::Spi) && self.paths.iter().all(has)
    }
}

/// What measuring a path came to.
struct Answer {
    /// For people.
    text: String,
    /// For programs.
    figures: Vec<json::Figure>,
    /// PCI devices, if it is about those.
    devices: Option<Vec<Device>>,
    /// A card's files, if it is about those.
    files: Option<Vec<spi::CardFile>>,
    /// In one line, if it is not as it should be.
    failure: Option<String>,
}

/// Does what the arguments say.
///
/// # Errors
///
/// Whatever is not as it should be, in one line for a person.
pub fn run(mut args: Args) -> Result<()> {
    if args.paths.is_empty() {
        args.paths.push(IoPath::Uart);
    }
    // The other machines are QEMU's alone.
    if args.on == OnArg::Auto && on::for_qemu_only(&args, "").is_err() {
        args.on = OnArg::Qemu;
    }
    let wanted = |path| args.paths.contains(&path);
    // First the arguments' mistakes, then the system's.
    if !wanted(IoPath::Uart) {
        for_uart_only(&args)?;
    }
    if wanted(IoPath::Pstore) {
        pstore::check(&args)?;
    }
    spi::check(&args)?;
    fits_machine(&args)?;
    if wanted(IoPath::Console) {
        console::check(&args)?;
    } else {
        for_console_only(&args)?;
    }
    if !wanted(IoPath::Uart) && !wanted(IoPath::Pstore) {
        let capture = args.capture.is_none();
        ensure!(capture, "--capture goes with the paths uart and pstore");
    }
    let text = wanted(IoPath::Uart)
        .then(|| input::read(&args))
        .transpose()?;
    let card = wanted(IoPath::Spi)
        .then(|| spi::Card::open(&args))
        .transpose()?;
    let is_console = args.paths.iter().all(|path| *path == IoPath::Console);
    let chosen = if is_console && args.on != OnArg::Qemu {
        // Exact, and sooner through.
        on::for_no_guest(&args)?;
        (on::model(&args), None)
    } else {
        on::choose(&args)?
    };
    let (on, answers) = on::on_best(&args, chosen, |(on, note)| {
        measure(&args, on, note.as_deref(), text.as_ref(), card.as_ref())
    })?;

    // Files first: whoever reads our output may stop reading.
    if let Some(file) = &args.json {
        let figures = answers.iter().flat_map(|answer| &answer.figures).collect();
        let devices = answers.iter().find_map(|answer| answer.devices.as_deref());
        let files = answers.iter().find_map(|answer| answer.files.as_deref());
        let json = json::document(&on, figures, devices, files)?;
        fs::write(file, json).with_context(|| format!("--json {}", file.display()))?;
    }
    let texts: Vec<_> = answers.iter().map(|answer| answer.text.as_str()).collect();
    print(&texts.join("\n\n\n"))?;
    let mut failures = answers.into_iter().filter_map(|answer| answer.failure);
    failures.next().map_or(Ok(()), |failure| bail!(failure))
}

/// Every path that is wanted.
fn measure(
    args: &Args,
    on: &On,
    note: Option<&str>,
    text: Option<&input::Text>,
    card: Option<&spi::Card>,
) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    if let Some(text) = text {
        answers.push(uart(args, on, note, text)?);
    }
    if args.paths.contains(&IoPath::Pstore) {
        let measured = pstore::measure(on, args)?;
        if let Some(dir) = &args.capture {
            capture(dir, [("pstore", measured.image())])?;
        }
        answers.push(measured.answer());
    }
    if args.paths.contains(&IoPath::Pci) {
        answers.push(pci::measure(on, note, args)?.answer());
    }
    if let Some(card) = card {
        answers.push(spi::measure(on, args, card)?.answer());
    }
    if args.paths.contains(&IoPath::Console) {
        answers.push(console::measure(args, on)?);
    }
    Ok(answers)
}

fn uart(args: &Args, on: &On, note: Option<&str>, text: &input::Text) -> Result<Answer> {
    let measured = uart::measure(on, args.cpus.unwrap_or(1), &args.qemu_arg, text)?;
    if let Some(dir) = &args.capture {
        capture(dir, measured.captures())?;
    }
    let faults = measured.faults();
    let mut heading = vec![measured.headline.as_str()];
    heading.extend(note);
    let text = text.describe(measured.line.len(), measured.rounds);
    heading.push(&text);
    let mut parts = vec![heading.join("\n"), measured.table()];
    if !measured.beside.is_empty() {
        parts.push(beside::table(&measured.beside));
    }
    parts.extend(measured.published());
    parts.push(if faults.is_empty() {
        measured.success()
    } else {
        format!("Not every byte arrived:\n  {}", faults.join("\n  "))
    });
    Ok(Answer {
        text: parts.join("\n\n"),
        figures: json::uart(on, &measured),
        devices: None,
        files: None,
        failure: measured.failure(),
    })
}

/// Whether the machine has what the paths are about, and as many CPUs.
fn fits_machine(args: &Args) -> Result<()> {
    let machine = args.machine();
    let lacks = [
        (IoPath::Uart, machine.has_16550(), "uart", "no 16550"),
        (IoPath::Pci, machine.has_pci(), "pci", "no PCI"),
        (IoPath::Console, machine.has_16550(), "console", "no 16550"),
    ];
    for (path, has, name, lacks) in lacks {
        ensure!(
            has || !args.paths.contains(&path),
            "--machine {machine} has {lacks}: {name} runs on q35 and virt"
        );
    }
    let has_spi = spi::fits(machine) || args.on == OnArg::Model;
    let lacks_spi = args.paths.contains(&IoPath::Spi) && !has_spi;
    ensure!(
        args.machine.is_some() || !lacks_spi,
        "no machine has all of these: spi runs on sifive_u, uart and pci on q35 and virt"
    );
    ensure!(
        !lacks_spi,
        "--machine {machine} has no SPI: spi runs on sifive_u"
    );
    let (cpus, most) = (args.cpus.unwrap_or(1), *machine.cpus().end());
    ensure!(
        cpus <= most,
        "--cpus {cpus}: {machine} has {most} at most that run a kernel"
    );
    Ok(())
}

/// Nothing that was asked for is dropped in silence.
fn for_uart_only(args: &Args) -> Result<()> {
    ensure!(args.bytes.is_none(), "--bytes goes with the path uart");
    ensure!(args.fault.is_none(), "--fault goes with the path uart");
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    ensure!(args.uart.is_none(), "--uart goes with the path uart");
    if args.paths.contains(&IoPath::Console) {
        return Ok(());
    }
    ensure!(args.input.is_none(), "--input goes with the path uart");
    if let Some(profile) = args.profile {
        bail!("--profile {} goes with the path uart", profile.name);
    }
    Ok(())
}

fn for_console_only(args: &Args) -> Result<()> {
    let rate = args.rate.is_none();
    ensure!(rate, "--rate goes with the path console");
    let panic_at = args.panic_at.is_none();
    ensure!(panic_at, "--panic-at goes with the path console");
    let report = args.report.is_none();
    ensure!(report, "--report goes with the path console");
    Ok(())
}

/// To stdout. A reader that has gone away has seen enough.
fn print(text: &str) -> Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(()),
    }
}

fn capture<'a>(
    dir: &Path,
    captures: impl IntoIterator<Item = (&'static str, &'a [u8])>,
) -> Result<()> {
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        for (name, bytes) in captures {
            fs::write(dir.join(format!("{name}.bin")), bytes)?;
        }
        Ok(())
    };
    write().with_context(|| format!("--capture {}", dir.display()))
}
