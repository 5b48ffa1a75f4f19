//! The commands, for the binary `nostall-fleet` and for `nostall postmortem`.

use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches, Subcommand};
use nostall_postmortem::cli as postmortem;
use nostall_postmortem::cli::output::{fail, to_stdout};

use crate::{export, synth};

/// A command.
#[derive(Clone, Debug, Subcommand)]
#[allow(missing_docs, reason = "the help is that of the arguments")]
pub enum Command {
    Export(export::Args),
    Synth(synth::Args),
}

/// Runs a command, and prints its summary.
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Export(args) => export::run(args).map(|summary| summary.to_string()),
        Command::Synth(args) => {
            let made = synth::run(args);
            let dumps = postmortem::counted(args.dumps, "dump");
            made.map(|_| format!("{dumps} in {}", args.out.display()))
        }
    };
    match done.and_then(|line| to_stdout(|out| writeln!(out, "{line}"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// `nostall postmortem`: one dump's records, or a command for many dumps.
pub enum Postmortem {
    /// Images whose records are shown.
    Images(Box<postmortem::Args>),
    /// A command of this crate.
    Fleet(Box<Command>),
}

impl Postmortem {
    /// Runs the command with these arguments.
    pub fn run(&self) -> ExitCode {
        match self {
            Self::Images(args) => postmortem::run(args).unwrap_or_else(|error| fail(&error)),
            Self::Fleet(command) => run(command),
        }
    }
}

// Not derived: a flattened struct that is optional is absent even if its options are given.
impl clap::Args for Postmortem {
    fn augment_args(command: clap::Command) -> clap::Command {
        // The help is that of the arguments, which are therefore the last.
        let command = Command::augment_subcommands(command);
        <postmortem::Args as clap::Args>::augment_args(command)
            .subcommand_required(false)
            .arg_required_else_help(false)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Postmortem {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(match matches.subcommand_name() {
            Some(_) => Self::Fleet(Box::new(Command::from_arg_matches(matches)?)),
            None => Self::Images(Box::new(postmortem::Args::from_arg_matches(matches)?)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    fn parse(words: &str) -> Result<Postmortem, clap::Error> {
        let command = Postmortem::augment_args(clap::Command::new("postmortem"));
        let words = ["postmortem"].into_iter().chain(words.split_whitespace());
        Postmortem::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn an_image_and_a_command_for_many_are_distinguished() {
        for words in [
            "image",
            "-q image",
            "--all --swap 4 a b",
            "--ecc 1 image",
            "./export",
            // The command is the first word.
            "--all synth --out o",
        ] {
            assert!(matches!(parse(words), Ok(Postmortem::Images(_))), "{words}");
        }
        for words in [
            "export --out o i",
            "export --out o --manifest m",
            "synth --out o",
        ] {
            assert!(matches!(parse(words), Ok(Postmortem::Fleet(_))), "{words}");
        }
        for words in ["", "-q", "export", "export --out o"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn the_help_is_that_of_one_image_with_the_commands() {
        let mut command = Postmortem::augment_args(clap::Command::new("postmortem"));
        let help = command.render_long_help().to_string();
        for words in [
            "LiME",
            "--record-size",
            "Standard input, pipes and devices",
            "export",
            "synth",
        ] {
            assert!(help.contains(words), "{words}: {help}");
        }
    }
}
