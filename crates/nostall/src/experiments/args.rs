//! Arguments that experiments share.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum, value_parser};
use nostall_devices::uart::Profile;
use nostall_vm::qemu::Machine;

/// Arguments of every experiment. Each narrows `--on`, `--machine` and `--cpus` to the values
/// that it can take, using [`on`], [`boards`] and [`cpus`].
#[derive(clap::Args)]
pub struct Common {
    /// Machine to run on
    ///
    /// `auto` takes the best machine that has a meaning for all options given, and says so if
    /// that is less than the best of all.
    #[arg(long, value_enum, default_value_t = OnArg::Auto)]
    pub on: OnArg,

    /// Machine that QEMU emulates
    #[arg(long, value_enum)]
    pub machine: Option<Board>,

    /// CPUs of the machine
    #[arg(long, value_name = "N")]
    pub cpus: Option<u16>,

    /// Write the figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Guest kernel to boot, instead of the one inside this command
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,

    /// One more argument for QEMU; may be given again
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub qemu_arg: Vec<OsString>,
}

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnArg {
    /// The best that is there
    Auto,
    /// QEMU, in a process of its own
    Qemu,
    /// A small machine of our own, in this process, using the host's KVM
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Kvm,
    /// No guest: the drivers against device models in virtual time, or on threads
    Model,
}

impl OnArg {
    /// Machines that run a guest.
    pub const GUESTS: &[Self] = &[
        Self::Qemu,
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Self::Kvm,
    ];
    /// KVM, where it can be.
    pub const KVM: &[Self] = &[
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Self::Kvm,
    ];
    /// All machines; the best comes first.
    pub const BEST: &[Self] = &[
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Self::Kvm,
        Self::Qemu,
        Self::Model,
    ];

    /// Stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Qemu => "qemu",
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Self::Kvm => "kvm",
            Self::Model => "model",
        }
    }
}

/// A machine that QEMU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Board {
    /// A PC with PCI Express
    Q35,
    /// QEMU's own RISC-V machine, with a 16550 and PCI Express
    Virt,
    /// SiFive's RISC-V board of 2018, with SPI, and without 16550 and PCI
    #[value(name = "sifive_u")]
    SifiveU,
}

impl From<Board> for Machine {
    fn from(board: Board) -> Self {
        match board {
            Board::Q35 => Self::Q35,
            Board::Virt => Self::Virt,
            Board::SifiveU => Self::SifiveU,
        }
    }
}

/// An option that was given, and the machines on which it has a meaning.
pub struct Given {
    /// The option as it was given, as in `--profile vm`.
    pub option: String,
    /// Where it has a meaning.
    pub on: &'static [OnArg],
}

impl Given {
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
    /// What was given of these, CPUs apart.
    pub fn given(&self) -> Vec<Given> {
        // The usual machine is no wish.
        let board = self.machine.map(Machine::from);
        let board = board.filter(|board| *board != Machine::default());
        let all = [
            Given::with("--machine", board, &[OnArg::Qemu]),
            Given::flag("--kernel", self.kernel.is_some(), OnArg::GUESTS),
            Given::flag("--qemu-arg", !self.qemu_arg.is_empty(), &[OnArg::Qemu]),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Narrows an argument to some values of an enumeration.
fn only<T: ValueEnum + Send + Sync + 'static>(
    values: impl IntoIterator<Item = T>,
) -> impl FnOnce(Arg) -> Arg {
    let values: Vec<_> = values
        .into_iter()
        .filter_map(|value| value.to_possible_value())
        .collect();
    move |arg| {
        let parser = PossibleValuesParser::new(values);
        arg.value_parser(parser.try_map(|value| T::from_str(&value, false)))
    }
}

/// Narrows `--on` to `auto` and these.
pub fn on(values: &'static [OnArg]) -> impl FnOnce(Arg) -> Arg {
    only([OnArg::Auto].into_iter().chain(values.iter().copied()))
}

/// Narrows `--machine` to the machines that fit; the first is the usual one.
pub fn boards(fits: fn(Machine) -> bool) -> impl FnOnce(Arg) -> Arg {
    let all = Board::value_variants().iter().copied();
    let boards: Vec<_> = all.filter(|board| fits((*board).into())).collect();
    let usual = boards
        .first()
        .map_or("", |board| Machine::from(*board).name());
    let help = format!("Machine that QEMU emulates; {usual} if not given");
    move |arg| only(boards)(arg).help(help)
}

/// Narrows `--cpus` to `range`.
pub fn cpus(usual: u16, range: RangeInclusive<u16>) -> impl FnOnce(Arg) -> Arg {
    let (fewest, most) = (*range.start(), *range.end());
    let help = format!("CPUs of the machine, {fewest} to {most}; {usual} if not given");
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

/// Opens the file of that name; `-` is standard input.
pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(match path.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(path)?),
    })
}
