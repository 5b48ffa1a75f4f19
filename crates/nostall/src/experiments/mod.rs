//! `nostall run`: the experiments, each in a folder of its own.

mod args;
pub mod console;
mod document;
mod experiment;
mod figure;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kvm;
mod on;
pub mod pci;
mod progress;
pub mod pstore;
pub mod spi;
pub(crate) mod table;
pub mod uart;
mod verdict;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches};
use experiment::Experiment;

/// The experiments: one line each.
const EXPERIMENTS: &[Entry] = &[
    Entry::of::<uart::Args>("uart"),
    Entry::of::<pstore::Args>("pstore"),
    Entry::of::<pci::Args>("pci"),
    Entry::of::<spi::Args>("spi"),
    Entry::of::<console::Args>("console"),
];

/// An experiment, whatever its arguments.
struct Entry {
    name: &'static str,
    command: fn(Command) -> Command,
    parse: fn(&ArgMatches) -> Result<Run, clap::Error>,
}

type Run = Box<dyn FnOnce() -> Result<()>>;

impl Entry {
    const fn of<E: Experiment + 'static>(name: &'static str) -> Self {
        Self {
            name,
            command: E::augment_args,
            parse: |matches| {
                let experiment = E::from_arg_matches(matches)?;
                Ok(Box::new(move || experiment::run(&experiment)))
            },
        }
    }
}

/// The experiment that the arguments name.
pub struct Args(Run);

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let experiments = EXPERIMENTS.iter();
        let experiments = experiments.map(|one| (one.command)(Command::new(one.name)));
        command
            .about("Run an experiment: compare ways of doing I/O on a machine")
            .long_about(ABOUT)
            .subcommands(experiments)
            .override_usage("nostall run [EXPERIMENT [OPTIONS]]")
            .after_help("`nostall run EXPERIMENT --help` has an experiment's options and examples.")
            .subcommand_value_name("EXPERIMENT")
            .subcommand_help_heading("Experiments")
            .disable_help_subcommand(true)
            // Unknown names come to `from_arg_matches`, whose error lists the experiments.
            .allow_external_subcommands(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

const ABOUT: &str = "\
Run an experiment: compare ways of doing I/O on a machine

Boots a virtual PC, or a RISC-V machine, with nostall's reference kernel, or runs on models.";

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Ok(Self(Box::new(list)));
        };
        let entry = EXPERIMENTS.iter().find(|one| one.name == name);
        let entry = entry.ok_or_else(|| {
            let names: Vec<_> = EXPERIMENTS.iter().map(|one| one.name).collect();
            let names = names.join(", ");
            let message = format!("there is no experiment '{name}': they are {names}\n");
            clap::Error::raw(ErrorKind::InvalidSubcommand, message)
        })?;
        (entry.parse)(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Lists the experiments.
fn list() -> Result<()> {
    let command = <Args as clap::Args>::augment_args(Command::new("nostall run"));
    Ok(command
        .disable_help_flag(true)
        .max_term_width(100)
        .print_help()?)
}

/// Runs the experiment that the arguments name, or lists all if they name none.
///
/// # Errors
///
/// Whatever is not as it should be, in one line for a person.
pub fn run(args: Args) -> Result<()> {
    (args.0)()
}
