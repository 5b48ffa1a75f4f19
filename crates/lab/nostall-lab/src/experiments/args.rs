//! Arguments that experiments share.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum, value_parser};
use nostall_devices::uart::Profile;
use nostall_vm::Device;
use nostall_vm::qemu::QemuBoard;

use super::files::Files;
use super::peers::PeerArg;

/// Arguments of every experiment. `--on`, `--machine` and `--cpus` are narrowed to the values that it
/// can take, using [`on`], [`boards`] and [`cpus`].
#[derive(clap::Args)]
pub struct Common {
    /// Machine to run on
    ///
    /// `auto` takes the best machine that supports all given options. A note reports if a better
    /// machine was passed over.
    #[arg(long, value_enum, default_value_t = OnArg::Auto)]
    pub on: OnArg,

    /// Machine that QEMU emulates
    #[arg(long, value_parser = board)]
    pub machine: Option<QemuBoard>,

    /// CPUs of the machine
    #[arg(long, value_name = "N")]
    pub cpus: Option<u16>,

    #[command(flatten)]
    pub files: Files,

    /// Guest kernel to boot instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,

    /// Extra argument for QEMU (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub qemu_arg: Vec<OsString>,

    /// Systems to measure beside nostall, separated by commas
    ///
    /// Each Linux is built with `make linux-peer`. It boots in QEMU, in turn with nostall's kernel.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub peers: Vec<PeerArg>,
}

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnArg {
    /// Best available machine
    Auto,
    /// QEMU, in its own process
    Qemu,
    /// nostall's own small machine, on the host's KVM
    Kvm,
    /// No guest: drivers on device models in virtual time, or on threads of the host
    Model,
}

impl OnArg {
    /// Machines that run a guest.
    pub const GUESTS: &[Self] = &[Self::Qemu, Self::Kvm];
    /// KVM, where it can be.
    pub const KVM: &[Self] = &[Self::Kvm];
    /// All machines; the best comes first.
    pub const BEST: &[Self] = &[Self::Kvm, Self::Qemu, Self::Model];

    /// Stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Qemu => "qemu",
            Self::Kvm => "kvm",
            Self::Model => "model",
        }
    }
}

/// Returns a machine's description for the help text.
const fn about(board: QemuBoard) -> &'static str {
    match board {
        QemuBoard::Q35 => "A PC with PCI Express",
        QemuBoard::Virt => "QEMU's own RISC-V machine, with a 16550 and PCI Express",
        QemuBoard::SifiveU => "SiFive's RISC-V board of 2018, with SPI, and without 16550 and PCI",
        QemuBoard::ArmVirt => "QEMU's own Arm machine, with PCI Express and a 16550 on it",
        QemuBoard::ArmVirtPl011 => "The same machine with its own serial port, a PL011",
    }
}

/// A machine that QEMU emulates, from its name.
fn board(name: &str) -> Result<QemuBoard, String> {
    name.parse()
        .map_err(|_| format!("QEMU's machine {name} is not used"))
}

/// An option that was given, and the machines on which it has a meaning.
pub struct GivenOption {
    /// The option as it was given, as in `--profile vm`.
    pub option: String,
    /// Where it has a meaning.
    pub on: &'static [OnArg],
}

impl GivenOption {
    /// The option, if `is_given`.
    pub fn flag(name: &str, is_given: bool, on: &'static [OnArg]) -> Option<Self> {
        let option = name.to_owned();
        is_given.then_some(Self { option, on })
    }

    /// The option with its value, if there is one.
    pub fn with(name: &str, value: Option<impl Display>, on: &'static [OnArg]) -> Option<Self> {
        let option = format!("{name} {}", value?);
        Some(Self { option, on })
    }
}

impl Common {
    /// Returns the given options of these, CPUs apart.
    pub fn given(&self) -> Vec<GivenOption> {
        let all = [
            GivenOption::with("--machine", self.machine, &[OnArg::Qemu]),
            GivenOption::flag("--kernel", self.kernel.is_some(), OnArg::GUESTS),
            GivenOption::flag("--qemu-arg", !self.qemu_arg.is_empty(), &[OnArg::Qemu]),
        ];
        all.into_iter().flatten().collect()
    }

    /// Returns the number of CPUs, if it was given and has a meaning only in a guest.
    pub fn given_cpus(&self) -> Vec<GivenOption> {
        let cpus = GivenOption::flag("--cpus", self.cpus.is_some(), OnArg::GUESTS);
        cpus.into_iter().collect()
    }
}

/// Narrows `--on` to `auto` and these.
pub fn on(values: &'static [OnArg]) -> impl FnOnce(Arg) -> Arg {
    let all = [OnArg::Auto].into_iter().chain(values.iter().copied());
    let values: Vec<_> = all.filter_map(|on| on.to_possible_value()).collect();
    let parser = PossibleValuesParser::new(values);
    |arg| arg.value_parser(parser.try_map(|name| OnArg::from_str(&name, false)))
}

/// Narrows `--machine` to the machines that have these devices; the first is the usual one.
pub fn boards(devices: &'static [Device]) -> impl FnOnce(Arg) -> Arg {
    let has_all = |board: &QemuBoard| devices.iter().all(|one| board.devices().contains(one));
    let boards: Vec<_> = QemuBoard::ALL.into_iter().filter(has_all).collect();
    let usual = boards.first().map_or("", |board| board.name());
    let help = format!("Machine that QEMU emulates; the default is {usual}");
    let values = boards.iter();
    let values = values.map(|&board| PossibleValue::new(board.name()).help(about(board)));
    let parser = PossibleValuesParser::new(values.collect::<Vec<_>>());
    |arg| {
        let arg = arg.help(help);
        arg.value_parser(parser.try_map(|name| board(&name)))
    }
}

/// Narrows `--cpus` to `range`.
pub fn cpus(usual: u16, range: RangeInclusive<u16>) -> impl FnOnce(Arg) -> Arg {
    let (fewest, most) = (*range.start(), *range.end());
    let help = format!("CPUs of the machine, {fewest} to {most}; the default is {usual}");
    let range = i64::from(fewest)..=i64::from(most);
    move |arg| arg.help(help).value_parser(value_parser!(u16).range(range))
}

/// A profile, from its name.
pub fn profile(name: &str) -> Result<Profile, String> {
    let mut all = Profile::ALL.into_iter();
    all.find(|profile| profile.name == name).ok_or_else(|| {
        let names = Profile::ALL.map(|profile| profile.name);
        format!("the profiles are {}", names.join(", "))
    })
}
