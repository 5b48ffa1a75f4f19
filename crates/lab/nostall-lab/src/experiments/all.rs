//! `nostall-lab run all`: the tour, every experiment in full, and one document of their figures.

use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::args::Common;
use super::document;
use super::entry::Entry;
use super::experiment::command_line;
use super::tour::Tour;
use super::tour::run_result::{RunResult, gathered};
use crate::output::note;
use crate::report::page::Supplied;

pub const NAME: &str = "all";

/// The arguments.
pub struct All {
    common: Common,
    /// Options for every experiment.
    options: Vec<String>,
    has_tour: bool,
}

/// Returns the command's arguments.
pub fn command() -> Command {
    Common::augment_args(Command::new(NAME))
        .about("Run the tour, and then every experiment in full")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

const ABOUT: &str = "\
Run the tour, and then every experiment in full

Takes several minutes. Each experiment runs on the best machine that it finds, and prints its \
table. The options apply to every experiment; --on leaves out the tour. If an experiment fails, \
only its own figures are missing: the others run, the files are written, and the exit status is 1.";

const EXAMPLES: &str = "\
Examples:
  nostall-lab run all --report all.html     every figure, and a page of them
  nostall-lab run all --on model            without any virtual machine";

impl FromArgMatches for All {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            common: Common::from_arg_matches(matches)?,
            options: options(matches),
            has_tour: !is_given(matches, "on"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns the options that were given, except those that name files of figures.
fn options(matches: &ArgMatches) -> Vec<String> {
    let command = command();
    let mut options = Vec::new();
    for arg in command.get_arguments() {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else {
            continue;
        };
        if ["json", "report"].contains(&id) || !is_given(matches, id) {
            continue;
        }
        if !arg.get_action().takes_values() {
            options.push(format!("--{long}"));
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten();
        options.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
    }
    options
}

impl All {
    /// Runs the experiments of `entries`.
    pub fn run(self, entries: &'static [Entry], supplied: Supplied) -> Result<()> {
        let files = &self.common.files;
        files.probe()?;
        let mut faults = Vec::new();
        let tour = self.has_tour.then(|| Tour::of(entries));
        if let Some(tour) = &tour {
            files.print(&tour.text)?;
            faults.extend_from_slice(&tour.faults);
        }
        let mut runs = Vec::new();
        for entry in entries {
            let command = self.command_of(entry.name);
            files.print(&format!("\n$ {command}"))?;
            let options: Vec<_> = self.options.iter().map(|one| &**one).collect();
            let why = match (entry.make)(&options) {
                Ok(mut ran) => {
                    ran.set_command(&command);
                    let why = match &ran {
                        RunResult::Answered { text, failure, .. } => {
                            files.print(text)?;
                            failure.clone()
                        }
                        RunResult::Lacks(why) => Some(format!("not run: {why}")),
                    };
                    runs.push(ran);
                    why
                }
                Err(error) => Some(line(&error)),
            };
            if let Some(why) = why {
                // The experiments that follow take minutes.
                note(format_args!("{command}: {why}"));
                faults.push(format!("{command}: {why}"));
            }
        }
        let of_tour = tour.iter().flat_map(|tour| tour.runs.made());
        let all = gathered(runs.iter().chain(of_tour));
        let written = document::write(files, &all, supplied);
        faults.extend(written.err().map(|error| format!("{error:#}")));
        if !faults.is_empty() {
            bail!("not all is as it should be:\n  {}", faults.join("\n  "));
        }
        Ok(())
    }

    fn command_of(&self, name: &str) -> String {
        let words = ["run".to_owned(), name.to_owned()];
        command_line(words.into_iter().chain(self.options.iter().cloned()))
    }
}

/// Returns an error without the usage that follows a wrong option.
fn line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let is_usage = error.is::<clap::Error>();
    let end = text.find("\n").filter(|_| is_usage).unwrap_or(text.len());
    text[..end].trim_start_matches("error: ").to_owned()
}
