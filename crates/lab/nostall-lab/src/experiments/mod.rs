//! `nostall-lab run`: the experiments, each in a folder of its own.

mod all;
mod args;
pub mod console;
mod document;
mod entry;
mod experiment;
mod files;
mod kvm;
mod on;
pub mod pci;
mod peers;
mod progress;
pub mod pstore;
mod runner;
pub mod spi;
mod tour;
pub mod trace;
pub mod uart;
mod verdict;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches};
use entry::{Entry, Run};
use files::Files;

use crate::report::page::Supplied;

/// The experiments: one line each.
const EXPERIMENTS: &[Entry] = &[
    Entry::of::<uart::Args>(),
    Entry::of::<pstore::Args>(),
    Entry::of::<pci::Args>(),
    Entry::of::<spi::Args>(),
    Entry::of::<console::Args>(),
    Entry::of::<trace::Args>(),
];

/// The experiment that the arguments name, or the tour.
pub struct Args(Run);

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let experiments = EXPERIMENTS.iter();
        let experiments = experiments.map(|one| (one.command)(Command::new(one.name)));
        <Files as clap::Args>::augment_args(command)
            .about("Compare ways of doing I/O: a short tour of all, or one experiment")
            .long_about(ABOUT)
            .subcommands(experiments)
            .subcommand(all::command())
            .override_usage(USAGE)
            .after_help(MORE)
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

const USAGE: &str = "\
nostall-lab run [--json FILE] [--report FILE.html]
       nostall-lab run EXPERIMENT [OPTIONS]
       nostall-lab run all [OPTIONS]";

const ABOUT: &str = "\
Compare ways of doing I/O: a short tour of all, or one experiment

Without an experiment, runs the tour: a short form of each in about a minute, and one table. If \
the machine of a row (QEMU, KVM) is missing, the row shows the reason.

With an experiment, runs it in full: in a virtual PC, RISC-V or Arm machine that boots nostall's \
reference kernel, or on models. `all` runs every experiment in full.";

const MORE: &str = "\
Exit status of the tour: 0 if every row that could run is correct; 1 if an exact count differs, \
a figure is missing or a run fails. Rows on models and threads can always run.

`nostall-lab run EXPERIMENT --help` lists the options and examples of an experiment. `--report \
FILE.html` makes a page with charts; `nostall-lab report` makes one from recorded figures.";

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let files = Files::from_arg_matches(matches)?;
        let Some((name, matches)) = matches.subcommand() else {
            let tour = move || tour::run(EXPERIMENTS, &files, SUPPLIED);
            return Ok(Self(Box::new(tour)));
        };
        let given = [files.json.is_some(), files.report.is_some()];
        let given = Files::OPTIONS.iter().zip(given).find(|(_, given)| *given);
        if let Some((option, _)) = given {
            let message =
                format!("{option} before '{name}' belongs to the tour: give it after '{name}'");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
        if name == all::NAME {
            let all = all::All::from_arg_matches(matches)?;
            return Ok(Self(Box::new(move || all.run(EXPERIMENTS, SUPPLIED))));
        }
        let entry = EXPERIMENTS.iter().find(|one| one.name == name);
        let entry = entry.ok_or_else(|| {
            let run = <Self as clap::Args>::augment_args(Command::new("run"));
            let mut run = run
                .bin_name("nostall-lab run")
                .help_template("{subcommands}");
            let list = run.render_help().to_string();
            let list = list.trim_end();
            let message = format!("there is no experiment '{name}'\n\nExperiments:\n{list}");
            clap::Error::raw(ErrorKind::InvalidSubcommand, message).format(&mut run)
        })?;
        (entry.parse)(matches, SUPPLIED).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The experiments' parts of a page.
pub const SUPPLIED: Supplied = Supplied {
    tour: |source| tour::summary::summary(EXPERIMENTS, source),
    parts: |name| {
        let mut entries = EXPERIMENTS.iter();
        let entry = entries.find(|entry| entry.name == name)?;
        Some(&entry.page)
    },
};

/// Runs the experiment that the arguments name, or the tour if they name none.
///
/// # Errors
///
/// Any failure of the run, as one line for the user.
pub fn run(args: Args) -> Result<()> {
    (args.0)()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_of_nostall_are_known_and_so_is_its_row_beside_linux() {
        let is_ours = |path, strategy| (SUPPLIED.parts)(path).unwrap().is_ours(strategy);
        for (path, ours) in [
            ("uart", "fifo-paced"),
            ("pstore", "per-cpu-clock"),
            ("spi", "caller"),
            ("pci", "auto"),
            ("console", "bounded"),
            ("trace", "nostall"),
        ] {
            assert!(is_ours(path, ours), "{path} {ours}");
        }
        for other in ["linux-6.1", "linux-6.1-after", "byte-polled", "nostalls"] {
            assert!(!is_ours("uart", other), "{other}");
        }
        assert!((SUPPLIED.parts)("moon").is_none());
    }
}
